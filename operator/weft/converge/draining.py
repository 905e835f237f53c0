"""Taking replicas away: out of the router first, then the leader, then the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.converge.replicas import has_ended
from weft.domain.action import DeletePod, UnroutePod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.converge.replicas import Replica
    from weft.domain.action import Action
    from weft.domain.cluster import PodRecord


def retire(replica: Replica) -> Iterator[Action]:
    """Drain a replica that has no assignment, and keep requests from one that lost a pod.

    A broken replica that is still assigned keeps its pods: how they ended is what deciding looks at before it drops the
    assignment.
    """
    if replica.assignment is None:
        yield from _unroute(replica)
        yield from (DeletePod(pod.namespace, pod.name, pod.uid) for pod in _next_to_go(replica))
    elif replica.broken:
        yield from _unroute(replica)


def _unroute(replica: Replica) -> Iterator[Action]:
    """The pods stay reachable for the requests they hold; the native preStop sleep covers those that come late."""
    return (UnroutePod(pod.namespace, pod.name, pod.uid) for pod in replica.live if pod.routed)


def _next_to_go(replica: Replica) -> tuple[PodRecord, ...]:
    """The leader while it may still run requests that need the workers; everything once it cannot."""
    leader = replica.leader
    if leader is None or has_ended(leader) or not replica.released:
        return replica.live
    return () if leader.terminating else (leader,)
