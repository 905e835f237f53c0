"""What pools that take a place, or room in a quota, from pools of lower priority have in common.

Who may take, from whom, and what is kept for who waits until they are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.decide.counting.need import surely_needs_more
from weft.decide.replicas.promises import holder_name
from weft.domain.reasons import Explanation, Reason
from weft.placement import Hold

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weft.decide.course import Course
    from weft.placement import FreeMap, Slot

LOOKED_AT = 3  # pools that lack something and are looked at in one pass, so that it stays short


def may_take(needed: Sequence[Course], first: Course, waited_since: float) -> bool:
    """Whether the pools `needed` may take from lower pools what the `first` to lack it needs.

    One that waited at `waited_since` or later needs it as long as it wants it: else its need would come and go with its
    traffic.
    """
    return _preempt(needed) and (_has_waited(first, waited_since) or _is_in_need(first))


def has_nothing(course: Course) -> bool:
    """Whether a pool has no replica, though it shall have some."""
    return course.have == 0 < course.wanted


def _has_waited(course: Course, since: float) -> bool:
    """Whether it has waited for what lower pools give up, at that time or later."""
    waited = course.turn.memory.waited_for_lower
    return waited is not None and waited >= since


def _preempt(needed: Iterable[Course]) -> bool:
    """Whether their PriorityClasses let them take anything from others."""
    return all(course.turn.planned.pool.preempts for course in needed)


def _is_in_need(course: Course) -> bool:
    """Whether the traffic that is measured now, or `minReplicas`, needs more than there are.

    Neither headroom nor a forecast counts.
    """
    planned, have = course.turn.planned, course.have
    if have < min(planned.spec.scaling.min_replicas, course.wanted):
        return True
    return have < course.wanted and surely_needs_more(planned, course.turn.observation, have)


def lower_than(needed: Iterable[Course], units: Sequence[Sequence[Course]]) -> list[Sequence[Course]]:
    """Units all of whose pools are of lower priority than all of these, the lowest first."""
    priority = min(course.turn.planned.pool.priority for course in needed)
    lower = [unit for unit in units if all(each.turn.planned.pool.priority < priority for each in unit)]
    return lower[::-1]


def leaving_holds(lower: Iterable[Sequence[Course]], free: FreeMap) -> list[Hold]:
    """What leaving pods of these hold."""
    return [hold for unit in lower for each in unit for hold in free.vacated(holder_name(each.turn.planned.pool))]


def keep(slot: Slot, course: Course, free: FreeMap, why: str = "preemption for ") -> None:
    """Keep a place for a pool, which gets it once whoever holds it is gone; messages name it after `why`."""
    gpus = course.growth.planned.plan.shape.gpus_per_pod
    for node in slot.nodes:
        free.reserve(Hold(node, gpus, f"{why}{holder_name(course.turn.planned.pool)}"))


def waits_until_they_are_gone(owners: Iterable[str]) -> Explanation:
    """What a pool says while others drain for it."""
    named = ", ".join(sorted(owners))
    return Explanation(Reason.Preempting, f"waits until pods of {named}, of lower priority, are gone")
