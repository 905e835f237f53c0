"""One pass over all pools and pairs, step by step: they set out, grow, give up or take what is scarce, and are told."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from weft.decide.counting.budgets import PROMISED_SECONDS
from weft.decide.counting.need import needed_now
from weft.decide.counting.rounds import Fill, fill_of, in_rounds
from weft.decide.order import priority_of
from weft.decide.places.growth import behind, explain_again, grow
from weft.decide.places.making_room import make_room, say_what_is_awaited, say_who_fits_in_place
from weft.decide.places.moving import Moves, moves_under_way
from weft.decide.places.outliers import replace_outliers
from weft.decide.places.preemption import keep_what_leaves, places_needed, preempt
from weft.decide.places.quota_preemption import keep_room, take_room
from weft.decide.places.racks import keep_halves_together
from weft.decide.places.recreating import keep_places_of_the_earlier_ones, successors_come_first
from weft.decide.places.spares import keep_spares
from weft.decide.rollouts.weighing import say_what_holds_rollouts
from weft.decide.setting_out import all_set_out, set_out_anew
from weft.decide.shapes.holes import (
    as_moves_know_them,
    run_nothing,
    shapes_with_a_place,
    suppose_all_placed,
    suppose_first_placed,
)
from weft.decide.shapes.outgrown import where_more_have_a_place
from weft.decide.shapes.start import Start
from weft.decide.telling.outcomes import outcome_of
from weft.domain.stumbling import stumbled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.decide.availability import Availability
    from weft.decide.course import Course, Growth, PoolOutcome, Turn
    from weft.decide.places.making_room import Purse
    from weft.decide.shapes.start import Replan
    from weft.placement import FreeMap

    _Courses = Sequence[Sequence[Course]]


def take_turns(
    units: Sequence[Sequence[Turn]], available: Availability, replan: Replan, purse: Purse
) -> tuple[PoolOutcome, ...]:
    """Decide for all units, each one pool or both halves of a pair, in the order in which they get what is scarce.

    That is by priority, and in rounds within one (`decide/counting/rounds.py`). All departures come before the first
    arrival, and all reasons after the last, so that a second pass finds what this one says.
    """
    free, now = available.free, available.now
    moves = _moves(units, free, replan)
    start = Start(free, available.accounts, now, available.heard, moves, replan)
    if short := [
        turns for turns in units if turns[0].memory.short_since is not None or turns[-1].memory.short_since is not None
    ]:
        units = where_more_have_a_place(units, short, start)
    courses = all_set_out(units, start)
    keep_halves_together(courses, free)
    keep_spares((course.growth for together in courses for course in together), free)
    held = [each for together in courses for each in together if each.growth.held or each.turn.memory.recreates]
    if held:  # hardly ever
        keep_places_of_the_earlier_ones(courses, free)
        successors_come_first(courses, free, now)
    for _, peers in groupby(courses, key=_priority):
        _grow_side_by_side(list(peers), courses, start)
    every = [course for together in courses for course in together]
    explain_again([course.growth for course in every], free)
    say_who_fits_in_place(every, free)
    say_what_is_awaited(every)
    make_room(every, free, purse, now)
    preempt(courses, free, now)
    if available.accounts.by_namespace:
        take_room(courses, available)
    replace_outliers(courses, free, now)
    say_what_holds_rollouts(every, now)
    return _told(every, free, now)


def _told(every: Sequence[Course], free: FreeMap, now: float) -> tuple[PoolOutcome, ...]:
    found: list[PoolOutcome] = []
    for course in every:
        try:
            found.append(outcome_of(course, free, now))
        except Exception as error:
            raise stumbled(error, course.turn.planned.pool) from error
    return tuple(found)


def _moves(units: Sequence[Sequence[Turn]], free: FreeMap, replan: Replan) -> Moves:
    """The moves that are under way, judged by the shapes for which they began."""
    movers = [turn for turns in units for turn in turns if turn.planned.pool.status.moves]
    if not movers:
        return Moves()
    return moves_under_way([turn for turns in units for turn in as_moves_know_them(turns, replan)], free)


def _grow_side_by_side(peers: Sequence[list[Course]], courses: _Courses, start: Start) -> None:
    """Units of one priority, which also keep what lower ones are leaving already."""
    wanting = [together for together in peers if _wants_more(together)]
    rising = [_Rising(together, start) for together in wanting]
    if new := [each for each in rising if each.runs_nothing]:
        _look_for_shapes(new, start)
    in_rounds(rising)
    for together in wanting:
        if needed := places_needed(together, start.now - PROMISED_SECONDS):
            keep_what_leaves(needed, courses, start.free, start.now)
    if start.accounts.by_namespace:
        keep_room(peers, courses, start)


def _look_for_shapes(new: Sequence[_Rising], start: Start) -> None:
    """Shapes that have a place beside what those before would take: a hole is one pool's, not everybody's.

    Who would get nothing looks beside a first replica of the others: no pool gets a second one before all have a first.
    """
    served: list[_Rising] = []
    without: list[_Rising] = []
    with start.free.supposing():
        for each in new:
            part, each.fitting = shapes_with_a_place(each.together, start.free, start.replan)
            (served if part > 0 else without).append(each)
            if part > 0 and each is not new[-1]:
                suppose_all_placed(each.together, each.fitting, start.free)
    if served and without:
        _look_beside_first_ones(without, served, start)


def _look_beside_first_ones(without: Sequence[_Rising], served: Sequence[_Rising], start: Start) -> None:
    with start.free.supposing():
        for each in served:
            suppose_first_placed(each.together, each.fitting, start.free)
        for each in without:
            _, each.fitting = shapes_with_a_place(each.together, start.free, start.replan)
            suppose_first_placed(each.together, each.fitting, start.free)


@dataclass(slots=True)
class _Rising:
    """One unit that takes turns at what is free; before its first turn it changes to the `fitting` shapes, if any."""

    together: list[Course]
    start: Start
    fitting: list[Turn] | None = None

    @property
    def fill(self) -> Fill:
        wanting = (course for course in self.together if course.growth.wants_more)
        return min((_fill_of(course) for course in wanting), default=Fill(1.0, 1.0))

    @property
    def cost(self) -> float:
        first = behind(self._growths())
        return 0.0 if first is None else first.cost

    def advance(self) -> bool:
        """Place one replica, and keep its spares."""
        if self.fitting is not None:
            self.together[:] = set_out_anew(self.fitting, self.together, self.start)
            self.fitting = None
        goes_on = grow(self._growths(), self.start.free, self.start.now)
        keep_spares(self._growths(), self.start.free)
        return goes_on

    @property
    def runs_nothing(self) -> bool:
        """Whether it may take any shape, and none is bound to an NVLink domain that was planned for it."""
        return not self._is_bound and run_nothing(self.together)

    @property
    def _is_bound(self) -> bool:
        """Whether it was given its NVLink domain, which goes by the shapes that were planned."""
        return any(growth.planned.spec.placement.nvlink_domain for growth in self._growths())

    def _growths(self) -> list[Growth]:
        return [course.growth for course in self.together]


def _fill_of(course: Course) -> Fill:
    turn, growth = course.turn, course.growth
    return fill_of(course.have, needed_now(turn.planned, turn.observation, growth.desired), growth.desired)


def _priority(together: Sequence[Course]) -> int:
    return priority_of([course.turn.planned.pool for course in together])


def _wants_more(together: Sequence[Course]) -> bool:
    return any(course.growth.wants_more for course in together)
