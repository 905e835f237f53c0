"""Faults of nodes in a simulated cluster, and what its node controller makes of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from weft.domain.cluster import ContainerFailure, PodPhase
from weft.twin.cluster.start_up import FaultKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.cluster import NodeRecord
    from weft.twin.cluster.kubelets import Kubelets
    from weft.twin.cluster.pods import SimulatedPod
    from weft.twin.cluster.start_up import Fault
    from weft.twin.cluster.state import ClusterState
    from weft.twin.serving.agenda import Agenda

SILENT_SECONDS = 40.0  # of a silent kubelet until the node is not ready (--node-monitor-grace-period)
EVICT_SECONDS = 300.0  # from then until its pods are deleted (tolerationSeconds that Kubernetes adds to every pod)
FALLEN_GPU = "CUDA error: unspecified launch failure: the GPU has fallen off the bus"
REBOOTED = ContainerFailure("ContainerStatusUnknown", "The container could not be located when the pod was terminated")


class NodeFaults:
    """Strikes nodes at planned times, and brings them back as they were when the cluster was made."""

    def __init__(self, state: ClusterState, agenda: Agenda, kubelets: Kubelets, seed: int) -> None:
        """`seed` decides which GPU of a node is lost."""
        self._state, self._agenda, self._kubelets, self._seed = state, agenda, kubelets, seed
        self._made = {each.name: each for each in state.nodes}

    def plan(self, faults: Iterable[Fault]) -> None:
        """Schedule faults at their times."""
        for fault in faults:
            self._agenda.call(fault.at, partial(self._strike, fault))

    def _strike(self, fault: Fault, now: float) -> None:
        node = self._state.node(fault.node)
        if node is None:
            return
        match fault.kind:
            case FaultKind.Fails:
                self._fail(node.name, now)
            case FaultKind.Cordoned:
                self._state.replace_node(replace(node, cordoned=True))
            case FaultKind.GPULost:
                self._lose_gpu(node, now)
            case FaultKind.Recovers:
                self._recover(node, now)

    def _fail(self, name: str, now: float) -> None:
        if name in self._kubelets.down:
            return
        self._kubelets.down[name] = now
        for pod in self._state.of_pools_on(name):
            self._kubelets.kill(pod, now, silently=True)
        self._agenda.call(now + SILENT_SECONDS, partial(self._call_not_ready, name, now))

    def _call_not_ready(self, name: str, failed: float, now: float) -> None:
        node = self._state.node(name)
        if node is None or self._kubelets.down.get(name) != failed:
            return
        for pod in self._state.of_pools_on(name):
            pod.change(ready=False)
        self._state.replace_node(replace(node, ready=False))
        self._agenda.call(now + EVICT_SECONDS, partial(self._evict, name, failed))

    def _evict(self, name: str, failed: float, now: float) -> None:
        for pod in self._state.of_pools_on(name) if self._kubelets.down.get(name) == failed else ():
            self._kubelets.delete(pod, now)

    def _lose_gpu(self, node: NodeRecord, now: float) -> None:
        """Take one GPU of the node away and crash the pod that runs on it; a free GPU may be hit too."""
        name, offered = max(node.allocatable, key=lambda each: each[1], default=("", 0))
        if offered < 1:
            return
        fallen = Random(f"{self._seed}/{node.name}/{now:g}").randrange(offered)
        for pod in sorted(self._state.of_pools_on(node.name), key=lambda pod: pod.record.name):
            fallen -= pod.gpus if pod.runs else 0
            if fallen < 0:
                self._crash(pod, now)
                break
        rest = tuple((each, count - (each == name)) for each, count in node.allocatable)
        self._state.replace_node(replace(node, allocatable=rest))

    def _crash(self, pod: SimulatedPod, now: float) -> None:
        self._kubelets.kill(pod, now, silently=False)
        pod.change(phase=PodPhase.Failed, ready=False, failure=ContainerFailure("Error", FALLEN_GPU, 1))
        self._state.changed(pod.pool)

    def _recover(self, node: NodeRecord, now: float) -> None:
        """Bring a machine back as it was made: pods that ran on it have failed, and terminating ones are gone."""
        failed = self._kubelets.down.pop(node.name, None)
        self._state.replace_node(self._made[node.name])
        for pod in self._state.of_pools_on(node.name) if failed is not None else ():
            if pod.record.terminating:
                self._kubelets.remove(pod, now)
            else:
                pod.change(phase=PodPhase.Failed, ready=False, failure=REBOOTED)
                self._state.changed(pod.pool)
        self._kubelets.schedule_again(now)
