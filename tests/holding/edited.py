"""Pools whose users change their minds: edits of any field at any time, and deletion with all that they own."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.holding.cluster import bound_to
from tests.holding.operation import TEAM, Operation, pool_body
from weft.domain import labels
from weft.domain.action import CreatePod, DeletePod, LabelPod, UnroutePod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.action import Action

Json = dict[str, Any]

EDITS: dict[str, tuple[Json, ...]] = {
    "model": ({"id": "meta-llama/Llama-3.1-8B-Instruct"}, {"id": "Qwen/Qwen3-8B"}, {"id": "nobody/knows-it"}),
    "engine": (
        {"name": "VLLM"},
        {"name": "VLLM", "version": "0.10.0"},
        {"name": "SGLang"},
        {"name": "VLLM", "env": [{"name": "A", "value": "1"}]},
        {"name": "VLLM", "args": ["--tensor-parallel-size=3"]},
    ),
    "shape": (*({"tensorParallel": each, "pipelineParallel": 1, "dataParallel": 1} for each in (1, 2, 4)), {}),
    "router": ({"type": "None"}, {"type": "Managed", "replicas": 2}, {"type": "Gateway"}),
    "scaling": (
        {"mode": "External", "replicas": 1, "maxReplicas": 9},
        {"mode": "External", "replicas": 2, "maxReplicas": 9},
        {"mode": "External", "replicas": 0},
        {"minReplicas": 0},
        {"minReplicas": 2, "maxReplicas": 3},
    ),
    "rollout": ({}, {"strategy": "Recreate"}, {"paused": True}, {"maxSurge": 0, "maxUnavailable": 1}),
    "placement": ({"accelerators": ["H200"]}, {"accelerators": ["B200"]}),
}
FIRST = ("model", "engine", "shape", "router", "rollout", "placement")


@dataclass
class Edited(Operation):
    """Pools that come and go; garbage collection takes what they leave behind when `collect_garbage` is called."""

    born: int = 0
    gone: set[str] = field(default_factory=set)  # UIDs of pools

    def change(self, name: str, field_name: str, index: int) -> None:
        """One field of the spec is another one."""
        if name in self.bodies:
            choices = EDITS[field_name]
            self.edit(name, **{field_name: copy.deepcopy(choices[index % len(choices)])})

    def make(self, name: str) -> None:
        """Its user creates it, maybe once more, under another UID."""
        if name not in self.bodies:
            self.born += 1
            body = pool_body(name, "H200", 1, 1, engine={"name": "VLLM"})
            body["metadata"]["uid"] = f"uid-{name}-{self.born}"
            self.bodies[name] = body

    def unmake(self, name: str) -> None:
        """Its user deletes it; what it owned is still there."""
        body = self.bodies.pop(name, None)
        self.parts.pop(name, None)
        self.edited.discard(name)
        if body is not None:
            self.gone.add(body["metadata"]["uid"])

    def collect_garbage(self) -> None:
        """Whatever belongs to pools that are gone is deleted."""
        for record in self.cluster.objects_of(TEAM):
            if record.owner_uid in self.gone:
                self.cluster.forget_object(record.kind, record.name)
        for pod in list(self.cluster.pods.values()):
            if owner_of(pod) in self.gone and "deletionTimestamp" not in pod["metadata"]:
                self.cluster.delete(pod["metadata"]["name"])

    def go_on(self) -> None:
        self.collect_garbage()
        super().go_on()

    def pods_of(self, name: str, replica: int | None = None) -> list[Json]:
        """Those of the pool that has this name now."""
        uid = self.bodies[name]["metadata"]["uid"]
        return [pod for pod in super().pods_of(name, replica) if owner_of(pod) == uid]

    def left_over(self) -> Iterator[str]:
        """What is there of pools that are not."""
        there = {body["metadata"]["uid"] for body in self.bodies.values()}
        yield from (name for name, pod in self.cluster.pods.items() if owner_of(pod) not in {"", *there})
        yield from (record.name for record in self.cluster.objects_of(TEAM) if record.owner_uid not in there)

    def _check(self, action: Action, name: str) -> None:
        """S3 and S10: writes to pods are to those of this very pool, and to none that ends."""
        if isinstance(action, CreatePod):
            self.made[action.body["metadata"]["name"]] += 1
        if isinstance(action, DeletePod | UnroutePod | LabelPod):
            pod = self.cluster.pods[action.name]
            assert self.bodies[name]["metadata"]["uid"] == owner_of(pod)
            assert "deletionTimestamp" not in pod["metadata"]
            assert pod["metadata"]["labels"][labels.POOL] == name

    def answering(self, name: str) -> set[int]:
        """Replicas with an assignment that serve."""
        return set(self.serving(name)) if name in self.bodies else set()


def owner_of(pod: Json) -> str:
    """UID of the pool that a pod belongs to; empty for the pods of others."""
    owners = pod["metadata"].get("ownerReferences") or [{}]
    return str(owners[0].get("uid", ""))


def gpus_promised(world: Edited) -> dict[str, int]:
    """GPUs by node that bound pods hold and assignments promise beside them."""
    promised = dict(world.held())
    for name in world.bodies:
        for each in world.assignments(name):
            here = {bound_to(pod) for pod in world.pods_of(name, each.replica) if bound_to(pod)}
            for node in set(each.nodes) - here:
                promised[node] = promised.get(node, 0) + each.gpus_per_pod
    return promised
