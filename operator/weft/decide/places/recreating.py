"""`Recreate` keeps its places (ADR 0127): what earlier replicas leave goes to their successors, whoever else waits.

While pods of the earlier revision end nobody comes, so that the places of those that are gone already are kept in each
pass. In the pass after the last one is gone the pool grows before all others, up to what it had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.decide.places.growth import grow, place
from weft.decide.places.spares import keep_spares
from weft.decide.places.taking import keep
from weft.domain.reasons import Reason
from weft.placement import ALONE, Slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.decide.course import Course
    from weft.placement import FreeMap


def keep_places_of_the_earlier_ones(units: Sequence[Sequence[Course]], free: FreeMap) -> None:
    """Keep a place for each successor that waits for the end of earlier pods."""
    for course in (course for together in units for course in together if _waits_for_their_end(course)):
        for _ in range(_had(course) - course.have):
            slot = place(course.growth, free, ALONE, tells=False)
            if not isinstance(slot, Slot):
                break
            keep(slot, course, free, why="")


def successors_come_first(units: Sequence[Sequence[Course]], free: FreeMap, now: float) -> None:
    """Place the successors of replicas whose last pods are gone, and what is kept as spares beside them."""
    for together in units:
        while any(_comes_back(course) for course in together):
            goes_on = grow([course.growth for course in together], free, now)
            keep_spares((course.growth for course in together), free)
            if not goes_on:
                break


def _waits_for_their_end(course: Course) -> bool:
    """Whether its new replicas do, and it is Weft that has their places."""
    return course.growth.held is Reason.Draining and course.growth.asked is None


def _comes_back(course: Course) -> bool:
    return course.turn.memory.recreates and course.growth.wants_more and course.have < _had(course)


def _had(course: Course) -> int:
    """Replicas that were placed within the last hour, at most those that are desired."""
    status, desired = course.turn.planned.pool.status, course.growth.desired
    return desired if status.placed_replicas is None else min(desired, status.placed_replicas)
