"""Which replicas a pool or a split could give up to pools of higher priority.

Never below `minReplicas`, and none of a pool that changes anyway. Replicas whose node is gone give nobody a place, and
count for none of those that a pool keeps. No half of a split is left behind the other by more
than one replica: it gives from the half that is ahead, and who would be left without a counterpart goes along.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.decide.replicas.promises import held_by, holder_name
from weft.domain.reasons import Explanation, Reason
from weft.domain.values.changed import changed
from weft.placement import Departure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weft.decide.course import Course, Turn
    from weft.decide.replicas.health import AssignedReplica
    from weft.placement import FreeMap, Hold

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Victim:
    """A replica that a pool could give up, what it holds, and in which NVLink domain; None for several."""

    unit: Sequence[Course]
    course: Course
    replica: AssignedReplica
    holds: tuple[Hold, ...]
    domain: int | None

    @property
    def priority(self) -> int:
        """Priority of its pool."""
        return self.course.turn.planned.pool.priority

    @property
    def gpus(self) -> int:
        """How many GPUs it holds."""
        return sum(hold.gpus for hold in self.holds)


def could_yield(unit: Sequence[Course], free: FreeMap) -> list[Victim]:
    """Replicas above `minReplicas`, in the order in which they would go; some of them may be too many for a split."""
    if not all(_stands_still(course, pair=len(unit) > 1) for course in unit):
        return []
    return _in_turns([list(_spare(unit, course, free)) for course in unit])


def _stands_still(course: Course, *, pair: bool) -> bool:
    """Whether nobody comes or goes. A split that rolls has two pairs, of which each needs both halves."""
    growth, turn = course.growth, course.turn
    replicas = turn.survivors.replicas
    changes = course.leaving.gone or course.leaving.moving or growth.added or turn.asked is not None
    if changes or len(growth.kept) != len(replicas):
        return False
    return not pair or all(each.assignment.revision == turn.planned.revision for each in replicas)


def _spare(unit: Sequence[Course], course: Course, free: FreeMap) -> Iterator[Victim]:
    """The replicas of one pool above `minReplicas` (or 1), those that are not ready first."""
    turn, seen = course.turn, course.turn.survivors
    found = [each for each in seen.replicas if not seen.waits_for_a_node(each)]
    spare = len(found) - max(1, turn.planned.spec.scaling.min_replicas)
    first = sorted(found, key=lambda each: (each.ready, -each.assignment.replica))
    for replica in first[: max(0, spare)]:
        holds = tuple(held_by(turn.planned.pool, replica.pods, free.fabric))
        domains = {free.domain_of(hold.node) for hold in holds}
        if len(holds) == replica.assignment.pods:
            yield Victim(unit, course, replica, holds, domains.pop() if len(domains) == 1 else None)


def _in_turns(halves: Sequence[Sequence[Victim]]) -> list[Victim]:
    """Victims of both halves of a split: always the next one of the half that is ahead."""
    gone = [0] * len(halves)
    found: list[Victim] = []
    while any(left := [len(half) > count for half, count in zip(halves, gone, strict=True)]):
        fills = [
            _fill(half[0].course, count) if more else -1.0 for half, count, more in zip(halves, gone, left, strict=True)
        ]
        ahead = fills.index(max(fills))
        found.append(halves[ahead][gone[ahead]])
        gone[ahead] += 1
    return found


def _fill(course: Course, gone: int) -> float:
    return (len(course.growth.kept) - gone) / max(1, course.wanted)


def are_in_step(victims: Sequence[Victim]) -> bool:
    """Whether all of them may go: no half of a split would then be behind the other by more than one replica."""
    return all(_half_too_many(unit, victims) is None for unit in _splits(victims))


def with_companions(victims: Iterable[Victim], candidates: Sequence[Victim]) -> list[Victim]:
    """The victims, and replicas of the other half that would lose their counterpart; empty where too few may go."""
    found = list(victims)
    for unit in _splits(found):
        while (half := _half_too_many(unit, found)) is not None:
            others = (each for each in candidates if each.unit is unit and each.course is not half)
            if (companion := next((each for each in others if each not in found), None)) is None:
                return []
            found.append(companion)
    return found


def _splits(victims: Iterable[Victim]) -> list[Sequence[Course]]:
    return list({id(each.unit): each.unit for each in victims if len(each.unit) > 1}.values())


def _half_too_many(unit: Sequence[Course], victims: Iterable[Victim]) -> Course | None:
    """The half that would be too far behind the other one, by what it gives."""
    given = [each.course for each in victims]
    gone = [sum(each is course for each in given) for course in unit]
    fills = [_fill(course, count) for course, count in zip(unit, gone, strict=True)]
    slack = max(1.0 / max(1, course.wanted) for course in unit) + _ROUNDING
    for course, count, fill, other in zip(unit, gone, fills, reversed(fills), strict=True):
        if count and fill < other - slack:
            return course
    return None


def holds_of_all(victims: Iterable[Victim]) -> Iterator[Hold]:
    """What they hold together."""
    return (hold for victim in victims for hold in victim.holds)


def drain(victim: Victim, taker: Turn, what: str, free: FreeMap) -> None:
    """Let the victim leave like any replica, and say to which pool it gives its `what`."""
    course, growth = victim.course, victim.course.growth
    growth.kept.remove(victim.replica.assignment)
    departure = Departure(victim.replica.assignment, victim.replica.ready, outdated=False)
    course.leaving = changed(course.leaving, gone=(*course.leaving.gone, departure))
    for hold in victim.holds:
        free.vacate(hold)
    number = victim.replica.assignment.replica
    taken = f"replica {number} gives its {what} to {holder_name(taker.planned.pool)}, of higher priority"
    growth.refusal = Explanation(Reason.Preempted, taken)
    course.why = changed(course.why, preempted=growth.refusal)
