"""A simulated cluster: an API server, a scheduler, kubelets, and faults of nodes. Times are seconds of the trace.

It holds what the operator reads of a real cluster, carries the operator's actions out, and tells a listener when
engines start and end.
"""

from __future__ import annotations

from itertools import count
from math import inf
from typing import TYPE_CHECKING

from weft.domain.action import CreatePod, DeletePod, ReleasePods, UnroutePod
from weft.twin.cluster.kubelets import Kubelets
from weft.twin.cluster.node_faults import NodeFaults
from weft.twin.cluster.pods import EPOCH, SimulatedPod
from weft.twin.cluster.state import ClusterState
from weft.twin.serving.agenda import Agenda

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from weft.domain.cluster import NodeRecord, PodRecord
    from weft.twin.cluster.kubelets import Listener
    from weft.twin.cluster.start_up import Fault, StartPhases

PodAction = CreatePod | ReleasePods | UnroutePod | DeletePod


class SimulatedCluster(ClusterState):
    """A cluster that goes on by itself; advance it with the clock."""

    def __init__(
        self,
        nodes: Iterable[NodeRecord],
        pods: Iterable[PodRecord],
        start_of: Callable[[str], StartPhases],
        seed: int,
        listener: Listener,
    ) -> None:
        """`pods` are those of others, which never change; `start_of` gives the start phases of a pool by UID."""
        super().__init__(nodes, pods)
        self._agenda, self._uids = Agenda(), count(1)
        self._kubelets = Kubelets(self, self._agenda, start_of, seed, listener)
        self._faults = NodeFaults(self, self._agenda, self._kubelets, seed)

    @property
    def next_at(self) -> float:
        """When the next scheduled event is due; infinite without one."""
        return self._agenda.calls[0][0] if self._agenda.calls else inf

    def advance(self, now: float) -> None:
        """Run every event that is due by `now`."""
        while self._agenda.calls and self.next_at <= now:
            self._agenda.next_call()

    def plan(self, faults: Iterable[Fault]) -> None:
        """Schedule faults at their times."""
        self._faults.plan(faults)

    def carry_out(self, action: PodAction, now: float) -> None:
        """Apply a write to pods as the API server would; a write to a pod that is gone changes nothing."""
        match action:
            case CreatePod():
                self._create(action, now)
            case ReleasePods():
                for _, uid in action.pods:
                    self._release(self.pod(uid), now)
            case UnroutePod():
                pod = self.pod(action.uid)
                if pod is not None and pod.record.routed:
                    self._kubelets.unroute(pod, now)
            case DeletePod():
                pod = self.pod(action.uid)
                if pod is not None:
                    self._kubelets.delete(pod, now, action.grace_seconds)

    def _create(self, action: CreatePod, now: float) -> None:
        meta = action.body["metadata"]
        known = ((pod.record.namespace, pod.record.name) for pod in self.of_pools())
        if (meta["namespace"], meta["name"]) in known:
            return
        pod = SimulatedPod.of(action.body, f"pod-{next(self._uids)}", now)
        if pod is not None:
            self.admit(pod)

    def _release(self, pod: SimulatedPod | None, now: float) -> None:
        if pod is not None and pod.record.gated:
            pod.change(gated=False, released=EPOCH + now)
            self.changed(pod.pool)
            self._kubelets.schedule_soon(pod, now)
