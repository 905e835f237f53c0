"""A pool of higher priority that has no place takes one from lower pools: one place in a decision, drained as usual.

Nothing of it is persisted. While what lower pools vacate would be a place, it is kept for the higher one and nobody
else is asked to go; so a place is asked for once, however long its pods drain.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from weft.decide.growth import place
from weft.decide.promises import held_by, holder_name
from weft.domain.reasons import Explanation, Reason
from weft.placement import ALONE, Departure, Hold, Slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weft.decide.course import Course, Turn
    from weft.decide.health import Replica
    from weft.placement import FreeMap

LOOKED_AT = 3  # pools without a place for which one is looked for in one pass, so that it stays short
MOST_DOMAINS = 8  # looked at for one place


@dataclass(frozen=True, slots=True)
class _Victim:
    """A replica that a pool could give up, and what it holds."""

    course: Course
    replica: Replica
    holds: tuple[Hold, ...]
    domain: int


def may_preempt(together: Sequence[Course]) -> bool:
    """Whether a unit lacks a place, and real demand and its PriorityClass let it take one. Splits never do."""
    (course, *others), growth = together, together[0].growth
    nobody_helps = growth.asked is None and course.awaited is None
    no_slot = growth.refusal is not None and growth.refusal.reason is Reason.NoSlot
    return not others and nobody_helps and no_slot and course.turn.planned.pool.preempts and _is_in_need(course)


def _is_in_need(course: Course) -> bool:
    """Whether the traffic that is measured now, or `minReplicas`, needs more than there are.

    Neither headroom nor a forecast counts, and what is not measured in whole counts for nothing.
    """
    turn, growth = course.turn, course.growth
    spec, seen = turn.planned.spec.scaling, turn.observation
    have = len(growth.kept) + len(growth.added)
    if have < min(spec.min_replicas, growth.desired):
        return True
    if seen is None or not seen.complete or seen.requests_per_second is None or have >= growth.desired:
        return False
    backlogged = (seen.waiting or 0.0) > seen.answered
    return backlogged or seen.requests_per_second > have * turn.planned.capacity


def keep_what_leaves(course: Course, lower: Iterable[Course], free: FreeMap) -> bool:
    """Keep a place that lower pools are vacating; False where they vacate none."""
    leaving = [hold for each in lower for hold in free.vacated(holder_name(each.turn.planned.pool))]
    if not leaving or (slot := _slot_with(leaving, course, free)) is None:
        return False
    gpus = course.growth.planned.plan.shape.gpus_per_pod
    for node in slot.nodes:
        free.reserve(Hold(node, gpus, f"preemption for {holder_name(course.turn.planned.pool)}"))
    owners = ", ".join(sorted({hold.holder for hold in leaving if hold.node in slot.nodes}))
    course.growth.refusal = Explanation(Reason.Preempting, f"waits until pods of {owners}, of lower priority, are gone")
    return True


def preempt(units: Sequence[Sequence[Course]], free: FreeMap) -> None:
    """Have lower pools give up one place for the first unit that needs it; units in the order of their priority."""
    for (course,) in islice(filter(may_preempt, units), LOOKED_AT):
        lower = lower_than(course, units)
        victims = _victims_for(course, lower, free)
        if victims:
            for victim in victims:
                _drain(victim, course.turn, free)
            keep_what_leaves(course, (each for unit in lower for each in unit), free)
            return


def lower_than(course: Course, units: Sequence[Sequence[Course]]) -> list[Sequence[Course]]:
    """Units all of whose pools are of lower priority, the lowest first."""
    priority = course.turn.planned.pool.priority
    lower = [unit for unit in units if all(each.turn.planned.pool.priority < priority for each in unit)]
    return lower[::-1]


def _slot_with(more: Iterable[Hold], course: Course, free: FreeMap) -> Slot | None:
    with free.supposing():
        for hold in more:
            free.shift(hold.node, hold.gpus, -hold.joins)
        found = place(course.growth, free, ALONE)
    return found if isinstance(found, Slot) else None


def _victims_for(course: Course, lower: Sequence[Sequence[Course]], free: FreeMap) -> list[_Victim]:
    """Replicas in one NVLink domain whose places make one, none that is not needed; of the lowest pools that can."""
    by_domain: dict[int, list[_Victim]] = {}
    for victim in (victim for unit in lower for victim in _preemptable(unit, free)):
        by_domain.setdefault(victim.domain, []).append(victim)
    needed = course.growth.planned.plan.shape.gpus
    enough = [each for home, each in by_domain.items() if _gpus(each) + _free_in(home, free) >= needed]
    likely = sorted(enough, key=lambda each: (_highest(each), -_gpus(each), each[0].domain))
    found = [needs for each in likely[:MOST_DOMAINS] if (needs := _fewest(each, course, free))]
    return min(found, key=lambda each: (_highest(each), _gpus(each), each[0].domain), default=[])


def _free_in(domain: int, free: FreeMap) -> int:
    return sum(free.on(node.name) for node in free.fabric.domains[domain].nodes)


def _highest(victims: Sequence[_Victim]) -> int:
    return max(victim.course.turn.planned.pool.priority for victim in victims)


def _gpus(victims: Sequence[_Victim]) -> int:
    return sum(hold.gpus for victim in victims for hold in victim.holds)


def _preemptable(unit: Sequence[Course], free: FreeMap) -> Iterator[_Victim]:
    """Replicas that a pool has above its `minReplicas`, not ready ones first; none of a pool that changes anyway."""
    (course, *others) = unit
    growth, turn = course.growth, course.turn
    changes = course.gone or course.moving or growth.added or turn.asked is not None
    if others or changes or len(growth.kept) != len(turn.survivors.replicas):
        return
    spare = len(growth.kept) - max(1, turn.planned.spec.scaling.min_replicas)
    first = sorted(turn.survivors.replicas, key=lambda each: (each.ready, -each.assignment.replica))
    for replica in first[: max(0, spare)]:
        holds = tuple(held_by(turn.planned.pool, replica.pods, free.fabric))
        domains = {free.domain_of(hold.node) for hold in holds}
        if len(domains) == 1 and (domain := domains.pop()) is not None and len(holds) == replica.assignment.pods:
            yield _Victim(course, replica, holds, domain)


def _fewest(victims: Sequence[_Victim], course: Course, free: FreeMap) -> list[_Victim]:
    """Those of a domain that have to go, none where all of them are not enough; lower pools before higher ones."""
    needed = list(victims)
    if _slot_with(_holds(needed), course, free) is None:
        return []
    for victim in reversed(victims):
        without = [each for each in needed if each is not victim]
        if without and _slot_with(_holds(without), course, free) is not None:
            needed = without
    return needed


def _holds(victims: Iterable[_Victim]) -> Iterator[Hold]:
    return (hold for victim in victims for hold in victim.holds)


def _drain(victim: _Victim, taker: Turn, free: FreeMap) -> None:
    course, growth = victim.course, victim.course.growth
    growth.kept.remove(victim.replica.assignment)
    course.gone = (*course.gone, Departure(victim.replica.assignment, victim.replica.ready, outdated=False))
    for hold in victim.holds:
        free.vacate(hold)
    number = victim.replica.assignment.replica
    taken = f"replica {number} gives its place to {holder_name(taker.planned.pool)}, of higher priority"
    course.preempted = growth.refusal = Explanation(Reason.Preempted, taken)
