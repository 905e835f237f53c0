"""Which shapes the free places in the fabric (its holes) allow.

Where the best shape has not all the places that are wanted, a pool that runs nothing takes the shape whose places serve
most, first in rank among equals. A pool that runs, or waits to run again after a failure, keeps its shape until the
better one has a place, and in the end enough of them to serve no less than now: a pool that waits holds no place, and
would change its shape whenever somebody else takes one. Both halves of a split have a place, or neither has: where no
shape of one half alone gives them one, both take others.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from weft.decide.course import from_nothing
from weft.decide.places.growth import place, suppose_placed
from weft.decide.plans.left_shapes import comes_back
from weft.decide.plans.wished_shapes import WishedShape
from weft.decide.replicas.promises import held_by
from weft.decide.replicas.slots import NOTHING
from weft.decide.rollouts.backoff import failure_of, remaining_seconds
from weft.decide.rollouts.rollout import limits_of
from weft.decide.rollouts.terms import rollout_of
from weft.decide.shapes.at_maximum import MORE, would_be_too_small_again
from weft.decide.shapes.comparing import as_many_as_serve_now, wanted_at_once
from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import RolloutStrategy
from weft.domain.texts.figures import moment_of
from weft.domain.values.changed import changed
from weft.placement import ALONE, Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from weft.decide.availability import Availability
    from weft.decide.course import Course, Growth, Turn
    from weft.decide.shapes.start import Replan
    from weft.domain.shape import Candidate, Shape
    from weft.placement import FreeMap, Hold

    _Wishes = tuple[WishedShape | None, ...]

_SERVES = frozenset({Reason.CostsMore, Reason.SimplerWins, Reason.AtMaximum, Reason.ShapeKept})


class Fitting(NamedTuple):
    """The part (0 to 1) of what is wanted that has a place, and the turns in other shapes; None: the planned shapes."""

    part: float
    instead: list[Turn] | None


def shapes_with_a_place(courses: Sequence[Course], free: FreeMap, replan: Replan) -> Fitting:
    """The shapes with places for most of what pools that run nothing want; among equals the first in rank.

    The planned shapes are kept unless others have places for more; the search ends where all that is wanted has one.
    """
    turns = [course.turn for course in courses]
    whole = [turn.planned.capacity.of(turn.scale.desired) for turn in turns]
    most, found = min(_parts_placed([course.growth for course in courses], whole, free)), None
    if most >= 1.0:
        return Fitting(most, None)
    for others in (_smaller, _both_smaller):
        for wishes in others(turns, free):
            tried = replan(turns, wishes)
            part = 0.0 if tried is None else min(_parts_placed(list(map(_all, tried)), whole, free))
            if part > most:
                most, found = part, tried
            if most >= 1.0:
                break
        if most > 0.0:
            break
    return Fitting(most, found)


def suppose_all_placed(courses: Sequence[Course], instead: Sequence[Turn] | None, free: FreeMap) -> None:
    """Count as taken what all wanted replicas of the pools would take, in the shapes of `instead` if given."""
    place_in_turn([course.growth for course in courses] if instead is None else list(map(_all, instead)), free)


def suppose_first_placed(courses: Sequence[Course], instead: Sequence[Turn] | None, free: FreeMap) -> None:
    """Count as taken what a first replica of each pool would take, in the shapes of `instead` if given."""
    place_in_turn([_first(course.turn) for course in courses] if instead is None else list(map(_first, instead)), free)


def run_nothing(courses: Iterable[Course]) -> bool:
    """Whether the pool, or both halves of a split, have no replica, want one, and are placed by no other scheduler."""
    return not any(map(_runs_or_rests, courses))


def _runs_or_rests(course: Course) -> bool:
    growth = course.growth
    return growth.have > 0 or growth.missing < 1 or course.turn.asked is not None


def _smaller(turns: Sequence[Turn], free: FreeMap) -> Iterator[_Wishes]:
    """Wishes for other shapes that meet the SLO, best first, for one half at a time.

    A half that has a place keeps its shape while the other has none.
    """
    alone = [fit([_first(turn)], free) for turn in turns]
    for turn, has_a_place in zip(turns, alone, strict=True):
        if has_a_place and not all(alone):
            continue
        why = _would_be_better(turn)
        for each in filter(serves, turn.planned.plan.alternatives):
            yield tuple(WishedShape(each.shape, why) if other is turn else None for other in turns)


def _both_smaller(turns: Sequence[Turn], free: FreeMap) -> Iterator[_Wishes]:
    """Wishes for other shapes of both halves of a split at once that have a place beside each other, best first.

    Whether the two go together is for who plans them. A single pool has no wishes here.
    """
    if len(turns) == 1:
        return
    has_a_place = [fit([_first(turn)], free) for turn in turns]
    where = [" beside the other half" if alone else "" for alone in has_a_place]
    reasons = list(map(_would_be_better, turns, where))
    others = [
        [each.shape for each in filter(may_serve, turn.planned.plan.alternatives) if _fits_as(turn, each.shape, free)]
        for turn in turns
    ]
    for ranks in sorted(product(*(range(len(shapes)) for shapes in others)), key=lambda ranks: (sum(ranks), ranks)):
        pair = [shapes[rank] for shapes, rank in zip(others, ranks, strict=True)]
        if fit([first_in(*each) for each in zip(turns, pair, strict=True)], free):
            yield tuple(WishedShape(*each) for each in zip(pair, reasons, strict=True))


def kept_for_want_of_room(turns: Sequence[Turn], available: Availability, replan: Replan) -> Sequence[Turn]:
    """The turns in their earlier shapes, if these run or wait to and the planned ones have no place; else as given."""
    if not any(map(_may_run_again, turns)) or _is_handed_over(turns):
        return turns
    if new_shapes_fit(turns, available.free, _given_up(turns, available.free)):
        return turns
    kept = in_shapes_before(turns, replan)
    return turns if kept is None or not _runs_or_waits(kept, available.now) else kept


def kept_while_frozen(turns: Sequence[Turn], available: Availability, replan: Replan) -> Sequence[Turn] | None:
    """The turns in the shapes in which they run, while any is frozen; None where none is, or that cannot be.

    More GPUs a replica is a larger pool, whatever the count, and all replicas start anew. One that lost all of them has
    another shape only if there is no place for its own.
    """
    ends = (turn.planned.spec.scaling.frozen_until(available.now) for turn in turns)
    until = max((each for each in ends if each is not None), default=None)
    if until is None or not any(map(_may_run_again, turns)):
        return None
    kept = in_shapes_before(turns, replan, lambda turn: _why_it_is_frozen(turn, until))
    stays = kept is not None and (_runs_or_waits(kept, available.now) or fit(map(_first, kept), available.free))
    return kept if stays else None


def in_shapes_before(
    turns: Sequence[Turn], replan: Replan, why: Callable[[Turn], Explanation] | None = None
) -> Sequence[Turn] | None:
    """The turns in the shapes of their statuses; None where a status has none, or a spec no longer allows it.

    `why` tells why a pool that would change its shape does not: for want of room, unless given.
    """
    before = [turn.planned.pool.status.plan for turn in turns]
    why = why or _why_it_stays
    wishes = [
        WishedShape(plan.shape, why(turn) if _changes(turn) else plan.verdict)
        for turn, plan in zip(turns, before, strict=True)
        if plan is not None
    ]
    return None if len(wishes) < len(turns) else replan(turns, wishes)


def as_moves_know_them(turns: Sequence[Turn], replan: Replan) -> Sequence[Turn]:
    """The turns in the shapes for which their moves began, even if the plan prefers others; as given without moves."""
    bound = any(turn.planned.pool.status.moves or turn.planned.pool.status.opening for turn in turns)
    return (bound and changes_shape(turns) and in_shapes_before(turns, replan)) or turns


def new_shapes_fit(turns: Iterable[Turn], free: FreeMap, more: Sequence[Hold] = NOTHING) -> bool:
    """Whether each pool that changes its shape has a place for one replica of the new one, if `more` were free too.

    It must also have, once replicas of the old shape have gone, places for as many as serve no less than now. A pool
    that outgrew a shape must not be too small again in the new one.
    """
    changing = list(filter(_changes, turns))
    if any(map(would_be_too_small_again, changing)) or not fit(map(_first, changing), free, more):
        return False
    return fit(
        [_first(turn) for turn in changing for _ in range(as_many_as_serve_now(turn))],
        free,
        held_by_its_own(changing, free),
    )


def _is_handed_over(turns: Iterable[Turn]) -> bool:
    """Whether another scheduler places any of the pools."""
    return any(turn.asked is not None for turn in turns)


def _may_run_again(turn: Turn) -> bool:
    """Whether the pool runs, lost a replica, is being recreated, or failed."""
    runs = bool(turn.survivors.replicas or turn.survivors.losses) or _is_made_anew(turn)
    return runs or turn.planned.pool.status.failure is not None


def _runs_or_waits(turns: Iterable[Turn], now: float) -> bool:
    """Whether any of the pools runs in these shapes, or waits for its own pods to leave or after a failure."""
    return any(
        turn.survivors.replicas or _is_made_anew(turn) or remaining_seconds(failure_of(turn, now), now) > 0
        for turn in turns
    )


def _is_made_anew(turn: Turn) -> bool:
    """Whether a Recreate rollout waits for pods of an earlier revision to leave: their GPUs may be its next place."""
    return turn.planned.spec.rollout.strategy is RolloutStrategy.Recreate and turn.draining


def changes_shape(turns: Iterable[Turn]) -> bool:
    """Whether any of the pools would run another shape than before."""
    return any(map(_changes, turns))


def _changes(turn: Turn) -> bool:
    before, now = turn.planned.pool.status.plan, turn.planned.plan
    return before is not None and before is not now and before.shape != now.shape


def _first(turn: Turn) -> Growth:
    """The growth of a pool by one replica."""
    return from_nothing(turn, 1)


def first_in(turn: Turn, shape: Shape) -> Growth:
    """The growth by one replica of another shape, as far as places go: all else is as in the pool's plan."""
    planned = turn.planned
    return _first(changed(turn, planned=changed(planned, plan=changed(planned.plan, shape=shape))))


