"""A simulated cluster: an API server, a scheduler, kubelets, and faults of nodes. Times are seconds of the trace.

It holds what the operator reads of a real cluster, carries the operator's actions out, and tells a listener when
engines start and end.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from weft.domain.action import CreatePod, DeletePod, ReleasePods, UnroutePod
from weft.domain.cluster import ContainerFailure, PodPhase
from weft.domain.start_up import MeasuredStart
from weft.twin.pods import EPOCH, SimulatedPod, what_keeps_off
from weft.twin.quotas import counted, refuse
from weft.twin.start_up import FaultKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from weft.domain.cluster import NodeRecord, PodRecord
    from weft.domain.quotas import QuotaRecord
    from weft.twin.start_up import Fault, StartPhases

PodAction = CreatePod | ReleasePods | UnroutePod | DeletePod
BIND_SECONDS = 1.0  # from the release of a pod, or from when its node gets room, until the scheduler has bound it
DRAIN_LOOK_SECONDS = 2.0  # between checks of a terminating engine, which ends once it is empty
END_SECONDS = 1.0  # from SIGTERM until a process without work has ended
SILENT_SECONDS = 40.0  # of a silent kubelet until the node is not ready (--node-monitor-grace-period)
EVICT_SECONDS = 300.0  # from then until its pods are deleted (tolerationSeconds that Kubernetes adds to every pod)
FALLEN_GPU = "CUDA error: unspecified launch failure: the GPU has fallen off the bus"
REBOOTED = ContainerFailure("ContainerStatusUnknown", "The container could not be located when the pod was terminated")


class Listener(Protocol):
    """Is told what happens to engines, each named by the first pod of its replica."""

    def started(self, pod: SimulatedPod, now: float) -> None:
        """The engine answers from now on."""

    def unrouted(self, pod: SimulatedPod, now: float) -> None:
        """No new request reaches the engine from now on."""

    def ended(self, pod: SimulatedPod, now: float, *, silently: bool) -> None:
        """The engine answers nothing any more; `silently`: its machine failed, so that only its silence shows."""

    def load(self, pod: SimulatedPod) -> int:
        """Return the number of requests inside the engine."""
        ...


class SimulatedCluster:
    """Nodes and pods; advance it with the clock. `touched`: UIDs of pools whose pods changed since it was cleared."""

    def __init__(
        self,
        nodes: Iterable[NodeRecord],
        pods: Iterable[PodRecord],
        start_of: Callable[[str], StartPhases],
        seed: int,
        listener: Listener,
    ) -> None:
        """`pods` are those of others, which never change; `start_of` gives the start phases of a pool by UID."""
        self._made = {each.name: each for each in nodes}
        self._nodes = dict(self._made)
        self._pods = {each.uid: SimulatedPod(each) for each in pods}
        self._ended: list[SimulatedPod] = []
        self._created: dict[str, SimulatedPod] = {}  # by UID; quotas count these
        self._quotas: tuple[QuotaRecord, ...] = ()
        self._counted: tuple[QuotaRecord, ...] | None = ()
        self._start_of, self._seed, self._listener = start_of, seed, listener
        self._due: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order, self._uids = count(), count(1)
        self._images: dict[tuple[str, str], float] = {}  # (node, image): second at which its pull ends
        self._down: dict[str, float] = {}  # failed machines, with the second of the failure
        self._seen: tuple[tuple[NodeRecord, ...], tuple[PodRecord, ...]] | None = None
        self._engines: dict[str, tuple[str, ...]] = {}
        self.touched: set[str] = set()
        self.revision = 0  # rises with every change that a watch would show

    # what the operator reads

    @property
    def nodes(self) -> tuple[NodeRecord, ...]:
        """All nodes; the same object while nothing changes."""
        return self._shown()[0]

    @property
    def pods(self) -> tuple[PodRecord, ...]:
        """All pods, by namespace and name; the same object while nothing changes."""
        return self._shown()[1]

    @property
    def quotas(self) -> tuple[QuotaRecord, ...]:
        """The ResourceQuotas with what the pods use; the same object while nothing changes."""
        if self._counted is None:
            self._counted = counted(self._quotas, self._created.values())
        return self._counted

    def engines(self, pool: str) -> tuple[str, ...]:
        """Return the names of the leader pods of a pool's ready replicas, which are scraped for metrics."""
        if pool not in self._engines:
            ready = (pod for pod in self._pods.values() if pod.pool == pool and pod.leads and pod.record.ready)
            self._engines[pool] = tuple(pod.record.name for pod in ready if not pod.record.terminating)
        return self._engines[pool]

    def serving(self, pool: str) -> int:
        """Count the replicas of a pool whose engine answers and is not terminating."""
        return sum(pod.serves and not pod.record.terminating for pod in self._pods.values() if pod.pool == pool)

    def paid(self, pool: str) -> int:
        """Count the replicas of a pool that hold GPUs."""
        return len({pod.replica for pod in self._pods.values() if pod.pool == pool and pod.runs})

    def held(self, pool: str) -> int:
        """Count the GPUs that a pool's pods hold."""
        return sum(pod.gpus for pod in self._pods.values() if pod.pool == pool and pod.runs)

    def gpu_seconds(self, pool: str, begin: float, end: float) -> float:
        """Sum the GPU-seconds of a pool's pods between two times, each from binding until it is gone or dead."""
        held = (pod for pod in (*self._ended, *self._pods.values()) if pod.pool == pool)
        return sum(pod.gpu_seconds(begin, end) for pod in held)

    def _shown(self) -> tuple[tuple[NodeRecord, ...], tuple[PodRecord, ...]]:
        if self._seen is None:
            records = (pod.record for pod in self._pods.values())
            self._seen = (
                tuple(self._nodes.values()),
                tuple(sorted(records, key=lambda pod: (pod.namespace, pod.name))),
            )
        return self._seen

    # time

    @property
    def next_at(self) -> float:
        """When the next scheduled event is due; infinite without one."""
        return self._due[0][0] if self._due else inf

    def advance(self, now: float) -> None:
        """Run every event that is due by `now`."""
        while self._due and self._due[0][0] <= now:
            at, _, happen, what = heappop(self._due)
            happen(*what, at)

    def plan(self, faults: Iterable[Fault]) -> None:
        """Schedule faults at their times."""
        for fault in faults:
            self._at(fault.at, self._strike, fault)

    def limit(self, quotas: Iterable[QuotaRecord]) -> None:
        """Enforce ResourceQuotas from now on; their `used` counts what others use."""
        self._quotas = tuple(sorted(quotas, key=lambda quota: (quota.namespace, quota.name)))
        self._counted = None

    def _at(self, moment: float, happen: Callable[..., None], *what: object) -> None:
        """Schedule a call at a time, which is passed as its last argument."""
        heappush(self._due, (moment, next(self._order), happen, what))

    def _changed(self, pool: str) -> None:
        self._seen, self._counted, self.revision = None, None, self.revision + 1
        self._engines.clear()
        if pool:
            self.touched.add(pool)

    # what the operator writes

    def carry_out(self, action: PodAction, now: float) -> None:
        """Apply a write to pods as the API server would; a write to a pod that is gone changes nothing."""
        match action:
            case CreatePod():
                self._create(action, now)
            case ReleasePods():
                for _, uid in action.pods:
                    self._release(self._pods.get(uid), now)
            case UnroutePod():
                self._unroute(self._pods.get(action.uid), now)
            case DeletePod():
                self._delete(self._pods.get(action.uid), now)

    def _create(self, action: CreatePod, now: float) -> None:
        meta = action.body["metadata"]
        if any((pod.record.namespace, pod.record.name) == (meta["namespace"], meta["name"]) for pod in self._ours()):
            return
        pod = SimulatedPod.of(action.body, f"pod-{next(self._uids)}", now)
        if pod is not None and not refuse(self._quotas, self._created.values(), pod):
            self._pods[pod.uid] = self._created[pod.uid] = pod
            self._changed(pod.pool)

    def _ours(self) -> list[SimulatedPod]:
        return [pod for pod in self._pods.values() if pod.pool]

    def _release(self, pod: SimulatedPod | None, now: float) -> None:
        if pod is not None and pod.record.gated:
            pod.change(gated=False, released=EPOCH + now)
            self._changed(pod.pool)
            self._at(now + BIND_SECONDS, self._schedule, pod)

    def _unroute(self, pod: SimulatedPod | None, now: float) -> None:
        if pod is None or not pod.record.routed:
            return
        pod.change(routed=False)
        self._changed(pod.pool)
        if pod.serves:
            self._listener.unrouted(pod, now)

    def _delete(self, pod: SimulatedPod | None, now: float) -> None:
        """Terminate a pod: it ends when its engine is empty or its grace period is over, on a dead machine never."""
        if pod is None or pod.record.terminating:
            return
        if pod.serves and pod.record.routed:  # terminating endpoints get no new requests
            self._listener.unrouted(pod, now)
        pod.deleted = now
        pod.change(terminating=True)
        self._changed(pod.pool)
        if pod.bound is None or pod.record.phase is PodPhase.Failed:
            self._remove(pod, now)
        elif not pod.dead:
            self._at(now + pod.stopping_seconds + END_SECONDS, self._drain, pod)

    def _drain(self, pod: SimulatedPod, now: float) -> None:
        if pod.uid not in self._pods or pod.dead or pod.deleted is None:
            return
        busy = pod.serves and self._listener.load(pod) > 0
        if busy and now < pod.deleted + pod.grace_seconds:
            latest = pod.deleted + pod.grace_seconds
            self._at(min(latest, now + DRAIN_LOOK_SECONDS), self._drain, pod)
            return
        self._end_engine(pod, now, silently=False)
        self._remove(pod, now)

    def _end_engine(self, pod: SimulatedPod, now: float, *, silently: bool) -> None:
        if pod.serves:
            pod.serves = False
            self._listener.ended(pod, now, silently=silently)

    def _remove(self, pod: SimulatedPod, now: float) -> None:
        del self._pods[pod.uid]
        self._created.pop(pod.uid, None)
        pod.freed = now if pod.freed is None else pod.freed
        self._ended.append(pod)
        self._changed(pod.pool)
        self._look_again(now)

    # the scheduler and the kubelets

    def _look_again(self, now: float) -> None:
        """Schedule the pods again that did not fit before."""
        for pod in self._ours():
            if pod.waits and pod.record.message:
                self._at(now + BIND_SECONDS, self._schedule, pod)

    def _schedule(self, pod: SimulatedPod, now: float) -> None:
        if pod.uid not in self._pods or not pod.waits:
            return
        node = self._nodes.get(pod.pinned or "")
        held: Counter[str] = Counter()
        for other in self._pods.values():
            if other.record.node == pod.pinned and other.record.holds_devices:
                held.update(dict(other.record.requests))
        message = what_keeps_off(pod, node, held)
        if message:
            if message != pod.record.message:
                pod.change(message=message)
                self._changed(pod.pool)
            return
        pod.bound, pod.dead = now, pod.pinned in self._down
        pod.change(node=pod.pinned, message="", released=EPOCH + now)
        self._changed(pod.pool)
        self._start(pod, now)

    def _start(self, pod: SimulatedPod, now: float) -> None:
        """Start pulling the image; once all pods of the replica are bound, they become ready together."""
        whole = [each for each in self._ours() if each.replica == pod.replica]
        drawn = self._start_of(pod.pool).drawn(f"{self._seed}/{pod.record.name.rpartition('-')[0]}")
        image = (pod.pinned or "", pod.image)
        self._images.setdefault(image, now + drawn.image_seconds)
        if all(each.bound is not None for each in whole):
            pulled = max(now, *(self._images[each.pinned or "", each.image] for each in whole))
            self._at(pulled + drawn.engine_seconds, self._get_ready, whole, pulled)

    def _get_ready(self, replica: list[SimulatedPod], pulled: float, now: float) -> None:
        if any(pod.uid not in self._pods or pod.record.terminating or not pod.runs for pod in replica):
            return
        for pod in replica:
            bound = pod.bound or 0.0
            start = MeasuredStart(pod.replica[1], (0, round(pulled - bound), 0, 0, round(now - pulled)))
            pod.change(phase=PodPhase.Running, ready=True, startup_seconds=now - bound, start=start)
            self._changed(pod.pool)
            if pod.leads:
                pod.serves = True
                self._listener.started(pod, now)

    # what happens to nodes

    def _strike(self, fault: Fault, now: float) -> None:
        node = self._nodes.get(fault.node)
        if node is None:
            return
        match fault.kind:
            case FaultKind.Fails:
                self._fail(node.name, now)
            case FaultKind.Cordoned:
                self._become(replace(node, cordoned=True))
            case FaultKind.GPULost:
                self._lose_gpu(node, now)
            case FaultKind.Recovers:
                self._recover(node, now)

    def _become(self, node: NodeRecord) -> None:
        self._nodes[node.name] = node
        self._changed("")
        self.touched.update(pod.pool for pod in self._ours())

    def _on(self, node: str) -> list[SimulatedPod]:
        return [pod for pod in self._ours() if pod.record.node == node]

    def _fail(self, name: str, now: float) -> None:
        if name in self._down:
            return
        self._down[name] = now
        for pod in self._on(name):
            self._die(pod, now, silently=True)
        self._at(now + SILENT_SECONDS, self._call_not_ready, name, now)

    def _die(self, pod: SimulatedPod, now: float, *, silently: bool) -> None:
        """End the engine of the pod's replica; its other pods hold their GPUs until they are deleted."""
        for each in self._ours():
            if each.replica == pod.replica:
                self._end_engine(each, now, silently=silently)
        pod.dead, pod.freed = True, now if pod.freed is None else pod.freed

    def _call_not_ready(self, name: str, failed: float, now: float) -> None:
        if self._down.get(name) != failed:
            return
        for pod in self._on(name):
            pod.change(ready=False)
        self._become(replace(self._nodes[name], ready=False))
        self._at(now + EVICT_SECONDS, self._evict, name, failed)

    def _evict(self, name: str, failed: float, now: float) -> None:
        for pod in self._on(name) if self._down.get(name) == failed else ():
            self._delete(pod, now)

    def _lose_gpu(self, node: NodeRecord, now: float) -> None:
        """Take one GPU of the node away and crash the pod that runs on it; a free GPU may be hit too."""
        name, offered = max(node.allocatable, key=lambda each: each[1], default=("", 0))
        if offered < 1:
            return
        fallen = Random(f"{self._seed}/{node.name}/{now:g}").randrange(offered)
        for pod in sorted(self._on(node.name), key=lambda pod: pod.record.name):
            fallen -= pod.gpus if pod.runs else 0
            if fallen < 0:
                self._crash(pod, now)
                break
        rest = tuple((each, count - (each == name)) for each, count in node.allocatable)
        self._become(replace(node, allocatable=rest))

    def _crash(self, pod: SimulatedPod, now: float) -> None:
        self._die(pod, now, silently=False)
        pod.change(phase=PodPhase.Failed, ready=False, failure=ContainerFailure("Error", FALLEN_GPU, 1))
        self._changed(pod.pool)

    def _recover(self, node: NodeRecord, now: float) -> None:
        """Bring a machine back as it was made: pods that ran on it have failed, and terminating ones are gone."""
        failed = self._down.pop(node.name, None)
        self._become(self._made[node.name])
        for pod in self._on(node.name) if failed is not None else ():
            if pod.record.terminating:
                self._remove(pod, now)
            else:
                pod.change(phase=PodPhase.Failed, ready=False, failure=REBOOTED)
                self._changed(pod.pool)
        self._look_again(now)
