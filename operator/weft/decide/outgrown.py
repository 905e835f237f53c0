"""A pool that wants more replicas than its shape has places for goes to one that has them (ADR 0093).

Only one that stands: all that have a place serve in the planned revision, and none comes, leaves, was lost or waits for
a move. What is short for less than ten minutes is for the time that a new node takes, or a peak; what had a place
within the hour, or would have one on a node that does not work now, is for whoever mends that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.decide.growth import Growth
from weft.decide.holes import (
    MORE,
    changes_shape,
    fit,
    held_by_its_own,
    just_wanted,
    kept_for_want_of_room,
    place_in_turn,
    serves,
)
from weft.decide.order import priority_of
from weft.decide.pairing import rollout_of
from weft.decide.planning import Wish, left_lately
from weft.decide.rollout import limits_of
from weft.decide.weighing import PATIENCE_SECONDS
from weft.decide.worth import ROUNDING
from weft.domain.changed import changed
from weft.domain.figures import counted, seconds
from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import RolloutStrategy, ScalingMode
from weft.domain.stumbling import stumbled
from weft.placement import is_selected
from weft.scaling.sight import GAP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weft.decide.course import Course, Turn
    from weft.decide.setting_out import Start
    from weft.domain.shape import Candidate, Shape
    from weft.placement import FreeMap

    _Turns = Sequence[Turn]
    _Shapes = tuple[Shape, ...]  # of all pools of a unit, some of which they have now

# A node that is drained, repaired or replaced is back by then, as `decide/places.py` has it.
MENDED_SECONDS = 3600.0
# Of what a shape has to have places for, by predictions that are as old as the plan, before it is planned anew.
NEARLY = 0.8
_NEVER_THERE = frozenset({Reason.DynamicResourcesOnly})


def lacks_places_since(course: Course, now: float) -> float | None:
    """Since when all that stay serve and their shape has no place for more that is wanted; None where that is not so.

    Who left in this pass is no matter: a second one does not know of it.
    """
    growth, turn = course.growth, course.turn
    if growth.refusal is None or growth.refusal.reason is not Reason.NoSlot or growth.waits_for is not None:
        return None
    if growth.added or course.leaving.moving or course.moves.awaited or course.moves.opening:
        return None
    if not _all_serve(course) or _wants(turn, now) <= growth.have:
        return None
    since = turn.memory.short
    return now if since is None or since > now else since


def _all_serve(course: Course) -> bool:
    """Whether all that stay do, in the planned revision."""
    stay, revision = {each.replica for each in course.growth.kept}, course.turn.planned.revision
    there = (each for each in course.turn.survivors.replicas if each.assignment.replica in stay)
    return all(each.ready and each.assignment.revision == revision for each in there)


def looks_for_others_in_seconds(turn: Turn, since: float, free: FreeMap, now: float) -> float | None:
    """When another shape is looked for, None where that is so already."""
    left = since + _patience_seconds(turn, free) - now
    return left if left > 0 else None


def where_more_have_a_place(
    units: Sequence[Sequence[Turn]], short: Iterable[Sequence[Turn]], start: Start
) -> Sequence[Sequence[Turn]]:
    """The units, of which the first that lacks places for long is in shapes that have more, if there are such.

    One in each pass: the next one sees what is left.
    """
    for turns in short:
        try:
            found = _elsewhere(turns, units, start)
        except Exception as error:
            raise stumbled(error, *(turn.planned.pool for turn in turns)) from error
        if found is not None:
            return [found if each is turns else each for each in units]
    return units


def _elsewhere(turns: _Turns, units: Sequence[_Turns], start: Start) -> _Turns | None:
    """The same pools in the shapes in which most is served; None where that is not clearly more than now."""
    running = kept_for_want_of_room(turns, start, start.replan) if changes_shape(turns) else turns
    if changes_shape(running) or not all(_may_change(turn, start) for turn in running):
        return None
    if not any(_has_outgrown(turn, start) for turn in running):
        return None
    search = _Search(running, start, _still_to_come(running, units))
    now = min(_part(turn, len(turn.survivors.replicas), turn, start.now) for turn in running)
    most, found = min(1.0, MORE * now - ROUNDING), None
    for shapes in search.others():
        part = search.part_in(shapes)
        if part > most or (part >= 1.0 and found is None):
            most, found = part, shapes
        if most >= 1.0 and found is not None:
            break
    return None if found is None else search.planned_in(found, _gain(most, now))


def _gain(part: float, now: float) -> str:
    return "had places for all" if part >= 1.0 else f"had places that serve {part / now - 1.0:.0%} more"


# whether a pool may change its shape at all


def _may_change(turn: Turn, start: Start) -> bool:
    """Whether nothing but places bounds the pool, nobody has pinned it down, and it stands."""
    return _stands(turn) and not start.moves.bind(turn) and all(claim(turn, start) for claim in _MAY_CHANGE)


def _stands(turn: Turn) -> bool:
    """Whether all replicas serve in the planned revision, and none was lost."""
    standing = turn.survivors.standing
    return standing is not None and standing.ready and standing.revisions <= {turn.planned.revision}


def _rolls_without_a_gap(turn: Turn, _: Start) -> bool:
    """Recreate would take all of it away while most is wanted, and a pause keeps what is there."""
    rollout = turn.planned.spec.rollout
    return not rollout.paused and rollout.strategy is not RolloutStrategy.Recreate


def _is_not_frozen(turn: Turn, start: Start) -> bool:
    until = turn.planned.spec.scaling.freeze_until
    return until is None or until <= start.now


def _is_bound_by_no_budget(turn: Turn, _: Start) -> bool:
    return turn.share is None and not turn.barred and not turn.frozen


def _looks_for_places_itself(turn: Turn, _: Start) -> bool:
    """No other scheduler does, nor was it given its NVLink domain, which goes by the shapes of both halves."""
    return turn.asked is None and not turn.planned.spec.placement.nvlink_domain


def _has_kept_its_shape_for_an_hour(turn: Turn, start: Start) -> bool:
    return left_lately(turn.planned.pool.status.left_shape, start.now) is None


_MAY_CHANGE = (
    _rolls_without_a_gap,
    _is_not_frozen,
    _is_bound_by_no_budget,
    _looks_for_places_itself,
    _has_kept_its_shape_for_an_hour,
)


def _has_outgrown(turn: Turn, start: Start) -> bool:
    """Whether it lacks places for longer than a peak or a fault lasts, and more of them than it had within the hour."""
    since, most = turn.memory.short, turn.planned.pool.status.placed_replicas
    wants = _wants(turn, start.now)
    if since is None or start.now - since < _patience_seconds(turn, start.free):
        return False
    if most is None or max(most, len(turn.survivors.replicas)) >= wants:
        return False
    return not fit([_growth(turn, 1)], start.free)


def _patience_seconds(turn: Turn, free: FreeMap) -> float:
    """How long it waits for load to fall or for nodes of its kind: those that come, or those that do not work now."""
    if _some_of_its_kind_are_away(turn, free):
        return MENDED_SECONDS
    return max(PATIENCE_SECONDS, turn.planned.spec.scaling.scale_down_delay_seconds)


def _some_of_its_kind_are_away(turn: Turn, free: FreeMap) -> bool:
    """Whether a node of the kind that it has takes nothing now, or shows fewer devices than it should."""
    kind, placement = turn.planned.plan.shape.accelerator, turn.planned.spec.placement
    return any(
        node.impaired is not None or (node.unusable is not None and node.unusable.reason not in _NEVER_THERE)
        for node in free.fabric.nodes().values()
        if node.accelerator == kind and is_selected(node, placement) is None
    )


def _wants(turn: Turn, now: float) -> int:
    """Replicas that it wants at this moment; 0 where nobody tells."""
    known = turn.memory.wanted
    is_told = bool(known) and 0 <= now - known[-1][0] <= GAP_SECONDS
    return just_wanted(turn) if is_told or turn.planned.spec.scaling.mode is ScalingMode.External else 0


# what other shapes would serve


@dataclass(frozen=True, slots=True)
class _Search:
    """Shapes for one pool or both halves of a split, beside what peers have yet to place."""

    running: _Turns
    start: Start
    to_come: Sequence[Growth]

    def others(self) -> Iterator[_Shapes]:
        """Of each half in turn, those that lack places first; then of both, where they are of one kind."""
        found = [list(self._worth_a_look(turn)) for turn in self.running]
        for place in sorted(range(len(found)), key=lambda place: self.running[place].memory.short is None):
            for each in found[place]:
                yield tuple(
                    each.shape if index == place else turn.planned.plan.shape for index, turn in enumerate(self.running)
                )
        if len(found) > 1:
            for one in found[0]:
                kind = one.shape.accelerator
                yield from ((one.shape, each.shape) for each in found[1] if each.shape.accelerator == kind)

    def part_in(self, shapes: _Shapes) -> float:
        """Of what is wanted the part that these would serve, of a split that of the half that is further behind.

        0 where that cannot be, or less would serve on the way there than does now.
        """
        tried = self.planned_in(shapes, "")
        if tried is None:
            return 0.0
        pairs = list(zip(tried, self.running, strict=True))
        changing = [(new, old) for new, old in pairs if new.planned.plan.shape != old.planned.plan.shape]
        if not changing or not all(_serves_the_rate(*each) and _never_serves_less(*each) for each in changing):
            return 0.0
        held = self._held(pairs)
        fits = self._can_begin([(new, old, count) for (new, old), count in zip(pairs, held, strict=True)])
        parts = (_part(new, count, old, self.start.now) for (new, old), count in zip(pairs, held, strict=True))
        return min(parts) if fits else 0.0

    def planned_in(self, shapes: _Shapes, gain: str) -> _Turns | None:
        """The turns in these shapes, with why."""
        wishes = [
            Wish(shape, _why(turn, shape, gain, self.start) if shape != turn.planned.plan.shape else plan.verdict)
            for turn, shape in zip(self.running, shapes, strict=True)
            for plan in [turn.planned.plan]
        ]
        return self.start.replan(self.running, wishes)

    def _worth_a_look(self, turn: Turn) -> Iterator[Candidate]:
        return (each for each in turn.planned.plan.alternatives if serves(each) and self._may_hold(turn, each))

    def _may_hold(self, turn: Turn, other: Candidate) -> bool:
        """Whether a shape has nearly as many places as it has to have, by what the plan predicts for it."""
        plan, have = turn.planned.plan, len(turn.survivors.replicas)
        capacity = other.prediction.capacity if other.prediction is not None else 0.0
        if capacity <= 0:
            return False
        needed = min(float(max(have, _wants(turn, self.start.now))), MORE * have) * plan.prediction.capacity / capacity
        stand_in = changed(turn.planned, plan=changed(plan, shape=other.shape))
        growth = Growth(stand_in, turn.scale.desired, [], 1, 0)
        free = self.start.free
        return fit([growth] * max(1, math.floor(NEARLY * needed)), free, held_by_its_own([turn], free))

    def _held(self, pairs: Sequence[tuple[Turn, Turn]]) -> list[int]:
        """Replicas that have a place in the end, of all that are wanted, once those of earlier shapes have left."""
        free, now = self.start.free, self.start.now
        changing = [new for new, old in pairs if new.planned.plan.shape != old.planned.plan.shape]
        stay = [0 if new in changing else len(old.survivors.replicas) for new, old in pairs]
        missing = [max(0, _wants(new, now) - have) for (new, _), have in zip(pairs, stay, strict=True)]
        growths = [_growth(new, count) for (new, _), count in zip(pairs, missing, strict=True)]
        with free.supposing():
            place_in_turn(self.to_come, free)
            free.suppose_gone(held_by_its_own(changing, free))
            placed = place_in_turn(growths, free)
        return [have + count for have, count in zip(stay, placed, strict=True)]

    def _can_begin(self, pairs: Sequence[tuple[Turn, Turn, int]]) -> bool:
        """Whether all that come before the first one leaves have a place beside it, and quotas pay for them."""
        free, accounts = self.start.free, self.start.accounts.copy()
        first = [
            new
            for new, old, most in pairs
            if new.planned.plan.shape != old.planned.plan.shape
            for _ in range(_come_first(new, old, most))
        ]
        for new in first:
            if accounts.short([new.planned]) is not None:
                return False
            accounts.pay(new.planned)
        with free.supposing():
            place_in_turn(self.to_come, free)
            return bool(first) and fit([_growth(new, 1) for new in first], free)


def _still_to_come(mine: _Turns, units: Iterable[_Turns]) -> list[Growth]:
    """What peers and pools of higher priority have yet to place in what they shall run."""
    names, least = {turn.name for turn in mine}, priority_of([turn.planned.pool for turn in mine])
    found = []
    for turns in units:
        if turns[0].name in names or priority_of([turn.planned.pool for turn in turns]) < least:
            continue
        for turn in turns:
            there = sum(each.assignment.revision == turn.planned.revision for each in turn.survivors.replicas)
            if turn.asked is None and there < turn.scale.desired:
                found.append(_growth(turn, turn.scale.desired - there))
    return found


def _growth(turn: Turn, missing: int) -> Growth:
    return Growth(turn.planned, turn.scale.desired, [], missing, 0)


def _part(new: Turn, count: int, old: Turn, now: float) -> float:
    """Of the requests per second that the earlier shape's replicas would serve, if it had all that are wanted."""
    wants, capacity = _wants(old, now), old.planned.capacity
    if wants < 1 or capacity <= 0:
        return 1.0
    served = count * new.planned.capacity
    if count >= _wants(new, now) and served > (wants - 1) * capacity:
        return 1.0  # what is wanted is a whole number of replicas in either shape
    return min(1.0, served / (wants * capacity))


