"""A pool of higher priority that has no place takes one from lower pools: one place in a decision, drained as usual.

Half a pair serves nobody: a split without any replica takes the first place of both halves, or none. Nothing of it is
persisted. While what lower pools vacate would be a place, it is kept for the higher one and nobody else is asked to go;
so a place is asked for once, however long its pods drain.
"""

from __future__ import annotations

from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from weft.decide.places.growth import place, suppose_placed
from weft.decide.places.taking import (
    LOOKED_AT,
    has_nothing,
    keep,
    leaving_holds,
    lower_than,
    may_take,
    waits_until_they_are_gone,
)
from weft.decide.places.yielding import could_yield, drain, holds_of_all, with_companions
from weft.domain.values.changed import changed
from weft.placement import ALONE, Slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weft.decide.course import Course
    from weft.decide.places.yielding import Victim
    from weft.placement import FreeMap, Hold

MOST_DOMAINS = 8  # looked at for one place


def places_needed(unit: Sequence[Course], waited_since: float = inf) -> list[Course]:
    """The pools of a unit that need one place more at once: the one that lacks it, and a half that has nothing yet.

    None where real demand or its PriorityClass does not let it take one, or somebody else helps.
    """
    for course in unit:
        if course.growth.lacks_a_slot:
            return _needed_with(course, unit, waited_since)
    return []


def _needed_with(stuck: Course, unit: Sequence[Course], waited_since: float) -> list[Course]:
    if any(course.growth.asked is not None or course.moves.awaited is not None for course in unit):
        return []
    empty = [each for each in unit if each.growth.waits_for is stuck.growth and has_nothing(each)]
    needed = [stuck, *(empty if has_nothing(stuck) else [])]
    return needed if may_take(needed, stuck, waited_since) else []


def keep_what_leaves(needed: Sequence[Course], units: Sequence[Sequence[Course]], free: FreeMap, now: float) -> bool:
    """Keep the places that lower pools are vacating; False where they do not vacate as many as are needed."""
    leaving = leaving_holds(lower_than(needed, units), free)
    if not leaving or (slots := places_with(leaving, needed, free)) is None:
        return False
    for course, slot in zip(needed, slots, strict=True):
        keep(slot, course, free)
        course.later = changed(course.later, waited_for_lower=now)
        holders = {hold.holder for hold in leaving if hold.node in slot.nodes}
        course.growth.refuse(waits_until_they_are_gone(holders))
    return True


def preempt(units: Sequence[Sequence[Course]], free: FreeMap, now: float) -> None:
    """Have lower pools give up what the first unit needs that may take it; units in the order of their priority.

    Once at a moment, however often that is decided: the next one to need a place takes it in a pass of its own.
    """
    for needed in islice(filter(None, map(places_needed, units)), LOOKED_AT):
        if any(course.turn.memory.waited_for_lower == now for unit in units for course in unit):
            return
        lower = lower_than(needed, units)
        candidates = [victim for unit in lower for victim in could_yield(unit, free)]
        if victims := victims_for(needed, candidates, lower, free):
            for victim in victims:
                drain(victim, needed[0].turn, "place", free)
            keep_what_leaves(needed, units, free, now)
            return


def places_with(more: Iterable[Hold], needed: Iterable[Course], free: FreeMap) -> list[Slot] | None:
    """One place for each, all at once, if `more` were free; None where one of them has none."""
    found: list[Slot] = []
    with free.supposing():
        free.suppose_gone(more)
        for course in needed:
            slot = place(course.growth, free, ALONE)
            if not isinstance(slot, Slot):
                return None
            found.append(slot)
            suppose_placed(course.growth, slot, free)
    return found


def victims_for(
    needed: Sequence[Course], candidates: Sequence[Victim], lower: Sequence[Sequence[Course]], free: FreeMap
) -> list[Victim]:
    """Candidates whose places, with what lower pools vacate anyway, are enough for all; none where they never are."""
    found: list[Victim] = []
    with free.supposing():
        free.suppose_gone(leaving_holds(lower, free))
        for course in needed:
            slot = place(course.growth, free, ALONE)
            if not isinstance(slot, Slot):
                more = _for_one(course, candidates, found, free)
                free.suppose_gone(holds_of_all(more))
                found += more
                slot = place(course.growth, free, ALONE)
            if not isinstance(slot, Slot):
                return []
            suppose_placed(course.growth, slot, free)
    return found


def _for_one(course: Course, candidates: Sequence[Victim], before: Sequence[Victim], free: FreeMap) -> list[Victim]:
    """Replicas in one NVLink domain whose places make one for the pool, all needed, of the lowest pools that can.

    Their companions in the other half of a split are among them. Those in `before` are leaving already.
    """
    by_domain: dict[int, list[Victim]] = {}
    for victim in candidates:
        if victim.domain is not None and victim not in before:
            by_domain.setdefault(victim.domain, []).append(victim)
    needed = course.growth.planned.plan.shape.gpus
    enough = [each for home, each in by_domain.items() if _gpus(each) + _free_in(home, free) >= needed]
    likely = sorted(enough, key=lambda each: (_highest(each), -_gpus(each), each[0].domain))
    sets = [with_companions((*before, *_fewest(each, course, free)), candidates) for each in likely[:MOST_DOMAINS]]
    found = [more for each in sets if (more := each[len(before) :])]
    return min(found, key=lambda each: (_highest(each), _gpus(each), each[0].domain), default=[])


def _free_in(domain: int, free: FreeMap) -> int:
    return sum(free.on(node.name) for node in free.fabric.domains[domain].nodes)


def _highest(victims: Iterable[Victim]) -> int:
    return max(victim.priority for victim in victims)


def _gpus(victims: Iterable[Victim]) -> int:
    return sum(victim.gpus for victim in victims)


def _fewest(victims: Sequence[Victim], course: Course, free: FreeMap) -> list[Victim]:
    """The victims of one domain that have to go, lower pools first; empty where all of them are not enough."""
    needed = list(victims)
    if places_with(holds_of_all(needed), [course], free) is None:
        return []
    for victim in reversed(victims):
        without = [each for each in needed if each is not victim]
        if without and places_with(holds_of_all(without), [course], free) is not None:
            needed = without
    return needed
