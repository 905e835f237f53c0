"""Taking replicas away: out of the front first, where it reacts to that, then the leader, then the workers.

An engine that reports its requests is deleted once it has none left (ADR 0036). One that does not is deleted at once,
and finishes its requests within the grace period of its pod.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from weft.converge.overdue import is_overdue, overdue_in_seconds
from weft.domain.action import DeletePod, ForgetWorker, UnroutePod
from weft.domain.reasons import Reason
from weft.domain.snapshot import STALE_SECONDS, EngineWord
from weft.engines import MARGIN_SECONDS, LeavesBy, grace_seconds, still_chosen_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from weft.converge.replicas import Replica
    from weft.domain.action import Action
    from weft.domain.cluster import PodRecord
    from weft.domain.fabric import Fabric
    from weft.domain.spec import PoolSpec

LEAST_GRACE_SECONDS = 1  # 0 would remove the pod object before its kubelet has ended it
# What routers may hold up a deletion for at most: ten seconds of patience, the back-off that they end in, and answers.
ROUTERS_SECONDS = 20.0
IDLE_GRACE_SECONDS = 10  # for an engine that has nothing left to do, however long its pod would wait for one that has


@dataclass(frozen=True, slots=True)
class Heard:
    """The time in epoch seconds, and the last report of each engine by pod name; None: they were not asked yet.

    `chosen` are names of pods that may not be taken out of their front, by a refusal that lasts.
    """

    now: float
    told: Mapping[str, EngineWord] | None = field(default_factory=dict)
    chosen: frozenset[str] = frozenset()

    def word_of(self, pod: PodRecord) -> EngineWord | None:
        """The last report of the engine in a pod, if it is fresh. One that was not asked yet is assumed to be busy.

        None for one that never stops being chosen, and so never has nothing left.
        """
        if pod.name in self.chosen:
            return None
        if self.told is None:
            return EngineWord(idle=False, age_seconds=0.0)
        word = self.told.get(pod.name)
        return word if word is not None and word.age_seconds <= STALE_SECONDS else None


@dataclass(frozen=True, slots=True)
class WayToLeave:
    """How replicas of a pool leave.

    `leaves_by` is what the front reacts to: one that is asked looks no more at a pod that lost its label, and would
    then miss the deletion, which tells it where it did not answer; None where no front is known, so that clients may
    keep connections. `routers` are (UID, address) of those to ask, and `port` is that of the engine. For
    `chosen_seconds` after the label is gone requests may still come, and those that came may take `drain_seconds`.
    """

    leaves_by: LeavesBy | None
    heard: Heard
    chosen_seconds: float = 0.0
    drain_seconds: float = 0.0
    routers: tuple[tuple[str, str], ...] = ()
    port: int = 0

    @classmethod
    def of(cls, spec: PoolSpec | None, leaves_by: LeavesBy | None, heard: Heard) -> WayToLeave:
        """The way that the pool's spec asks for; without a readable spec nothing is waited for."""
        if spec is None:
            return cls(leaves_by, Heard(heard.now))
        return cls(leaves_by, heard, still_chosen_seconds(spec.role), spec.rollout.drain_timeout_seconds)

    def asking(self, routers: tuple[tuple[str, str], ...], port: int) -> WayToLeave:
        """The same with routers to ask about engines that serve on a port."""
        return replace(self, routers=routers, port=port)


def retire(replica: Replica, fabric: Fabric, way: WayToLeave) -> Iterator[Action]:
    """Drain a replica that has no assignment, and keep requests from one that lost a pod.

    A broken replica that is still assigned keeps its pods: how they ended is what deciding looks at before it drops the
    assignment. One that may recover before deciding sees it keeps its label, too: nobody would put it back.
    """
    if replica.assignment is None:
        hurries = hurries_from_routers(replica, fabric, way)
        if not hurries:
            yield from _unroute(replica, way)
        if not finishes(replica, fabric, way):
            yield from _deletions(replica, fabric, way)
        if hurries:
            yield from _forgotten(replica, way, hurries=True)
    elif replica.broken and not _keeps_its_front(replica, way):
        yield from _unroute(replica, way)


