"""A small cluster in memory: it carries actions out, binds and runs pods, and removes what was deleted."""

from __future__ import annotations

import copy
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from tests.fabric.cluster import board, forming
from weft.catalog import load
from weft.converge import Convergence, Heard, converge_pool, converge_split
from weft.converge.replicas import replicas_of
from weft.domain import labels
from weft.domain.action import (
    Action,
    ApplyObject,
    CreatePod,
    DeleteObject,
    DeletePod,
    ForgetWorker,
    LabelPod,
    ReleasePods,
    UnroutePod,
)
from weft.domain.reports import Reports
from weft.domain.texts.times import instant, known_instant
from weft.fabric import build_fabric
from weft.observe.objects.records import read_object, read_pod
from weft.observe.objects.reports import read_compute_domain
from weft.render import ENDPOINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from weft.domain.cluster import NodeRecord, ObjectRecord, PodRecord
    from weft.domain.fabric import Fabric
    from weft.domain.snapshot import PoolRecord, SplitRecord
    from weft.domain.status import PoolProgress, SplitProgress

Json = dict[str, Any]
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


class World:
    """Pods and objects as JSON, read back through the real readers."""

    def __init__(self, *nodes: NodeRecord, driver: bool = False) -> None:
        self.nodes = nodes or (board("node-a"), board("node-b"))
        self.driver = driver  # whether NVIDIA's driver forms ComputeDomains, which have the nodes of their pods
        self.pods: dict[str, Json] = {}
        self.objects: dict[tuple[str, str], Json] = {}
        self.heard = Heard(2000.0)
        self._created = 0
        self._applied: dict[tuple[str, str, str], Json] = {}  # by kind, name and manager
        self._complete: set[tuple[str, int]] = set()  # replicas that the status says were whole, by pool UID and id

    # what a pass sees

    def pod_records(self) -> tuple[PodRecord, ...]:
        found = (read_pod(body) for _, body in sorted(self.pods.items()))
        return tuple(pod for pod in found if pod is not None)

    def object_records(self) -> tuple[ObjectRecord, ...]:
        return tuple(read_object(body) for _, body in sorted(self.objects.items()))

    def fabric(self) -> Fabric:
        return build_fabric(self.nodes, self.pod_records(), load(), self.reports())

    def reports(self) -> Reports:
        if not self.driver:
            return Reports()
        bodies = [body for (kind, _), body in sorted(self.objects.items()) if kind == "ComputeDomain"]
        return forming(*self.nodes, domains=tuple(read_compute_domain(self._joined(body)) for body in bodies))

    def _joined(self, body: Json) -> Json:
        template = body["spec"]["channel"]["resourceClaimTemplate"]["name"]
        claiming = (pod for pod in self.pods.values() if claims(pod) == [template])
        nodes = [{"name": pod["spec"]["nodeName"]} for pod in claiming if "nodeName" in pod["spec"]]
        return {"status": {"nodes": nodes}, **body}

    def look(self, pool: PoolRecord) -> Convergence[PoolProgress]:
        seen = self.noted(pool)
        return converge_pool(seen, self.fabric(), self.pod_records(), self.object_records(), self.heard)

    def noted(self, pool: PoolRecord) -> PoolRecord:
        """The pool as deciding leaves it: replicas whose pods were all there once are noted as complete."""
        for replica in replicas_of(pool, self.pod_records()):
            if replica.whole:
                self._complete.add((pool.key.uid, replica.number))
        status = pool.status
        assignments = (
            replace(each, complete=(pool.key.uid, each.replica) in self._complete) for each in status.assignments
        )
        return replace(pool, status=replace(status, assignments=tuple(assignments)))

    def look_at(self, split: SplitRecord, *children: PoolRecord) -> Convergence[SplitProgress]:
        return converge_split(split, children, self.object_records(), self.pod_records(), 2000.0)

    # what the API server does

    def carry_out(self, *actions: Action) -> None:
        for action in actions:
            self._carry_out(action)

    def _carry_out(self, action: Action) -> None:
        match action:
            case CreatePod():
                name = action.body["metadata"]["name"]
                self.pods.setdefault(name, self._born(action.body, phase="Pending"))
            case ReleasePods():
                for name, uid in action.pods:
                    self._edit(name, uid, ungate)
            case UnroutePod() | LabelPod() | ForgetWorker():
                self._edit(action.name, action.uid, lambda body: relabel(body, action))
            case DeletePod():
                self._edit(action.name, action.uid, lambda body: terminate(body, self.heard.now, action.grace_seconds))
            case ApplyObject():
                self._apply(action)
            case DeleteObject():
                self.objects.pop((action.kind, action.name), None)

    def _edit(self, name: str, uid: str, change: Callable[[Json], object]) -> None:
        body = self.pods.get(name)
        if body is not None and body["metadata"]["uid"] == uid:
            change(body)

    def _born(self, body: Json, phase: str | None = None) -> Json:
        self._created += 1
        meta = {**copy.deepcopy(body["metadata"]), "uid": f"made-{self._created}"}
        return {**copy.deepcopy(body), "metadata": meta, "status": {"phase": phase} if phase else {}}

    def _apply(self, action: ApplyObject) -> None:
        body = action.body
        key = (body["kind"], body["metadata"]["name"])
        known = self.objects.get(key)
        if known is None:
            self.objects[key] = self._born(body)
        else:
            for operation in action.first:
                patch(known, operation)
            forget(known, self._applied.get((*key, action.manager), {}), body)
            granular = (body["apiVersion"], body["kind"]) == ENDPOINTS
            merge(known, body, whole=() if granular else ("selector",))
        self._applied[*key, action.manager] = copy.deepcopy(body)

    def forget(self, kind: str, name: str) -> None:
        """An object that somebody deleted, and what everybody applied of it."""
        self.objects.pop((kind, name), None)
        self._applied = {key: body for key, body in self._applied.items() if key[:2] != (kind, name)}

    # what scheduler, kubelet and garbage collection do

    def run(self) -> None:
        """Bind released pods and let their engines become ready."""
        for body in self.pods.values():
            if not body["spec"].get("schedulingGates") and body["status"]["phase"] == "Pending":
                body["spec"]["nodeName"] = self.node_for(body)
                body["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}

    def node_for(self, body: Json) -> str:
        """The node that a pod is bound to."""
        return pinned_node(body)

    def fail(self, name: str) -> None:
        self.pods[name]["status"] = {"phase": "Failed", "reason": "Error"}

    def reap(self) -> None:
        """Whatever is being deleted is gone."""
        self.pods = {name: body for name, body in self.pods.items() if "deletionTimestamp" not in body["metadata"]}

    def settle(self, pool: PoolRecord, passes: int = 12) -> int:
        """Converge until nothing is left to do; gives how many actions that took."""
        done = 0
        for _ in range(passes):
            self.run()
            self.reap()
            actions = self.look(pool).actions
            self.carry_out(*actions)
            done += len(actions)
            if not actions:
                return done
        raise AssertionError(f"still busy after {passes} passes: {self.look(pool).actions}")

    def state(self) -> tuple[Any, ...]:
        """All there is, without what differs between any two runs."""
        return (_comparable(self.pods.values()), _comparable(self.objects.values()))


def claims(pod: Json) -> list[str]:
    """Templates of a pod's claims."""
    return [claim["resourceClaimTemplateName"] for claim in pod["spec"].get("resourceClaims") or ()]


def relabel(body: Json, action: UnroutePod | LabelPod | ForgetWorker) -> None:
    """What leaving a front patches, or what puts labels back: labels go or come, and the time is noted."""
    tags, notes = body["metadata"]["labels"], body["metadata"].setdefault("annotations", {})
    if isinstance(action, UnroutePod):
        tags.pop(labels.ROUTED, None)
        notes[labels.UNROUTED] = instant(action.at)
    elif isinstance(action, LabelPod):
        tags.update(action.labels)
        notes[labels.RELABELLED] = instant(action.at)


def terminate(body: Json, now: float, grace_seconds: int | None) -> None:
    """What deleting a pod writes: when its grace period ends, which a later deletion may shorten."""
    seconds = body["spec"]["terminationGracePeriodSeconds"] if grace_seconds is None else grace_seconds
    before = known_instant(body["metadata"].get("deletionTimestamp"))
    body["metadata"]["deletionTimestamp"] = instant(min(now + seconds, inf if before is None else before))


def ungate(body: Json) -> None:
    """What the release of a pod patches: our gate, if it is the first."""
    kept = body["spec"].get("schedulingGates") or []
    if kept and kept[0]["name"] == labels.GATE:
        del kept[0]


def merge(known: Json, body: Json, whole: Collection[str]) -> None:
    """Fields of maps are set one by one, as a server-side apply does; those named in `whole` are one value."""
    for field, value in body.items():
        if field not in whole and isinstance(value, dict) and isinstance(known.get(field), dict):
            merge(known[field], value, whole)
        else:
            known[field] = copy.deepcopy(value)


def forget(known: Json, before: Json, body: Json) -> None:
    """What a manager applied before and does not apply any more goes, as in a server-side apply."""
    for field, value in before.items():
        if field not in body:
            known.pop(field, None)
        elif all(isinstance(each.get(field), dict) for each in (known, body)) and isinstance(value, dict):
            forget(known[field], value, body[field])


def patch(body: Json, operation: Json) -> None:
    """One operation of a JSON patch on a member of a map, or a removal from a list."""
    parts = operation["path"].removeprefix("/").split("/")
    *parents, last = (part.replace("~1", "/").replace("~0", "~") for part in parts)
    inside: Any = body
    for parent in parents:
        inside = inside[int(parent) if isinstance(inside, list) else parent]
    if operation["op"] == "remove":
        del inside[int(last) if isinstance(inside, list) else last]
    else:
        inside[last] = copy.deepcopy(operation["value"])


def pinned_node(body: Json) -> str:
    terms = body["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    node: str = terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
    return node


def _comparable(bodies: Iterable[Json]) -> list[Json]:
    plain = [copy.deepcopy(body) for body in bodies]
    for body in plain:
        body["metadata"].pop("uid")
    return sorted(plain, key=lambda body: (body["kind"], body["metadata"]["name"]))
