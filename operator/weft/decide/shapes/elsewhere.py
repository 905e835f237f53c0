"""Which other shapes would serve more of what a pool, or both halves of a split, want than the shapes that they run.

Shapes are compared by the requests per second that replicas with a place serve, not by the number of these replicas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.decide.counting.worth import ROUNDING
from weft.decide.course import from_nothing
from weft.decide.order import priority_of
from weft.decide.plans.wished_shapes import WishedShape
from weft.decide.shapes.at_maximum import (
    LACKS,
    MORE,
    is_at_its_maximum,
    is_too_small_at_its_maximum,
    wanted_at_its_maximum,
)
from weft.decide.shapes.comparing import come_first, just_wanted, never_serves_less, part_served, serves_the_rate
from weft.decide.shapes.holes import first_in, fit, held_by_its_own, may_serve, place_in_turn, serves
from weft.domain.reasons import Explanation, Reason
from weft.domain.scaling_spec import ScalingMode
from weft.domain.texts.figures import counted
from weft.scaling.sight import GAP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weft.decide.course import Turn
    from weft.decide.shapes.start import Start
    from weft.domain.shape import Candidate, Shape
    from weft.placement import FreeMap

    _Turns = Sequence[Turn]
    _Shapes = tuple[Shape, ...]  # one for each pool of a unit; some pools keep theirs

# Part of what is needed for which a shape must have places, by predictions as old as the plan, to be planned anew.
NEARLY = 0.8


def just_wants(turn: Turn, now: float) -> int:
    """Replicas that a pool wants at this moment, beyond its maximum where that is too few; 0 where nothing tells."""
    if is_at_its_maximum(turn, now):
        return wanted_at_its_maximum(turn)
    known = turn.memory.wanted
    is_told = bool(known) and 0 <= now - known[-1][0] <= GAP_SECONDS
    return just_wanted(turn) if is_told or turn.planned.spec.scaling.mode is ScalingMode.External else 0


@dataclass(frozen=True, slots=True)
class Search:
    """The search for other shapes for the `running` pools of one unit; `units` are all units of the pass.

    `lasted` says in words for how long the pools have been short.
    """

    running: _Turns
    start: Start
    units: Sequence[_Turns]
    lasted: str

    def best(self) -> _Turns | None:
        """The pools in the first shapes that serve all that is wanted, or in those that serve most, if clearly more.

        None where there are none, where hardly anything is lacking, or where nothing is served now.
        """
        now = min(self._part(turn, len(turn.survivors.replicas), turn) for turn in self.running)
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
        """Shapes to try: another one for one half, beginning with halves that are short; then for both halves at once.

        Both change at once only to shapes with the same accelerator.
        """
        now = [turn.planned.plan.shape for turn in self.running]
        known = list(zip(self.running, self.start.replan.alternatives(self.running), strict=True))
        for place in sorted(range(len(known)), key=lambda place: self.running[place].memory.short_since is None):
            turn, candidates = known[place]
            for each in filter(serves, candidates):
                if self._may_hold(turn, each):
                    yield (*now[:place], each.shape, *now[place + 1 :])
        if len(known) > 1:
            one, other = (self._first_of_each_kind(*each) for each in known)
            yield from ((one[kind], other[kind]) for kind in one if kind in other)

    def _part_in(self, shapes: _Shapes, most: float) -> float:
        """The part (0 to 1) of what is wanted that these shapes would serve; for a split, of the half further behind.

        0 where the pools cannot have these shapes, or less would be served during the change than now. Peers, each of
        which takes time to look at, are only considered where the part without them exceeds `most` (else 0).
        """
        tried = self._planned_in(shapes, "")
        if tried is None:
            return 0.0
        pairs = list(zip(tried, self.running, strict=True))
        changing = [pair for pair in pairs if _differ(*pair)]
        if not changing or not all(serves_the_rate(*pair) and never_serves_less(*pair) for pair in changing):
            return 0.0
        if self._served_by(pairs, self._held(pairs, ())) <= most:
            return 0.0
        held = self._held(pairs, self._peers())
        first = [count for pair, count in zip(pairs, held, strict=True) if _differ(*pair)]
        return self._served_by(pairs, held) if self._can_begin(changing, first) else 0.0

    def _served_by(self, pairs: Sequence[tuple[Turn, Turn]], held: Sequence[int]) -> float:
        """The part of what is wanted that `held` replicas of each pool serve, of the pool that is furthest behind."""
        return min(self._part(new, count, old) for (new, old), count in zip(pairs, held, strict=True))

    def _part(self, new: Turn, count: int, old: Turn) -> float:
        """The part of what the old shape is wanted for that so many replicas of the new one serve."""
        return part_served(new, count, old, (just_wants(new, self.start.now), just_wants(old, self.start.now)))

    def _planned_in(self, shapes: _Shapes, gain: str) -> _Turns | None:
        """The turns planned anew in these shapes, each with its reason; None where that is not allowed."""
        wishes = [self._wish(turn, shape, gain) for turn, shape in zip(self.running, shapes, strict=True)]
        return self.start.replan(self.running, wishes)

    def _wish(self, turn: Turn, shape: Shape, gain: str) -> WishedShape:
        plan, have, wants = turn.planned.plan, len(turn.survivors.replicas), just_wants(turn, self.start.now)
        if shape == plan.shape:
            return WishedShape(shape, plan.verdict)
        lacks = f"too few places, {have} for the {counted(wants, 'replica')} that were wanted then"
        if is_too_small_at_its_maximum(turn, self.start.now):
            lacks = f"too few replicas, at most {have} for the {wants} that were wanted then"
        elif have >= wants:
            lacks = "too few places for the other half of the split beside it"
        return WishedShape(
            shape, Explanation(Reason.Outgrown, f"for {self.lasted} {plan.shape} had {lacks}; {shape} {gain}")
        )

    def _first_of_each_kind(self, turn: Turn, candidates: Iterable[Candidate]) -> dict[str, Shape]:
        """The first shape for each accelerator, even if it is incompatible with what the other half runs now."""
        found: dict[str, Shape] = {}
        for each in candidates:
            if may_serve(each) and each.shape.accelerator not in found and self._may_hold(turn, each):
                found[each.shape.accelerator] = each.shape
        return found

    def _may_hold(self, turn: Turn, other: Candidate) -> bool:
        """Whether a shape has places for nearly as many replicas as it needs, by the predictions in the plan."""
        plan, have, free = turn.planned.plan, len(turn.survivors.replicas), self.start.free
        needed = 1.0
        if other.prediction is not None and other.prediction.capacity > 0:
            worth = min(float(max(have, just_wants(turn, self.start.now))), MORE * have)
            needed = NEARLY * worth * plan.prediction.capacity / other.prediction.capacity
        return fit([first_in(turn, other.shape)] * max(1, math.floor(needed)), free, held_by_its_own([turn], free))

    def _held(self, pairs: Sequence[tuple[Turn, Turn]], peers: Iterable[Turn]) -> list[int]:
        """How many of the wanted replicas of each pool have a place beside those of `peers`.

        What a single pool's own replicas hold counts as free. Halves of a split are placed in step, so that neither
        can count on what the other leaves.
        """
        free, now = self.start.free, self.start.now
        stay = [0 if _differ(new, old) else len(old.survivors.replicas) for new, old in pairs]
        wanted = [min(new.scale.desired, just_wants(new, now)) for new, _ in pairs]
        missing = [max(0, count - have) for count, have in zip(wanted, stay, strict=True)]
        with free.supposing():
            _suppose_placed(peers, free)
            if len(pairs) == 1:
                free.suppose_gone(held_by_its_own(self.running, free))
            placed = place_in_turn(
                [from_nothing(new, count) for (new, _), count in zip(pairs, missing, strict=True)], free
            )
        return [have + count for have, count in zip(stay, placed, strict=True)]

    def _can_begin(self, changing: Sequence[tuple[Turn, Turn]], held: Sequence[int]) -> bool:
        """Whether the replicas that start before the first old one leaves have a place, and quotas pay for them."""
        free, accounts = self.start.free, self.start.accounts.copy()
        counts = [come_first(new, old, most) for (new, old), most in zip(changing, held, strict=True)]
        first = [new for (new, _), count in zip(changing, counts, strict=True) for _ in range(count)]
        for new in first:
            if accounts.short([new.planned]) is not None:
                return False
            accounts.pay(new.planned)
        with free.supposing():
            _suppose_placed(self._peers(), free)
            return fit([from_nothing(new, 1) for new in first], free)

    def _peers(self) -> Iterator[Turn]:
        """The turns of all other units of the same or a higher priority."""
        names, least = {turn.name for turn in self.running}, _priority(self.running)
        for turns in self.units:
            if turns[0].name not in names and _priority(turns) >= least:
                yield from turns


def _suppose_placed(peers: Iterable[Turn], free: FreeMap) -> None:
    """Count as taken the places of replicas that peers have yet to place in their planned revision."""
    for turn in peers:
        there = sum(each.assignment.revision == turn.planned.revision for each in turn.survivors.replicas)
        if turn.asked is None and there < turn.scale.desired:
            place_in_turn([from_nothing(turn, turn.scale.desired - there)], free)


def _priority(turns: _Turns) -> int:
    return priority_of([turn.planned.pool for turn in turns])


def _differ(new: Turn, old: Turn) -> bool:
    return new.planned.plan.shape != old.planned.plan.shape
