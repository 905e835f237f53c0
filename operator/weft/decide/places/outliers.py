"""Replicas that do worse than they should: named, and replaced one at a time where another one would do better.

The successor comes first and the worse one leaves once as many others serve as are desired. Who is under way is known
in memory alone: after a restart all is seen anew, and a successor that is there already may be the one that leaves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.course import Swap
from weft.decide.measured.learning import unwatched
from weft.decide.places.growth import add_one
from weft.decide.rollouts.rollout import limits_of
from weft.domain.pool_memory import Outliers
from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import RolloutStrategy
from weft.domain.status import TRUE, Condition
from weft.domain.texts.figures import agreeing, some_of
from weft.domain.values.changed import changed
from weft.domain.workload import Role
from weft.placement import Departure
from weft.scaling.underperforming.outliers import (
    CUT_OFF,
    PATIENCE_SECONDS,
    came_in_vain,
    next_to_go,
    wait_seconds,
    who_lacks_kv,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from weft.decide.course import Course, Turn
    from weft.domain.pool_memory import Outlier, ScaleMemory
    from weft.placement import FreeMap

_FOR = {reason: f"for {seconds / 60.0:.0f} min" for reason, seconds in PATIENCE_SECONDS.items()}
_SLOWER, _ALIKE = _FOR[Reason.SlowerThanSiblings], _FOR[Reason.TransfersFail]
_PREFILL, _DECODE = _FOR[Reason.CutOffFromPrefill], _FOR[Reason.CutOffFromDecode]
_SAID = {
    Reason.SlowerThanSiblings: f"has been slower than its siblings {_SLOWER}, at no higher load",
    Reason.CutOffFromPrefill: f"has failed {_PREFILL} to fetch KV as its siblings do, and computes such prompts itself",
    Reason.CutOffFromDecode: f"has computed KV {_DECODE} most of which decode failed to fetch, unlike its siblings'",
    Reason.TransfersFail: f"has failed {_ALIKE} to fetch part of its KV, and computes such prompts itself",
}
_ALL_THAT_MAKES_IT_SLOW = {
    Role.Prefill: "decode fails to fetch its KV, too, and what waits to be fetched may be all that makes it slow",
    Role.Decode: "it fails to fetch KV, too, and computes such prompts itself, which may be all that makes it slow",
}
_MOST_NAMED = 5  # in one message


def outlier_that_goes(turn: Turn, present: Sequence[Departure]) -> Outlier | None:
    """The outlier whose successor is there or on its way; None while the other replicas are too few to let it go."""
    outliers = turn.memory.outliers
    if outliers is None or outliers.replaced is None:
        return None
    others = (each for each in present if each.assignment.replica != outliers.replaced.replica)
    staying = sum(not each.outdated and each.displaced is None for each in others)
    return outliers.replaced if staying >= turn.scale.desired else None


def because_it_does_worse(departure: Departure, outlier: Outlier) -> Departure:
    """The departure, which leaves once another serves in its place, with the outlier's reason unless it has one."""
    if departure.displaced is not None:
        return departure
    return replace(departure, displaced=Explanation(outlier.why, f"it {_SAID[outlier.why]}"))


def replace_outliers(units: Iterable[Sequence[Course]], free: FreeMap, now: float) -> None:
    """Place a successor of one outlier per pool on what everybody else has left free, and say which slow ones stay."""
    for courses in units:
        for course in courses:
            if course.turn.memory.outliers is not None:
                _replace_one(course, courses, free, now)
                course.why = changed(course.why, remarks=tuple(_who_stays_slower(course, now)))


def _replace_one(course: Course, unit: Sequence[Course], free: FreeMap, now: float) -> None:
    turn = course.turn
    due = next_to_go(turn.memory.outliers, now)
    if due is None or _what_forbids(turn) is not None or not _is_settled(course):
        return
    worse = next((each for each in turn.survivors.replicas if each.assignment.replica == due.replica), None)
    if worse is None or not add_one(course.growth, [each.growth for each in unit], free, now, avoiding=worse.nodes):
        course.swap = Swap(no_room=worse is not None)
        return
    departure = Departure(worse.assignment, ready=True, outdated=False)
    moving = (*course.leaving.moving, because_it_does_worse(departure, due))
    course.leaving, course.swap = changed(course.leaving, moving=moving), Swap(replaced=due)


def _is_settled(course: Course) -> bool:
    """Whether as many as are desired serve, all of the revision that is planned, and nobody comes or leaves."""
    turn, growth = course.turn, course.growth
    replicas, revision = turn.survivors.replicas, turn.planned.revision
    stands = all(each.ready and each.assignment.revision == revision for each in replicas)
    moves = (*course.leaving.gone, *course.leaving.moving, *growth.added, *turn.left, *turn.survivors.losses)
    waits = growth.refusal is not None or course.moves.awaited is not None or course.why.preempted is not None
    return stands and not moves and not waits and len(replicas) == growth.desired


