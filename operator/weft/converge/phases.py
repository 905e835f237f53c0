"""How far starting replicas have come, as far as their pods tell, and what a start should take.

Kubernetes shows two phases: a bound pod pulls images, and volumes that are images, until its containers run; then its
engine loads until it answers. An init container that downloads the weights is a third phase between them, and tells
its bytes itself. Beside each stands what it took in measured starts. Times are told in whole minutes, and not at all
once they are twice what they should be: so a status is written about once a minute while something starts. Bytes are
told in percent, a few times a minute.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.domain.cluster import PodPhase
from weft.domain.spec import SourceKind
from weft.domain.texts.figures import agreeing, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.converge.census import Census
    from weft.converge.replicas import Replica
    from weft.domain.cluster import Download
    from weft.domain.snapshot import PoolRecord
    from weft.domain.start_up import StartUp

MINUTE = 60.0
LATE = 2.0  # times what it should take
TOLD_SECONDS = 15.0  # between two looks at a replica that tells its own progress
_MARGIN_SECONDS = 0.5  # a timer rings a little early

PULLS, PULLS_BOTH, LOADS = "pulls its image", "pulls its image and its weights", "loads the model"
DOWNLOADS = "downloads its weights"
_GIGA = 1e9


@dataclass(frozen=True, slots=True)
class Phase:
    """What a replica `does`, since when (epoch seconds), and how long that should take: `expected` seconds.

    `basis` says where these come from; empty where they are not known. Where the replica `tells` itself how far it is,
    the words change as long as the phase lasts. `stuck` is told in place of all that after a minute.
    """

    replica: int
    does: str
    since: float
    expected: int = 0
    basis: str = ""
    tells: bool = False
    stuck: str = ""

    def told(self, now: float) -> str:
        """The phase in words, which change at whole minutes."""
        if self._is_stuck(now):
            return f"replica {self.replica} {self.stuck}"
        if not self.basis:
            return f"replica {self.replica} {self.does}"
        passed, whole = self._minutes(now), f"{seconds(self.expected)} {self.basis}"
        sofar = f"{seconds(passed)} of about " if passed else "about "
        told = f"more than twice the {whole}" if self._is_late(passed) else f"{sofar}{whole}"
        return f"replica {self.replica} {self.does} ({told})"

    def changes_after_seconds(self, now: float) -> float | None:
        """Seconds until the words change by themselves; None where they stay."""
        passed = self._minutes(now)
        if self.tells:
            return TOLD_SECONDS
        if self._is_stuck(now) or not (self.basis or self.stuck) or self._is_late(passed):
            return None
        return passed + MINUTE - max(0.0, now - self.since) + _MARGIN_SECONDS

    def _is_stuck(self, now: float) -> bool:
        return bool(self.stuck) and self._minutes(now) > 0

    def _minutes(self, now: float) -> float:
        """Seconds of the whole minutes that have passed."""
        return max(0.0, now - self.since) // MINUTE * MINUTE

    def _is_late(self, passed: float) -> bool:
        return passed > 0 and passed >= LATE * self.expected


@dataclass(frozen=True, slots=True)
class StartProgress:
    """What is told of the replicas that start, and after how many seconds that changes by itself (None: never)."""

    told: str
    changes_after_seconds: float | None


def starting(pool: PoolRecord, replicas: Iterable[Replica], now: float) -> StartProgress | None:
    """What is told of starting replicas: the one that began first, and how many more; None where none starts."""
    phases = [phase for replica in replicas if (phase := phase_of(replica, pool)) is not None]
    if not phases:
        return None
    first = min(phases, key=lambda each: (each.since, each.replica))
    more = len(phases) - 1
    others = f", and {more} more {agreeing(more, 'starts', 'start')}" if more else ""
    return StartProgress(f"{first.told(now)}{others}", first.changes_after_seconds(now))


def with_phases(
    census: Census, pool: PoolRecord, replicas: Iterable[Replica], now: float, half: str = ""
) -> tuple[Census, float | None]:
    """The census with how far starting replicas have come, unless it says already what one waits for.

    Also the seconds until those words change by themselves, or None. `half` names the half of a split.
    """
    found = starting(pool, replicas, now) if census.waiting is None and census.ready < census.present else None
    if found is None:
        return census, None
    return replace(census, waiting=f"{half} {found.told}".strip()), found.changes_after_seconds


def phase_of(replica: Replica, pool: PoolRecord) -> Phase | None:
    """What a replica does on its nodes; None before it has them all, once it answers, and where it has failed."""
    bound = _bound_since(replica)
    if bound is None or not replica.whole or replica.broken or replica.ready:
        return None
    phase, start_up = _activity(replica, pool, bound), pool.status.start_up
    if phase is None or start_up is None:
        return phase
    if start_up.phases:
        return replace(phase, expected=_usual(phase.does, start_up, replica), basis="measured")
    if start_up.measured is not None:  # measured as a whole, without its phases
        return replace(phase, since=bound, expected=start_up.measured, basis="measured for a whole start")
    pulled, pulls = _pulled(start_up, pool), phase.does in {PULLS, PULLS_BOTH}
    return replace(phase, expected=pulled if pulls else start_up.estimated - pulled, basis="estimated")


def _bound_since(replica: Replica) -> float | None:
    """When the last of its pods was released, once all are on their nodes (epoch seconds)."""
    bound = [pod.released for pod in replica.pods if pod.released is not None and pod.bound]
    return max(bound, default=None) if len(bound) == len(replica.pods) else None


def _usual(does: str, start_up: StartUp, replica: Replica) -> int:
    """Seconds that the phase took in the last starts.

    A download that is over counts into the phase after it (pulling or loading), which is timed from before it.
    """
    setup, image, download, weights, engine = start_up.phases
    before = download if any(pod.download is not None for pod in replica.pods) else 0
    if does in {PULLS, PULLS_BOTH}:
        return max(1, setup + image + before)
    return max(1, weights + engine + before if does == LOADS else download)


def _activity(replica: Replica, pool: PoolRecord, bound: float) -> Phase | None:
    """The phase that a replica is in and since when, where that is known; `bound` is as from `_bound_since`.

    Loading counts from the beginning of the download, where there was one: estimates have one time for both.
    """
    leader, runs = replica.leader, all(pod.phase is PodPhase.Running for pod in replica.pods)
    if leader is None or (runs and leader.loading is None):
        return None
    downloads = [pod.download for pod in replica.pods if pod.download is not None]
    coming = [each for each in downloads if not each.done]
    if coming:
        slowest = min(coming, key=_part)
        known = f", {_part(slowest):.0%} of {slowest.total / _GIGA:.3g} GB" if slowest.total else ""
        return Phase(replica.number, f"{DOWNLOADS}{known}", min(each.begun for each in downloads), tells=True)
    if not runs:
        return Phase(replica.number, PULLS_BOTH if _pulls_weights(pool) else PULLS, bound, stuck=_stuck(replica))
    return Phase(replica.number, LOADS, min((each.begun for each in downloads), default=leader.loading or bound))


def _stuck(replica: Replica) -> str:
    """What the node of a pod does not get done before it pulls anything; empty where it did, or nobody can tell."""
    pod = next((pod for pod in replica.pods if pod.unprepared), None)
    if pod is None:
        return ""
    hint = f"kubectl describe pod -n {pod.namespace} {pod.name}"
    return f"waits for volumes, devices or network of {pod.name} on {pod.node}: {hint} says why"


def _part(download: Download) -> float:
    return download.here / download.total if download.total else 0.0


def _pulls_weights(pool: PoolRecord) -> bool:
    """Whether the weights are a volume that is pulled like the engine's image, before its container runs."""
    source = pool.spec.model.source if pool.spec is not None else None
    return source is not None and source.kind is SourceKind.Image


def _pulled(start_up: StartUp, pool: PoolRecord) -> int:
    """Estimated seconds until the containers run."""
    return start_up.image + (start_up.weights if _pulls_weights(pool) else 0)
