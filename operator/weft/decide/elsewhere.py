"""Which other shapes have places for more of what a pool, or both halves of a split, want than those that they run.

What counts is the requests per second that a shape serves where it has places, and not how many replicas those are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.decide.at_maximum import LACKS, MORE, is_at_its_maximum, is_too_small_at_its_maximum, wanted_at_its_maximum
from weft.decide.growth import Growth
from weft.decide.holes import fit, held_by_its_own, just_wanted, place_in_turn, serves
from weft.decide.order import priority_of
from weft.decide.pairing import rollout_of
from weft.decide.planning import Wish
from weft.decide.rollout import limits_of
from weft.decide.worth import ROUNDING
from weft.domain.changed import changed
from weft.domain.figures import counted
from weft.domain.reasons import Explanation, Reason
from weft.domain.scaling_spec import ScalingMode
from weft.scaling.sight import GAP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weft.decide.course import Turn
    from weft.decide.setting_out import Start
    from weft.domain.shape import Candidate, Shape
    from weft.placement import FreeMap

    _Turns = Sequence[Turn]
    _Shapes = tuple[Shape, ...]  # of all pools of a unit, some of which they have now

# Of what a shape has to have places for, by predictions that are as old as the plan, before it is planned anew.
NEARLY = 0.8


def just_wants(turn: Turn, now: float) -> int:
    """Replicas that a pool wants at this moment, more than it may have where those do not do; 0 where nobody tells."""
    if is_at_its_maximum(turn, now):
        return wanted_at_its_maximum(turn)
    known = turn.memory.wanted
    is_told = bool(known) and 0 <= now - known[-1][0] <= GAP_SECONDS
    return just_wanted(turn) if is_told or turn.planned.spec.scaling.mode is ScalingMode.External else 0


@dataclass(frozen=True, slots=True)
class Search:
    """Pools that lack places, in the shapes that they run, and all `units` of the pass; `lasted` is for how long."""

    running: _Turns
    start: Start
    units: Sequence[_Turns]
    lasted: str

    def best(self) -> _Turns | None:
        """The pools in the first shapes that have places for all, or in those that serve most, if that is clearly more.

        None where there are none, or hardly anything is lacking.
        """
        now = min(_part(turn, len(turn.survivors.replicas), turn, self.start.now) for turn in self.running)
        if now <= 0 or now * LACKS > 1.0 + ROUNDING:
            return None
        most, found = min(1.0, MORE * now) - ROUNDING, None
        for shapes in self._others():
            part = self._part_in(shapes, most)
            if part > most:
                most, found = part, shapes
            if most >= 1.0:
                break
        gain = "had places for all" if most >= 1.0 else f"had places that serve {most / now - 1.0:.0%} more"
        return None if found is None else self._planned_in(found, gain)

    def _others(self) -> Iterator[_Shapes]:
        """Of each half in turn, those that lack places first; then of both, where they are of one kind."""
        now = [turn.planned.plan.shape for turn in self.running]
        known = list(zip(self.running, self.start.replan.alternatives(self.running), strict=True))
        for place in sorted(range(len(known)), key=lambda place: self.running[place].memory.short is None):
            turn, candidates = known[place]
            for each in filter(serves, candidates):
                if self._may_hold(turn, each):
                    yield (*now[:place], each.shape, *now[place + 1 :])
        if len(known) > 1:
            one, other = (self._first_of_each_kind(*each) for each in known)
            yield from ((one[kind], other[kind]) for kind in one if kind in other)

    def _part_in(self, shapes: _Shapes, most: float) -> float:
        """Of what is wanted the part that these would serve, of a split that of the half that is further behind.

        0 where that cannot be, or less would serve on the way there than does now. What is not more than `most` without
        peers is not asked beside them, which takes a look at each of them.
        """
        tried = self._planned_in(shapes, "")
        if tried is None:
            return 0.0
        pairs = list(zip(tried, self.running, strict=True))
        changing = [pair for pair in pairs if _differ(*pair)]
        if not changing or not all(_serves_the_rate(*pair) and _never_serves_less(*pair) for pair in changing):
            return 0.0
        if self._served_by(pairs, self._held(pairs, ())) <= most:
            return 0.0
        held = self._held(pairs, self._peers())
        first = [count for pair, count in zip(pairs, held, strict=True) if _differ(*pair)]
        return self._served_by(pairs, held) if self._can_begin(changing, first) else 0.0

    def _served_by(self, pairs: Sequence[tuple[Turn, Turn]], held: Sequence[int]) -> float:
        """The part that so many replicas of each serve."""
        return min(_part(new, count, old, self.start.now) for (new, old), count in zip(pairs, held, strict=True))

    def _planned_in(self, shapes: _Shapes, gain: str) -> _Turns | None:
        """The turns in these shapes, with why."""
        wishes = [self._wish(turn, shape, gain) for turn, shape in zip(self.running, shapes, strict=True)]
        return self.start.replan(self.running, wishes)

    def _wish(self, turn: Turn, shape: Shape, gain: str) -> Wish:
        plan, have, wants = turn.planned.plan, len(turn.survivors.replicas), just_wants(turn, self.start.now)
        if shape == plan.shape:
            return Wish(shape, plan.verdict)
        lacks = f"too few places, {have} for the {counted(wants, 'replica')} that were wanted then"
        if is_too_small_at_its_maximum(turn, self.start.now):
            lacks = f"too few replicas, at most {have} for the {wants} that were wanted then"
        elif have >= wants:
            lacks = "too few places for the other half of the split beside it"
        return Wish(shape, Explanation(Reason.Outgrown, f"for {self.lasted} {plan.shape} had {lacks}; {shape} {gain}"))

    def _first_of_each_kind(self, turn: Turn, candidates: Iterable[Candidate]) -> dict[str, Shape]:
        """Also of those that do not serve beside what the other half runs now."""
        found: dict[str, Shape] = {}
        for each in candidates:
            may_serve = serves(each) or each.verdict.reason is Reason.PairIncompatible
            if may_serve and each.shape.accelerator not in found and self._may_hold(turn, each):
                found[each.shape.accelerator] = each.shape
        return found

    def _may_hold(self, turn: Turn, other: Candidate) -> bool:
        """Whether a shape has nearly as many places as it has to have, as far as the plan predicts that."""
        plan, have, free = turn.planned.plan, len(turn.survivors.replicas), self.start.free
        needed = 1.0
        if other.prediction is not None and other.prediction.capacity > 0:
            worth = min(float(max(have, just_wants(turn, self.start.now))), MORE * have)
            needed = NEARLY * worth * plan.prediction.capacity / other.prediction.capacity
        stand_in = changed(turn.planned, plan=changed(plan, shape=other.shape))
        one = Growth(stand_in, turn.scale.desired, [], 1, 0)
        return fit([one] * max(1, math.floor(needed)), free, held_by_its_own([turn], free))

    def _held(self, pairs: Sequence[tuple[Turn, Turn]], peers: Iterable[Turn]) -> list[int]:
        """Replicas that have a place beside peers, of all that are wanted: once those of the earlier shape have left.

        Halves of a split are placed in step, so that none can count on what the other leaves.
        """
        free, now = self.start.free, self.start.now
        stay = [0 if _differ(new, old) else len(old.survivors.replicas) for new, old in pairs]
        wanted = [min(new.scale.desired, just_wants(new, now)) for new, _ in pairs]
        missing = [max(0, count - have) for count, have in zip(wanted, stay, strict=True)]
        with free.supposing():
            _suppose_placed(peers, free)
            if len(pairs) == 1:
                free.suppose_gone(held_by_its_own(self.running, free))
            placed = place_in_turn([_growth(new, count) for (new, _), count in zip(pairs, missing, strict=True)], free)
        return [have + count for have, count in zip(stay, placed, strict=True)]

    def _can_begin(self, changing: Sequence[tuple[Turn, Turn]], held: Sequence[int]) -> bool:
        """Whether all that come before the first one leaves have a place beside it, and quotas pay for them."""
        free, accounts = self.start.free, self.start.accounts.copy()
        counts = [_come_first(new, old, most) for (new, old), most in zip(changing, held, strict=True)]
        first = [new for (new, _), count in zip(changing, counts, strict=True) for _ in range(count)]
        for new in first:
            if accounts.short([new.planned]) is not None:
                return False
            accounts.pay(new.planned)
        with free.supposing():
            _suppose_placed(self._peers(), free)
            return fit([_growth(new, 1) for new in first], free)

    def _peers(self) -> Iterator[Turn]:
        """Peers and pools of higher priority."""
        names, least = {turn.name for turn in self.running}, _priority(self.running)
        for turns in self.units:
            if turns[0].name not in names and _priority(turns) >= least:
                yield from turns


def _suppose_placed(peers: Iterable[Turn], free: FreeMap) -> None:
    """Count as taken what others have yet to place in what they shall run."""
    for turn in peers:
        there = sum(each.assignment.revision == turn.planned.revision for each in turn.survivors.replicas)
        if turn.asked is None and there < turn.scale.desired:
            place_in_turn([_growth(turn, turn.scale.desired - there)], free)


def _priority(turns: _Turns) -> int:
    return priority_of([turn.planned.pool for turn in turns])


def _differ(new: Turn, old: Turn) -> bool:
    return new.planned.plan.shape != old.planned.plan.shape


def _growth(turn: Turn, missing: int) -> Growth:
    return Growth(turn.planned, turn.scale.desired, [], missing, 0)


def _part(new: Turn, count: int, old: Turn, now: float) -> float:
    """Of the requests per second that the earlier shape's replicas would serve, if it had all that are wanted."""
    wants, capacity = just_wants(old, now), old.planned.capacity
    if wants < 1 or capacity <= 0:
        return 1.0
    served = count * new.planned.capacity
    if count >= just_wants(new, now) and served > (wants - 1) * capacity:
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
    return served[0] >= rate * (1.0 - ROUNDING) or served[1] < rate


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
