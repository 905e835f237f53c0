"""How a replica leaves: what its front reacts to, what its engine told last, and how long it may finish requests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from weft.domain.snapshot import STALE_SECONDS, EngineWord
from weft.engines import MARGIN_SECONDS, LeavesBy, still_chosen_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.converge.replicas import Replica
    from weft.domain.cluster import PodRecord
    from weft.domain.fabric import Fabric
    from weft.domain.spec import PoolSpec

# What routers may hold up a deletion for at most: ten seconds of patience, the back-off that they end in, and answers.
ROUTERS_SECONDS = 20.0


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


@dataclass(frozen=True, slots=True)
class Leaver:
    """A replica that leaves, or would if it had to: with the fabric that tells when its nodes go, and its way."""

    replica: Replica
    fabric: Fabric
    way: WayToLeave

    @property
    def finishes(self) -> bool:
        """Whether its engine has requests, or may still get some, and has time left."""
        word, way, pods = self.word, self.way, self.replica.pods
        if word is None:
            return False
        left = [pod.unrouted for pod in pods if pod.unrouted is not None]
        if not left:
            return True  # all carry the label
        passed = way.heard.now - max(left)
        told_after_the_last_came = passed - word.age_seconds >= way.chosen_seconds
        is_over = passed >= way.chosen_seconds + way.drain_seconds or self.ends_in_seconds <= 0.0
        is_idle = word.idle and told_after_the_last_came and not any(pod.routed for pod in pods)
        return not is_over and not is_idle

    @property
    def ends_in_seconds(self) -> float:
        """Seconds for which it may still finish requests before its pods have to be deleted.

        That is the time until the first of its nodes goes, less what it takes an engine to be told and to end; infinite
        where no node goes.
        """
        return self.node_left_seconds - self.way.chosen_seconds - MARGIN_SECONDS

    @property
    def spare_seconds(self) -> float:
        """Seconds for which it may be kept in its front and still finish requests; 0 if it lost a pod."""
        return 0.0 if self.replica.lost_a_pod else self.ends_in_seconds - self.way.drain_seconds

    @property
    def hurries_from_routers(self) -> bool:
        """Whether its machine goes too soon to wait for routers that are to be asked, so that its pods go first.

        They are asked all the same: the pod serves on for a moment after its deletion began.
        """
        after_a_drain = self.ends_in_seconds - self.way.drain_seconds
        return self.way.leaves_by is LeavesBy.Asking and after_a_drain < ROUTERS_SECONDS

    @property
    def node_left_seconds(self) -> float:
        """Seconds until the first of its nodes goes, at most; infinite where none does.

        A notice that does not say when it began counts from when the replica began to leave.
        """
        nodes, pods = self.fabric.nodes(), self.replica.pods
        since = max((pod.unrouted for pod in pods if pod.unrouted is not None), default=None)
        found = (nodes[pod.node].notice for pod in pods if pod.node is not None and pod.node in nodes)
        return min((notice.left(self.way.heard.now, since) for notice in found if notice is not None), default=inf)

    @property
    def word(self) -> EngineWord | None:
        """The report of its engine; None where it does not count.

        It does not if the replica lost a pod: the engine may report for ever requests that nobody computes. Nor if it
        is not known since when no front chooses the replica, nor if the front does not react to the label.
        """
        replica, way, leader = self.replica, self.way, self.replica.leader
        if leader is None or replica.assignment is not None or replica.lost_a_pod or not leader.ready:
            return None
        if way.leaves_by is not LeavesBy.Label or not (leader.routed or leader.unrouted is not None):
            return None
        return None if _clock_was_set_back(replica, way.heard.now) else way.heard.word_of(leader)


def _clock_was_set_back(replica: Replica, now: float) -> bool:
    """Whether it left its front in what is the future now, so that nobody knows for how long it has been out of it."""
    return any(pod.unrouted is not None and pod.unrouted > now for pod in replica.pods)
