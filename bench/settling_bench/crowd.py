"""A cluster that follows what was decided one step a turn, with jobs of others and nodes that stop answering.

Pods come gated, are released once all of their replica were seen and there is room, bound, and ready: a step each. Who
has no place any more terminates, and is gone a step later. On a node that does not answer nothing begins and nothing
ends. Times are epoch seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bench.records import GPU, START, pod_record
from weft.domain.cluster import PodPhase, PodRecord
from weft.domain.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.cluster import NodeRecord
    from weft.domain.moves import MoveBudget
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.quotas import QuotaRecord
    from weft.domain.snapshot import PoolRecord, SplitRecord
    from weft.domain.status import Assignment


@dataclass(slots=True)
class Crowd:
    """By name: nodes, pools, pods. A quota's use is counted anew in each snapshot."""

    nodes: dict[str, NodeRecord]
    pools: dict[str, PoolRecord]
    budget: MoveBudget
    splits: tuple[SplitRecord, ...] = ()
    quotas: tuple[QuotaRecord, ...] = ()
    pods: dict[str, PodRecord] = field(default_factory=dict)
    memory: dict[str, ScaleMemory] = field(default_factory=dict)
    now: float = START

    def snapshot(self) -> Snapshot:
        """What a pass sees at this moment."""
        records = tuple(self.pools.values()), self.splits, tuple(self.nodes.values()), tuple(self.pods.values())
        quotas = tuple(replace(each, used=self._used(each)) for each in self.quotas)
        return Snapshot(self.now, *records, memory=self.memory, budget=self.budget, quotas=quotas)

    def take(self, after: Snapshot) -> None:
        """What was decided stands in the statuses from now on."""
        self.pools = {pool.key.name: pool for pool in after.pools}
        self.splits, self.memory = after.splits, after.memory

    def follow(self) -> None:
        """Pods go one step on, and whoever has a place and no pods gets them."""
        assigned = dict(self._assigned())
        for pod in [each for each in self.pods.values() if each.identity is not None]:
            self._advance(pod, assigned)
        for record, assignment in assigned.values():
            self._create(record, assignment)

    def held(self, board: str) -> int:
        """GPUs of its that pods hold: those that are bound there, or released to be."""
        assigned = dict(self._assigned())
        return sum(pod.asks_for(GPU) for pod in self.pods.values() if not pod.ended and board == _aim(pod, assigned))

    def _assigned(self) -> Iterator[tuple[tuple[str, int], tuple[PoolRecord, Assignment]]]:
        for record in self.pools.values():
            for each in record.status.assignments:
                yield (record.key.uid, each.replica), (record, each)

    def _advance(self, pod: PodRecord, assigned: Assigned) -> None:
        place = _place(pod, assigned)
        if pod.node is not None and not self.nodes[pod.node].ready:
            self.pods[pod.name] = replace(pod, ready=False, terminating=pod.terminating or place is None)
        elif pod.terminating:
            del self.pods[pod.name]
        elif place is None:
            self.pods[pod.name] = replace(pod, terminating=True, ready=False)
        elif not pod.ended:
            self.pods[pod.name] = self._next_step(pod, place)

    def _next_step(self, pod: PodRecord, place: Assignment) -> PodRecord:
        assert pod.identity is not None
        node = place.nodes[pod.identity.rank]
        if pod.gated:
            free = self._offered(node) - self.held(node)
            released = place.complete and place.gpus_per_pod <= free
            return replace(pod, gated=False, released=self.now) if released else pod
        if pod.node is None:  # which counts as held there since it was released
            fits = self.nodes[node].ready and self.held(node) <= self._offered(node)
            return replace(pod, node=node, phase=PodPhase.Running) if fits else pod
        return replace(pod, ready=True)

    def _create(self, record: PoolRecord, assignment: Assignment) -> None:
        if assignment.complete:
            return
        for rank in range(assignment.pods):
            pod = pod_record(record, assignment, rank)
            fresh = replace(pod, node=None, phase=PodPhase.Pending, ready=False, gated=True, released=None)
            self.pods.setdefault(pod.name, replace(fresh, created=self.now))

    def _offered(self, node: str) -> int:
        return dict(self.nodes[node].allocatable)[GPU]

    def _used(self, quota: QuotaRecord) -> tuple[tuple[str, int], ...]:
        """Of its GPUs, as the API server counts them: by pods that have not ended, bound or not."""
        pods = [pod for pod in self.pods.values() if pod.namespace == quota.namespace and not pod.ended]
        return tuple((limit, sum(pod.asks_for(GPU) for pod in pods)) for limit, _ in quota.hard)


Assigned = dict[tuple[str, int], tuple["PoolRecord", "Assignment"]]


def _place(pod: PodRecord, assigned: Assigned) -> Assignment | None:
    if pod.identity is None:
        return None
    _, place = assigned.get((pod.identity.pool_uid, pod.identity.replica), (None, None))
    return place


def _aim(pod: PodRecord, assigned: Assigned) -> str | None:
    """The node that it is bound to, or will be now that it is released."""
    place = _place(pod, assigned)
    if pod.node is not None or place is None or pod.gated or pod.identity is None:
        return pod.node
    return place.nodes[pod.identity.rank]