def _serves_the_rate(new: Turn, old: Turn) -> bool:
    """Whether as many as are allowed serve the declared rate, or as many of the earlier shape would not either.

    Else the earlier one would be chosen again at once.
    """
    rate, served = new.planned.spec.workload.requests_per_second, []
    for turn in (new, old):
        shape, capacity = turn.planned.plan.shape, turn.planned.plan.prediction.capacity
        served.append(turn.planned.spec.scaling.affordable(shape.gpus, shape.pods) * capacity)
    return served[0] >= min(rate, served[1]) * (1.0 - ROUNDING) or served[1] < rate


def _never_serves_less(new: Turn, old: Turn) -> bool:
    """Whether those that a rollout leaves serving at least serve what serves now: a count may follow in steps."""
    rollout, desired = rollout_of(new), new.scale.desired
    least = desired - limits_of(rollout, desired, new.scale.needed).unavailable
    return least * new.planned.capacity >= len(old.survivors.replicas) * old.planned.capacity - ROUNDING


def _come_first(new: Turn, old: Turn, most: int) -> int:
    """Replicas of the new shape that come before one of the earlier shape leaves, of so many that have a place."""
    before, now = old.planned.plan.prediction.capacity, new.planned.plan.prediction.capacity
    worth = len(old.survivors.replicas) * min(1.0, before / now if now > 0 else 1.0)
    surge = limits_of(rollout_of(new), new.scale.desired).surge
    return max(1, min(most, math.floor(new.scale.desired + surge - worth + ROUNDING)))


def _why(turn: Turn, shape: Shape, gain: str, start: Start) -> Explanation:
    now, have, wants = turn.planned.plan.shape, len(turn.survivors.replicas), _wants(turn, start.now)
    lasted = seconds(_patience_seconds(turn, start.free))
    lacks = f"for {lasted} {now} had too few places, {have} for the {counted(wants, 'replica')} that were wanted then"
    if have >= wants:
        lacks = f"the other half of the split had too few places beside {now}"
    return Explanation(Reason.Outgrown, f"{lacks}; {shape} {gain}")