def _fits_as(turn: Turn, shape: Shape, free: FreeMap) -> bool:
    return fit([first_in(turn, shape)], free)


def _all(turn: Turn) -> Growth:
    """The growth of a pool from nothing to the desired count."""
    return from_nothing(turn, turn.scale.desired)


def _parts_placed(growths: Sequence[Growth], whole: Sequence[float], free: FreeMap) -> list[float]:
    """The part (0 to 1) of what each growth misses that has a place beside the others.

    The whole is all missing replicas, or as many as serve `whole` requests/s where those are more.
    """
    with free.supposing():
        placed = place_in_turn(growths, free)
    return [count / wanted_at_once(growth, rate) for count, growth, rate in zip(placed, growths, whole, strict=True)]


def place_in_turn(growths: Sequence[Growth], free: FreeMap) -> list[int]:
    """How many replicas of each growth have a place; the one furthest behind is placed next, until one has none."""
    placed = [0] * len(growths)
    while (behind := _furthest_behind(growths, placed)) is not None:
        found = place(growths[behind], free, ALONE, tells=False)
        if not isinstance(found, Slot):
            break
        suppose_placed(growths[behind], found, free)
        placed[behind] += 1
    return placed


def _furthest_behind(growths: Sequence[Growth], placed: Sequence[int]) -> int | None:
    """The index of the growth that is furthest behind; None once none misses a replica."""
    short = [index for index, growth in enumerate(growths) if placed[index] < growth.missing]
    return min(short, key=lambda index: placed[index] / growths[index].missing, default=None)


