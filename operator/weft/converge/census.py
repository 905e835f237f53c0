"""The replicas of one pool, counted for its own conditions and for those of its parent split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.render import revision_asked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.converge.replicas import Replica
    from weft.domain.reasons import Explanation
    from weft.domain.snapshot import PoolRecord


@dataclass(frozen=True, slots=True)
class Census:
    """Numbers of replicas. `present` have a pod that nobody deletes; `leaving` have pods but no assignment."""

    desired: int
    assigned: int
    outdated: int
    present: int
    ready: int
    leaving: int
    undecided: bool  # the spec asks for pods of another revision than the one decided
    paused: bool  # outdated replicas stay as they are
    finishing: int  # those leaving whose engines have requests left
    waiting: str | None  # the scheduler's word on a pod, what a replica's gates wait for, or how far its start is
    awaited: Explanation | None = None  # why requests reach replicas without the routers that the spec asks for

    @classmethod
    def of(cls, pool: PoolRecord, replicas: Sequence[Replica], finishing: int = 0) -> Census:
        """Count the replicas of a pool, `finishing` of which leave and have requests left."""
        status = pool.status
        return cls(
            desired=status.desired_replicas,
            assigned=len(status.assignments),
            outdated=sum(assignment.revision != status.revision for assignment in status.assignments),
            present=sum(bool(replica.live) for replica in replicas),
            ready=sum(replica.ready for replica in replicas),
            leaving=sum(replica.assignment is None for replica in replicas),
            undecided=revision_asked(pool) not in {None, status.revision},
            paused=pool.spec is not None and pool.spec.rollout.paused,
            finishing=finishing,
            waiting=_scheduler_words(replicas) or _gate_of_others(replicas),
        )


def _scheduler_words(replicas: Sequence[Replica]) -> str | None:
    return next((pod.waiting for replica in replicas for pod in replica.live if pod.waiting), None)


def _gate_of_others(replicas: Sequence[Replica]) -> str | None:
    """A gate that admission put on a pod; those of a scheduler that the replica was handed over to are its queue."""
    ours = (each for each in replicas if each.assignment is not None and each.assignment.handover is None)
    return next((pod.held for replica in ours for pod in replica.live if pod.held), None)
