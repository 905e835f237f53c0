"""Taking replicas away: out of the front first, where it reacts to that, then the leader, then the workers.

An engine that reports its requests is deleted once it has none left (ADR 0036). One that does not is deleted at once,
and finishes its requests within the grace period of its pod.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from weft.domain.action import DeletePod, ForgetWorker, UnroutePod
from weft.domain.overdue import is_overdue, overdue_in_seconds
from weft.domain.reasons import Reason
from weft.engines import LeavesBy, grace_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weft.converge.leaving import Leaver, WayToLeave
    from weft.converge.replicas import Replica
    from weft.domain.action import Action
    from weft.domain.cluster import PodRecord
    from weft.domain.fabric import Fabric

LEAST_GRACE_SECONDS = 1  # 0 would remove the pod object before its kubelet has ended it
IDLE_GRACE_SECONDS = 10  # for an engine that has nothing left to do, however long its pod would wait for one that has


def retire(leaver: Leaver) -> Iterator[Action]:
    """Drain a replica that has no assignment, and keep requests from one that lost a pod.

    A broken replica that is still assigned keeps its pods: how they ended is what deciding looks at before it drops the
    assignment. One that may recover before deciding sees it keeps its label, too: nobody would put it back.
    """
    replica, way = leaver.replica, leaver.way
    if replica.assignment is None:
        hurries = leaver.hurries_from_routers
        if not hurries:
            yield from _unroute(replica, way)
        if not leaver.finishes:
            yield from _deletions(leaver)
        if hurries:
            yield from _forgotten(replica, way, hurries=True)
    elif replica.broken and not _keeps_its_front(replica, way):
        yield from _unroute(replica, way)


def _deletions(leaver: Leaver) -> Iterator[Action]:
    next_ones = _next_to_go(leaver.replica, leaver.fabric, leaver.way.heard.now)
    seconds = _grace_seconds(leaver, only_help=_only_help(leaver.replica, next_ones))
    return (DeletePod(pod.namespace, pod.name, pod.uid, seconds) for pod in next_ones)


def _keeps_its_front(replica: Replica, way: WayToLeave) -> bool:
    return _engines_go_on(replica) or (way.leaves_by is not LeavesBy.Asking and _may_recover(replica))


def _engines_go_on(replica: Replica) -> bool:
    """Whether all that ails its pods are sidecars, which the kubelet starts again: its engine may serve meanwhile."""
    failures = [pod.failure for pod in replica.pods if pod.failure is not None]
    ended = any(pod.terminating or pod.ended for pod in replica.pods)
    return replica.whole and not ended and all(failure.beside for failure in failures)


def _may_recover(replica: Replica) -> bool:
    """Whether all that ails its pods is that a container cannot start, and nobody chooses them, as none is ready.

    While an image cannot be pulled or a Secret is missing the kubelet tries again. What has run and ended is not
    waited for: some routers learn that by the label alone.
    """
    gone = not replica.whole or any(pod.terminating or pod.ended for pod in replica.pods)
    ran = any(pod.failure is not None and pod.failure.exit_code is not None for pod in replica.pods)
    return not (gone or ran or any(pod.routed and pod.ready for pod in replica.pods))


def _only_help(replica: Replica, pods: Sequence[PodRecord]) -> bool:
    """Whether none of these pods still answers requests, so that nothing is left to do: not even for the first one."""
    return replica.released and not any(pod.api_servers for pod in pods if not pod.ended)


def _grace_seconds(leaver: Leaver, *, only_help: bool) -> int | None:
    """The grace period in seconds to delete pods with, which may `only_help`; None: the one in their own spec."""
    left, word, way = leaver.node_left_seconds, leaver.word, leaver.way
    if left == inf:
        return IDLE_GRACE_SECONDS if only_help or word is not None else None
    done = only_help or (word is not None and (word.idle or leaver.ends_in_seconds > 0.0))
    most = IDLE_GRACE_SECONDS if done else grace_seconds(int(way.drain_seconds), int(way.chosen_seconds))
    return max(LEAST_GRACE_SECONDS, int(min(left, most)))


def _forgotten(replica: Replica, way: WayToLeave, *, hurries: bool = False) -> Iterator[Action]:
    """Ask the routers to forget the first pod, also once it is being deleted: one may not have answered before."""
    leader = replica.leader
    if leader is not None and not leader.ended and leader.ip and way.routers:
        worker = f"{leader.ip}:{way.port}"
        yield ForgetWorker(leader.namespace, leader.name, leader.uid, worker, way.routers, hurries)


def _unroute(replica: Replica, way: WayToLeave) -> Iterator[Action]:
    """Take the pods out of the front; they stay reachable for their requests, and preStop's sleep covers late ones.

    The time of the first removal stays, even if somebody put the label back.
    """
    if way.leaves_by is LeavesBy.Asking:
        return _forgotten(replica, way)
    routed, now = (pod for pod in replica.live if pod.routed), way.heard.now
    return (UnroutePod(pod.namespace, pod.name, pod.uid, min(now, pod.unrouted or now)) for pod in routed)


def _next_to_go(replica: Replica, fabric: Fabric, now: float) -> tuple[PodRecord, ...]:
    """The pods to delete next: the leader alone while its requests may need the workers; then all that are left.

    Where workers answer requests too, all go together: each serves on until the drain is over, and needs the others.
    """
    leader = replica.leader
    if leader is None or leader.ended or not replica.released:
        return replica.live
    if any(pod.api_servers for pod in replica.live if pod is not leader):
        return replica.live
    if leader.terminating:
        return replica.live if _nobody_ends(leader, fabric) or is_overdue(leader, now) else ()
    return (leader,)


def stuck_in_seconds(replica: Replica, now: float) -> float:
    """Seconds until the other pods no longer wait for the leader's end; infinite if they do not, or it is unknown."""
    leader, waiting = replica.leader, len(replica.live) > 0
    if replica.assignment is not None or not waiting or leader is None:
        return inf
    return inf if leader.ended or is_overdue(leader, now) else overdue_in_seconds(leader, now)


def _nobody_ends(pod: PodRecord, fabric: Fabric) -> bool:
    """Whether the pod's node is gone or not ready: it terminates only once that is back; workers would wait in vain."""
    if pod.node is None:
        return False
    node = fabric.nodes().get(pod.node)
    return node is None or (node.unusable is not None and node.unusable.reason is Reason.NodeNotReady)