def _what_forbids(turn: Turn) -> str | None:
    """Why the pool's spec lets no outlier be replaced; None where it does."""
    rollout = turn.planned.spec.rollout
    if turn.asked is not None:
        return "another scheduler chooses its place"
    if rollout.paused:
        return "spec.rollout.paused is set"
    if rollout.strategy is RolloutStrategy.Recreate:
        return "spec.rollout.strategy Recreate starts no replacement first"
    return (
        "spec.rollout.maxSurge allows no replacement first"
        if limits_of(rollout, turn.scale.desired).surge < 1
        else None
    )


def _who_stays_slower(course: Course, now: float) -> Iterator[str]:
    """Who is slower than its siblings and stays for now; failing to fetch KV is told by a condition of its own."""
    why, leaving = _why_one_stays(course, now), course.leaving.ids
    for each in _named(course):
        if each.why is Reason.SlowerThanSiblings and each.replica not in leaving:
            yield f"{_told(each)}{why(each)}"


def transfers_failing(course: Course, now: float) -> tuple[Condition, ...]:
    """Which replicas cannot fetch or hand over KV, and whether they are replaced; no condition where all can."""
    named = [each for each in _named(course) if each.why is not Reason.SlowerThanSiblings]
    cut_off = [each for each in named if each.why in CUT_OFF]
    if not named:
        return ()
    alike = [each for each in named if each.why is Reason.TransfersFail]
    why, leaving = _why_one_stays(course, now), course.leaving.ids
    comes = [", and is replaced" if each.replica in leaving else why(each) for each in cut_off[:_MOST_NAMED]]
    parts = [f"{_told(each)}{what}" for each, what in zip(cut_off, comes, strict=False)]
    more = len(cut_off) - _MOST_NAMED
    parts += [f"{more} more {agreeing(more, 'is', 'are')} cut off like that"] if more > 0 else []
    parts += [_all_alike(alike)] if alike else []
    return (Condition("TransfersFailing", TRUE, Explanation((cut_off or named)[0].why, "; ".join(parts))),)


def _all_alike(named: Sequence[Outlier]) -> str:
    """Say who fails to fetch KV where no sibling does better: replacing one of them would help nobody."""
    who = f"replica {named[0].replica} {_SAID[Reason.TransfersFail]}"
    if len(named) > 1:
        listed = some_of([str(each.replica) for each in named], _MOST_NAMED)
        failed = f"have failed {_ALIKE} to fetch part of their KV, and compute such prompts themselves"
        who = f"replicas {listed} {failed}"
    return f"{who}; not replaced: too few siblings are better to expect an improvement"


def _why_one_stays(course: Course, now: float) -> Callable[[Outlier], str]:
    """A function that says in words why an outlier stays; empty where its turn comes soon."""
    outliers, forbids = outliers_after(course, now).outliers or Outliers(now), _what_forbids(course.turn)
    lack, waits = who_lacks_kv(outliers), wait_seconds(outliers, now) > 0

    def why(each: Outlier) -> str | None:
        if forbids is not None:
            return forbids
        if came_in_vain(outliers, each, now):
            return "it replaced one with the same fault, so the cause is something else"
        if each.why is Reason.SlowerThanSiblings and each.replica in lack:
            return _ALL_THAT_MAKES_IT_SLOW[course.turn.planned.spec.role]
        if waits:
            return "at most one is replaced in an hour"
        return "nothing has room for its successor" if course.swap.no_room else None

    return lambda each: "" if (said := why(each)) is None else f", and stays: {said}"


def _named(course: Course) -> tuple[Outlier, ...]:
    outliers = course.turn.memory.outliers
    return outliers.named if outliers is not None else ()


def _told(each: Outlier) -> str:
    return f"replica {each.replica} {_SAID[each.why]}"


def outliers_after(course: Course, now: float) -> ScaleMemory:
    """The memory of a pool with what this pass began and told."""
    memory, begun = course.turn.memory, course.swap.replaced
    if memory.outliers is None:
        return memory
    told = tuple(replace(each, told=each.named is not None) for each in memory.outliers.found)
    outliers = replace(memory.outliers, found=told)
    if begun is None:
        return changed(memory, outliers=outliers)
    outliers = replace(outliers, replaced=begun, begun=now)
    if begun.why in CUT_OFF:
        outliers = replace(outliers, mended=now, newer=course.growth.added[-1].replica)
    return unwatched(changed(memory, outliers=outliers))


def outlier_events(course: Course) -> list[Explanation]:
    """Events for outliers that were first named in this pass; one that is replaced at once has an event of its own."""
    news = (each for each in _named(course) if not each.told and each != course.swap.replaced)
    return [Explanation(each.why, _told(each)) for each in news]
