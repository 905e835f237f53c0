"""Taking replicas away: out of the front first, where it can be told, then the leader, then the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.converge.replicas import has_ended
from weft.domain.action import DeletePod, UnroutePod
from weft.domain.reasons import Reason
from weft.engines import LeavesBy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.converge.replicas import Replica
    from weft.domain.action import Action
    from weft.domain.cluster import PodRecord
    from weft.domain.fabric import Fabric


def retire(replica: Replica, fabric: Fabric, leaves_by: LeavesBy) -> Iterator[Action]:
    """Drain a replica that has no assignment, and keep requests from one that lost a pod.

    A broken replica that is still assigned keeps its pods: how they ended is what deciding looks at before it drops the
    assignment. `leaves_by` is what the front of the replica heeds: one that sees deletion alone forgets a pod that lost
    its label, and would then miss the deletion too.
    """
    if replica.assignment is None:
        yield from _unroute(replica, leaves_by)
        yield from (DeletePod(pod.namespace, pod.name, pod.uid) for pod in _next_to_go(replica, fabric))
    elif replica.broken:
        yield from _unroute(replica, leaves_by)


def _unroute(replica: Replica, leaves_by: LeavesBy) -> Iterator[Action]:
    """The pods stay reachable for the requests they hold; the native preStop sleep covers those that come late."""
    if leaves_by is LeavesBy.Deletion:
        return iter(())
    return (UnroutePod(pod.namespace, pod.name, pod.uid) for pod in replica.live if pod.routed)


def _next_to_go(replica: Replica, fabric: Fabric) -> tuple[PodRecord, ...]:
    """The leader while it may still run requests that need the workers; everything once it cannot."""
    leader = replica.leader
    if leader is None or has_ended(leader) or not replica.released:
        return replica.live
    if leader.terminating:
        return replica.live if _nobody_ends(leader, fabric) else ()
    return (leader,)


def _nobody_ends(pod: PodRecord, fabric: Fabric) -> bool:
    """Whether its node is away: it stays terminating until that is back, and its workers would hold GPUs in vain."""
    if pod.node is None:
        return False
    node = fabric.nodes().get(pod.node)
    return node is None or (node.unusable is not None and node.unusable.reason is Reason.NodeNotReady)
