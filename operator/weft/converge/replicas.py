"""The pods of one pool as replicas: units that live and die together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weft.render import asks_every_pod

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.cluster import PodRecord
    from weft.domain.snapshot import PoolRecord
    from weft.domain.spec import PoolSpec
    from weft.domain.status import Assignment


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica id: its assignment, if it still has one, and those of its pods that exist, in order of rank.

    `lost_a_pod` says that one of them ended or is being deleted; `broken` says that, or that one is missing though all
    were there before.
    """

    number: int
    assignment: Assignment | None
    pods: tuple[PodRecord, ...]
    lost_a_pod: bool = field(init=False, compare=False)  # everybody asks for these two, several times
    broken: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Judge the pods once."""
        lost = any(pod.terminating or pod.ended or pod.failure is not None for pod in self.pods)
        broken = lost or (not self.whole and (self.complete or self.released))
        object.__setattr__(self, "lost_a_pod", lost)
        object.__setattr__(self, "broken", broken)

    @property
    def live(self) -> tuple[PodRecord, ...]:
        """Pods that nobody deletes yet."""
        return tuple(pod for pod in self.pods if not pod.terminating)

    @property
    def leader(self) -> PodRecord | None:
        """Its first pod, which answers requests (usually it alone); None where that is missing."""
        return next((pod for pod in self.pods if pod.rank == 0), None)

    @property
    def whole(self) -> bool:
        """Whether every pod of the assignment exists."""
        return self.assignment is not None and len(self.pods) == self.assignment.pods

    @property
    def complete(self) -> bool:
        """Whether the status notes that every pod was seen; without that note none is released."""
        return self.assignment is not None and self.assignment.complete

    @property
    def released(self) -> bool:
        """Whether any pod lost its gate, so that an engine may run."""
        return any(not pod.gated for pod in self.pods)

    @property
    def has_its_place(self) -> bool:
        """Whether it is to stay and runs, so that it needs nobody's GPUs, whatever it answers at this moment."""
        return self.whole and not self.broken and all(pod.bound for pod in self.pods)

    @property
    def ready(self) -> bool:
        """Whether it is assigned and answers requests."""
        return self.assignment is not None and self.assignment.is_served_by(self.pods)


def replicas_of(pool: PoolRecord, pods: Iterable[PodRecord]) -> tuple[Replica, ...]:
    """Every replica that is assigned or has pods, by id. Pods count by the pool's UID, never by name."""
    found: dict[int, list[PodRecord]] = {assignment.replica: [] for assignment in pool.status.assignments}
    for pod in pods:
        if pod.identity is not None and pod.identity.pool_uid == pool.key.uid:
            found.setdefault(pod.identity.replica, []).append(pod)
    assigned = {assignment.replica: assignment for assignment in pool.status.assignments}
    return tuple(
        Replica(number, assigned.get(number), tuple(sorted(members, key=lambda pod: pod.rank)))
        for number, members in sorted(found.items())
    )


def every_pod_is_asked(spec: PoolSpec | None, replicas: Iterable[Replica]) -> bool:
    """Whether routers, Services and pickers choose every pod of these replicas that takes requests, or first ones only.

    So the spec has it, or one of an earlier revision needs it: its other pods take requests for ranks that its first
    one does not know. Of replicas whose first pod answers for all ranks either way chooses the same.
    """
    return asks_every_pod(spec) or any(pod.rank > 0 and pod.api_servers for each in replicas for pod in each.pods)