def _deletions(replica: Replica, fabric: Fabric, way: WayToLeave) -> Iterator[Action]:
    next_ones = _next_to_go(replica, fabric, way.heard.now)
    seconds = _grace_seconds(replica, fabric, way, only_help=_only_help(replica, next_ones))
    return (DeletePod(pod.namespace, pod.name, pod.uid, seconds) for pod in next_ones)


def hurries_from_routers(replica: Replica, fabric: Fabric, way: WayToLeave) -> bool:
    """Whether its machine goes too soon to wait for routers that are to be asked, so that its pods are deleted first.

    They are asked all the same: the pod serves on for a moment after its deletion began.
    """
    spare_seconds = ends_in_seconds(replica, fabric, way) - way.drain_seconds
    return way.leaves_by is LeavesBy.Asking and spare_seconds < ROUTERS_SECONDS


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


def finishes(replica: Replica, fabric: Fabric, way: WayToLeave) -> bool:
    """Whether the engine of a replica that is to leave has requests, or may still get some, and has time left."""
    word = _word_that_counts(replica, way)
    if word is None:
        return False
    left = [pod.unrouted for pod in replica.pods if pod.unrouted is not None]
    if not left:
        return True  # all carry the label
    passed = way.heard.now - max(left)
    told_after_the_last_came = passed - word.age_seconds >= way.chosen_seconds
    is_over = passed >= way.chosen_seconds + way.drain_seconds or ends_in_seconds(replica, fabric, way) <= 0.0
    is_idle = word.idle and told_after_the_last_came and not any(pod.routed for pod in replica.pods)
    return not is_over and not is_idle


def ends_in_seconds(replica: Replica, fabric: Fabric, way: WayToLeave) -> float:
    """Seconds for which a leaving replica may still finish requests before its pods have to be deleted.

    That is the time until the first of its nodes goes, less what it takes an engine to be told and to end; infinite
    where no node goes.
    """
    return _node_left_seconds(replica, fabric, way) - way.chosen_seconds - MARGIN_SECONDS


def _node_left_seconds(replica: Replica, fabric: Fabric, way: WayToLeave) -> float:
    """Seconds until the first of its nodes goes, at most; infinite where none does.

    A notice that does not say when it began counts from when the replica began to leave.
    """
    nodes, since = fabric.nodes(), max((pod.unrouted for pod in replica.pods if pod.unrouted is not None), default=None)
    found = (nodes[pod.node].notice for pod in replica.pods if pod.node is not None and pod.node in nodes)
    return min((notice.left(way.heard.now, since) for notice in found if notice is not None), default=inf)


def _only_help(replica: Replica, pods: Sequence[PodRecord]) -> bool:
    """Whether none of these pods still answers requests, so that nothing is left to do: not even for the first one."""
    return replica.released and not any(pod.api_servers for pod in pods if not pod.ended)


def _grace_seconds(replica: Replica, fabric: Fabric, way: WayToLeave, *, only_help: bool) -> int | None:
    """The grace period in seconds to delete pods with, which may `only_help`; None: the one in their own spec."""
    left, word = _node_left_seconds(replica, fabric, way), _word_that_counts(replica, way)
    if left == inf:
        return IDLE_GRACE_SECONDS if only_help or word is not None else None
    done = only_help or (word is not None and (word.idle or ends_in_seconds(replica, fabric, way) > 0.0))
    most = IDLE_GRACE_SECONDS if done else grace_seconds(int(way.drain_seconds), int(way.chosen_seconds))
    return max(LEAST_GRACE_SECONDS, int(min(left, most)))


def _word_that_counts(replica: Replica, way: WayToLeave) -> EngineWord | None:
    """The report of the engine of a replica that is to leave; None where it does not count.

    It does not if the replica lost a pod: the engine may report for ever requests that nobody computes. Nor if it is
    not known since when no front chooses the replica, nor if the front does not react to the label.
    """
    leader = replica.leader
    if leader is None or replica.assignment is not None or replica.lost_a_pod or not leader.ready:
        return None
    if way.leaves_by is not LeavesBy.Label or not (leader.routed or leader.unrouted is not None):
        return None
    return None if _clock_was_set_back(replica, way.heard.now) else way.heard.word_of(leader)


def _clock_was_set_back(replica: Replica, now: float) -> bool:
    """Whether it left its front in what is the future now, so that nobody knows for how long it has been out of it."""
    return any(pod.unrouted is not None and pod.unrouted > now for pod in replica.pods)


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
