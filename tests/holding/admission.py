"""Weft around a simulated cluster whose API server changes, refuses or loses writes, and whose watches lag.

Actions are carried out by the operator's own carrier, with the order and the refusals of a pass.
"""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.holding.cluster import Cluster
from tests.holding.operation import Operation
from weft.api import converge_status
from weft.apply import Unanswered
from weft.control.converging.carrying_out import Carrier
from weft.control.converging.one_pass import with_problem
from weft.domain import labels
from weft.domain.action import Action, CreatePod, DeletePod, LabelPod, ReleasePods, UnroutePod
from weft.domain.errors import Blocked, Retry
from weft.domain.reasons import Reason
from weft.domain.status import PoolProgress

if TYPE_CHECKING:
    from weft.domain.cluster import PodRecord

Json = dict[str, Any]
MESH: Json = {"name": "istio-proxy", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}
CONTAINER, SIDECAR, LABELS, LIMITS = "container", "sidecar", "labels", "limits"
LOST, THROTTLED = "lost", "throttled"


@dataclass
class Lagging(Cluster):
    """A cluster whose watch of pods may stand still while all else goes on."""

    seen: tuple[PodRecord, ...] | None = None

    def pod_records(self) -> tuple[PodRecord, ...]:
        return super().pod_records() if self.seen is None else self.seen

    def lag(self, *, on: bool) -> None:
        """Pods are as they are now for everybody of ours, until they are watched again."""
        self.seen = super().pod_records() if on else None

    def force_delete(self, name: str) -> None:
        """`kubectl delete pod --force`: it is gone, whatever its node does."""
        del self.pods[name]
        self.revision += 1


@dataclass
class Admitted(Operation):
    """Writes pass admission: a quota takes `room` pods, and webhooks put what `injects` says into each new one.

    `answers` are those to the next writes: lost after they were carried out, throttled before, or empty. Nothing is
    created while the namespace `ends`.
    """

    room: int | None = None
    injects: frozenset[str] = frozenset()
    answers: list[str] = field(default_factory=list)
    ends: bool = False

    def converge(self, name: str) -> None:
        """One pass over one pool, as the loop carries it out."""
        done = self._converged(name)
        with ThreadPoolExecutor(1) as alone:
            failed = Carrier(lambda action: self._admit(action, name), alone, 1).carry_out(done.actions)
        progress = with_problem(done.progress, None if failed is None else failed.error)
        assert isinstance(progress, PoolProgress)
        live = self.bodies[name].get("status") or {}
        self._persist(name, labels.CONVERGE_MANAGER, converge_status(progress, live, self.cluster.now))

    def _admit(self, action: Action, name: str) -> None:
        answer = self.answers.pop(0) if self.answers else ""
        if answer == THROTTLED:
            raise Retry(Reason.ApiUnavailable, "429 Too Many Requests")
        if isinstance(action, CreatePod):
            self._take(action)
        elif isinstance(action, ReleasePods):
            there = tuple(pod for pod in action.pods if pod[0] in self.cluster.pods)
            if there:
                self._carry_out(ReleasePods(action.namespace, there), name)
        elif self._finds(action):
            self._carry_out(action, name)
        if answer == LOST:
            raise Unanswered(Reason.ApiUnavailable, "504 Gateway Timeout")

    def _finds(self, action: Action) -> bool:
        """Whether the pod is there that an old view names, and nobody deletes it: else the API server does nothing."""
        if not isinstance(action, DeletePod | UnroutePod | LabelPod):
            return True
        meta = self.cluster.pods.get(action.name, {}).get("metadata", {})
        return meta.get("uid") == action.uid and "deletionTimestamp" not in meta

    def _take(self, action: CreatePod) -> None:
        name = action.body["metadata"]["name"]
        if name in self.cluster.pods:
            return  # 409, and it is ours
        if self.ends:
            raise Blocked(Reason.NamespaceTerminating, "the namespace is being deleted")
        ours = sum(labels.REPLICA in pod["metadata"]["labels"] for pod in self.cluster.pods.values())
        if self.room is not None and ours >= self.room:
            raise Blocked(Reason.PodRefused, "exceeded quota: pods")
        self.cluster.carry_out(action)
        self._inject(self.cluster.pods[name])
        self._count()

    def _inject(self, pod: Json) -> None:
        spec, meta = pod["spec"], pod["metadata"]
        if CONTAINER in self.injects:
            spec["containers"] = [copy.deepcopy(MESH), *spec["containers"]]
        if SIDECAR in self.injects:
            spec["initContainers"] = [{**MESH, "restartPolicy": "Always"}]
        if LABELS in self.injects:
            meta["labels"] = {**meta["labels"], "security.istio.io/tlsMode": "istio", labels.MANAGED_BY: "policy"}
        if LIMITS in self.injects:  # a LimitRange
            for each in spec["containers"]:
                limits = each.setdefault("resources", {}).setdefault("limits", {})
                each["resources"]["limits"] = {"cpu": "1", "memory": "512Mi", **limits}
