"""A split around a simulated cluster: its two halves, and routers that choose among what carries their labels."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from tests.holding.cluster import Cluster, bound_to, stamp
from tests.holding.operation import TEAM, Json, Operation
from weft.api import parse_split, pool_status, split_converge_status, split_status
from weft.catalog import load
from weft.control.converging.one_pass import with_problem
from weft.converge import converge_split
from weft.decide import decide, in_safe_order
from weft.domain import labels
from weft.domain.action import Action, ApplyObject
from weft.domain.decision import PoolDecision
from weft.domain.snapshot import Snapshot, SplitRecord
from weft.domain.status import SplitProgress

if TYPE_CHECKING:
    from weft.domain.errors import WeftError

HALVES = ("prefill", "decode")
GRACE_SECONDS = 330.0  # of routers
MADE = {"labels": {}, "resourceVersion": "1"}


def split_body(prefill: int, decode: int, **more: Any) -> Json:  # noqa: ANN401 - any field
    """A PDSplit `duo` of a small model with fixed counts."""
    spec = {
        "model": {"id": "meta-llama/Llama-3.1-8B-Instruct"},
        "shape": {"tensorParallel": 1, "pipelineParallel": 1, "dataParallel": 1},
        "placement": {"accelerators": ["H200"]},
        "prefill": {"scaling": _exactly(prefill)},
        "decode": {"scaling": _exactly(decode)},
        "router": {"type": "Managed", "replicas": 2},
        **more,
    }
    meta = {"name": "duo", "namespace": TEAM, "uid": "uid-duo", "generation": 1, "resourceVersion": "1"}
    return {"apiVersion": labels.API_VERSION, "kind": "PDSplit", "metadata": meta, "spec": spec}


def _is_of_a_child(action: Action) -> bool:
    return isinstance(action, ApplyObject) and action.body["kind"] == "InferencePool"


def _exactly(count: int) -> Json:
    return {"minReplicas": count, "maxReplicas": count}


@dataclass
class Pair(Operation):
    """One split. Routers start and end with their Deployment; those that end take `ending_turns` for their streams."""

    split: Json = field(default_factory=dict)
    split_parts: dict[str, Json] = field(default_factory=dict)
    ending_turns: int = 2
    going: Counter[str] = field(default_factory=Counter)  # turns that a router has been terminating
    born: int = 0
    refusal: WeftError | None = None  # of its children, whatever an edit makes of them

    @classmethod
    def on(cls, nodes: list[Json], split: Json) -> Self:
        """A cluster in which nothing has happened yet."""
        return cls(Cluster({node["metadata"]["name"]: node for node in nodes}), {}, split=split)

    def record(self) -> SplitRecord:
        """As the operator reads it."""
        return parse_split(self.split)

    def snapshot(self) -> Snapshot:
        cluster = self.cluster
        seen = (self.pools(), (self.record(),), cluster.node_records(), cluster.pod_records())
        return Snapshot(cluster.now, *seen, self.heard(), dict(self.memory), self.reports, budget=self.budget)

    def decide(self) -> None:
        now, snapshot = self.cluster.now, self.snapshot()
        self.last = decide(snapshot, load())
        self.memory = dict(self.last.memory)
        refused = {self.bodies[name]["metadata"]["uid"] for name in self.edited if name in self.bodies}
        for each in in_safe_order(self.last.pools, snapshot.pools):
            assert isinstance(each.decision, PoolDecision)
            decision = each.decision
            if not refused.isdisjoint({decision.key.uid, *each.after}):
                continue
            live = self.bodies[decision.key.name].get("status") or {}
            self._persist(decision.key.name, labels.DECIDE_MANAGER, pool_status(decision, live, now))
        for told in self.last.splits:
            live = self.split.get("status") or {}
            self._write_split(labels.DECIDE_MANAGER, split_status(told, live, now))

    def converge_the_split(self) -> None:
        """One pass over the split; its children appear as pools."""
        seen = (self.pools(), self.objects_seen(), self.cluster.pod_records())
        done = converge_split(self.record(), *seen, self.cluster.now)
        problem = self._carry_out_for_the_split(done.actions)
        self._adopt_children()
        live = self.split.get("status") or {}
        progress = with_problem(done.progress, problem)
        assert isinstance(progress, SplitProgress)
        wanted = split_converge_status(progress, live, self.cluster.now)
        self._write_split(labels.CONVERGE_MANAGER, wanted)

    def _carry_out_for_the_split(self, actions: tuple[Action, ...]) -> WeftError | None:
        """Carry out what is not refused; gives the refusal."""
        refused = [each for each in actions if self.refusal is not None and _is_of_a_child(each)]
        for action in actions:
            if action not in refused:
                self.cluster.carry_out(action)
                self._count()
        return self.refusal if refused else None

    def _adopt_children(self) -> None:
        for record in self.cluster.objects_of(TEAM):
            if (record.api_version, record.kind) == (labels.API_VERSION, "InferencePool"):
                body, known = copy.deepcopy(record.body), self.bodies.get(record.name, {})
                made = {**MADE, **body["metadata"], "uid": f"uid-{record.name}"}
                body["metadata"] = {**made, "generation": _generation(known, body["spec"])}
                self.bodies[record.name] = {**body, **({"status": known["status"]} if "status" in known else {})}

    def _write_split(self, manager: str, wanted: Json) -> None:
        if self.split_parts.get(manager) == wanted:
            return
        self.split_parts[manager] = copy.deepcopy(wanted)
        self.split["status"] = {key: value for part in self.split_parts.values() for key, value in part.items()}
        self.split["status"]["conditions"] = [c for part in self.split_parts.values() for c in part["conditions"]]
        self._count()

    def turn(self, turns: int = 1, seconds: float = 5.0) -> None:
        for _ in range(turns):
            self.cluster.now += seconds
            self.decide()
            self.converge_the_split()
            for name in list(self.bodies):
                self.converge(name)
            self.go_on()

    def go_on(self) -> None:
        self.route()
        super().go_on()

    # what the Deployment controller and routers do

    def route(self) -> None:
        """Each Deployment has as many pods as it says; the others end, after some turns."""
        found = [record for record in self.cluster.objects_of(TEAM) if record.kind == "Deployment"]
        for record in found:
            spec, status = record.body["spec"], self.cluster.object(record.kind, record.name).setdefault("status", {})
            self._scale(record.name, spec["replicas"], spec["template"])
            serving = self.is_pair(spec["template"]["metadata"]["labels"][labels.PAIR])
            status["readyReplicas"] = spec["replicas"] if serving else 0
            self._answer(record.name, answers=status["readyReplicas"] > 0)
        for gone in {_deployment(name) for name in self._router_pods()} - {record.name for record in found}:
            self._scale(gone, 0, {})
            self._answer(gone, answers=False)
        for name in list(self.going):
            self._end(name)

    def _answer(self, deployment: str, *, answers: bool) -> None:
        """Routers of a Deployment pass their probe, or do not, as those that end do not."""
        for name in self._router_pods():
            said = [{"type": "Ready", "status": "True"}] if answers and name not in self.going else []
            status = self.cluster.pods[name]["status"]
            if _deployment(name) == deployment and status["conditions"] != said:
                status["conditions"] = said
                self.cluster.revision += 1

    def _router_pods(self) -> list[str]:
        return [name for name, pod in self.cluster.pods.items() if labels.FRONT_OF in pod["metadata"]["labels"]]

    def _scale(self, deployment: str, replicas: int, template: Json) -> None:
        there = [name for name in self._router_pods() if _deployment(name) == deployment and name not in self.going]
        self.going.update(dict.fromkeys(there[replicas:], 0))
        for _ in range(replicas - len(there)):
            self.born += 1
            name = f"{deployment}-{self.born}"
            self.cluster.pods[name] = _router(name, template)
            self.cluster.revision += 1

    def _end(self, name: str) -> None:
        pod = self.cluster.pods[name]
        if bound_to(pod) in self.cluster.wedged:  # it stays terminating
            pod["metadata"].setdefault("deletionTimestamp", stamp(self.cluster.now + GRACE_SECONDS))
            return
        self.going[name] += 1
        self.cluster.revision += 1
        if self.going[name] > self.ending_turns:
            del self.cluster.pods[name], self.going[name]

    def wedge_a_router(self, node: str) -> str:
        """The kubelet of one router ends no pod any more; gives the router."""
        self.cluster.wedged.add(node)
        name = self._router_pods()[0]
        self.cluster.pods[name]["spec"]["nodeName"] = node
        return name

    def routers(self) -> Counter[str]:
        """Routers that take new requests, by the pair behind them: those that the Service chooses."""
        chosen = self.cluster.object("Service", "duo")["spec"]["selector"]
        tags = (pod["metadata"]["labels"] for name, pod in self.cluster.pods.items() if name not in self.going)
        return Counter(each[labels.PAIR] for each in tags if chosen.items() <= each.items() and labels.PAIR in each)

    def engines(self, half: str, pair: str) -> list[str]:
        """Pods that a router of this pair may choose in one half."""
        found = []
        for name, pod in self.cluster.pods.items():
            tags = pod["metadata"]["labels"]
            wanted = {labels.POOL: f"duo-{half}", labels.PAIR: pair, labels.ROUTED: "true", labels.RANK: "0"}
            if wanted.items() <= tags.items() and self.cluster.serves(pod):
                found.append(name)
        return found

    def pairs(self) -> set[str]:
        """All that engines were rendered for."""
        tags = (pod["metadata"]["labels"] for pod in self.cluster.pods.values())
        return {each[labels.PAIR] for each in tags if labels.PAIR in each and labels.REPLICA in each}

    def is_pair(self, pair: str) -> bool:
        """Whether a router of it finds somebody in both halves."""
        return all(self.engines(half, pair) for half in HALVES)

    def part(self, pair: str) -> float:
        """The part of the desired pairs that one generation can serve: as much as its scarcer half."""
        desired = {half: self.pool(f"duo-{half}").status.desired_replicas for half in HALVES}
        return min(len(self.engines(half, pair)) / desired[half] for half in HALVES)

    def capacity(self) -> float:
        """The part of the desired pairs that can serve, of all generations."""
        return sum(map(self.part, self.pairs()))

    def within_reach(self) -> float:
        """The part of the desired pairs that requests fill before they exceed what one generation serves.

        The Service spreads them evenly over the routers that it chooses.
        """
        routers = self.routers()
        return min((self.part(pair) * routers.total() / count for pair, count in routers.items()), default=0.0)


def _generation(known: Json, spec: Json) -> int:
    """As the API server counts: one more with every spec that differs from the one before."""
    before: int = known["metadata"]["generation"] if known else 0
    return before + (not known or known["spec"] != spec)


def _deployment(router: str) -> str:
    return router.rpartition("-")[0]


def _router(name: str, template: Json) -> Json:
    meta = {"name": name, "namespace": TEAM, "uid": f"uid-{name}", "labels": dict(template["metadata"]["labels"])}
    return {"metadata": meta, "spec": {"containers": []}, "status": {"phase": "Running", "conditions": []}}