def fit(growths: Iterable[Growth], free: FreeMap, more: Sequence[Hold] = NOTHING) -> bool:
    """Whether every growth has a place for one replica beside those of the others, if `more` were free too.

    A growth that is given several times needs as many places.
    """
    with free.supposing():
        free.suppose_gone(more)
        for growth in growths:
            found = place(growth, free, ALONE, tells=False)
            if not isinstance(found, Slot):
                return False
            suppose_placed(growth, found, free)
    return True


def _given_up(turns: Iterable[Turn], free: FreeMap) -> list[Hold]:
    """What the pools hold whose rollouts may make replicas unavailable."""
    return held_by_its_own(
        (each for each in turns if limits_of(rollout_of(each), each.scale.desired).unavailable), free
    )


def held_by_its_own(turns: Iterable[Turn], free: FreeMap) -> list[Hold]:
    """What the replicas of the pools hold, except what is leaving already: `place` counts that as free by itself."""
    return [
        hold
        for turn in turns
        for replica in turn.survivors.replicas
        for hold in held_by(turn.planned.pool, replica.pods, free.fabric)
        if hold not in free.vacated(hold.holder)
    ]


def serves(candidate: Candidate) -> bool:
    """Whether a candidate meets the SLO, and lost for another reason, such as its cost."""
    return candidate.prediction is not None and candidate.verdict.reason in _SERVES


def may_serve(candidate: Candidate) -> bool:
    """Whether a candidate serves, or would not go with the other half as that is planned, and may with another one."""
    return serves(candidate) or candidate.verdict.reason is Reason.PairIncompatible


def _why_it_is_frozen(turn: Turn, until: float) -> Explanation:
    plan = turn.planned.plan
    held = f"but spec.scaling.freezeUntil keeps the shape until {moment_of(until)}"
    return Explanation(Reason.Frozen, f"{plan.shape} would be better, {held}")


def _why_it_stays(turn: Turn) -> Explanation:
    if not would_be_too_small_again(turn):
        return _would_be_better(turn)
    plan = turn.planned.plan
    lacks = f"that many replicas would not serve {MORE - 1.0:.0%} more than last hour's peak"
    return Explanation(Reason.Outgrown, f"{plan.shape} would be better, but {lacks}: {plan.verdict.message}")


def _would_be_better(turn: Turn, where: str = "") -> Explanation:
    plan = turn.planned.plan
    room = as_many_as_serve_now(turn) if comes_back(turn.planned) else turn.scale.desired
    message = f"{plan.shape} would be better, but nothing has room for {room} of it{where}: {plan.verdict.message}"
    return Explanation(Reason.HolesTooSmall, message)
