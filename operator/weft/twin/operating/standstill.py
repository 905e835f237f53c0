"""Whether a pass of decide changes anything but its clocks: of two such passes, none is needed in between.

A status that asks for the same, the same conditions, no event, and a memory in which only times moved on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.domain.values.changed import changed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weft.domain.decision import Decisions
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.snapshot import PoolRecord
    from weft.domain.status import Condition, PoolStatus
    from weft.twin.cluster.start_up import StartPhases

    Decided = Mapping[str, tuple[Condition, ...]]

LEAP_SECONDS = 30.0  # between passes while nothing happens: traffic is learnt in bins as long as that
POLICY_LEAPS = 2.0  # between passes where policies write the counts: longer gaps would count as missing metrics
# Nothing happens from the first of these after the last request, when no window of measurements holds it any more, to
# the second before the next one, from which on such windows are filled as always.
QUIET_SECONDS, AWAKE_SECONDS = 900.0, 180.0
_LEAPS_IN_A_START = 2.0  # a start lasts for more than so many leaps, or none is made


def may_leap(decide_seconds: float, starts: Iterable[StartPhases]) -> bool:
    """Whether a leap leads to a pass that would be made anyway, and no replica starts within one."""
    shortest = min(each.engine_seconds for each in starts)
    return LEAP_SECONDS % decide_seconds == 0.0 and shortest > _LEAPS_IN_A_START * LEAP_SECONDS


def asks_for_more(old: PoolStatus, new: PoolStatus) -> bool:
    """Whether a status differs in what converging reads: live figures and explanations are not part of it."""
    return any(one is not other and one != other for one, other in zip(_asked(old), _asked(new), strict=True))


def stands_still(
    decisions: Decisions, pools: Mapping[str, PoolRecord], decided: Decided, memory: Mapping[str, ScaleMemory]
) -> bool:
    """Whether decisions change nothing of the pools (by UID), of the conditions `decided` before and of the memory."""
    told = [
        *[(each.key.uid, each.events, each.conditions) for each in decisions.pools],
        *[(each.key.uid, each.events, each.conditions) for each in decisions.splits],
    ]
    return (
        all(not events and _alike(decided.get(uid, ()), conditions) for uid, events, conditions in told)
        and all(_asks_the_same(pools[each.key.uid].status, each.status) for each in decisions.pools)
        and memory.keys() == decisions.memory.keys()
        and all(_without_clocks(memory[uid]) == _without_clocks(each) for uid, each in decisions.memory.items())
    )


def _asks_the_same(old: PoolStatus, new: PoolStatus) -> bool:
    return old.scale == new.scale and not asks_for_more(old, new)


def _alike(old: Iterable[Condition], new: Iterable[Condition]) -> bool:
    return list(map(_told, old)) == list(map(_told, new))


def _told(condition: Condition) -> tuple[str, ...]:
    return condition.kind, condition.status, condition.explanation.reason


def _without_clocks(memory: ScaleMemory) -> ScaleMemory:
    """Return a memory without the traffic of its last minute, its forecast, and when it was looked at."""
    outliers = memory.outliers
    return changed(
        memory,
        loads=(),
        seen=None,
        forecast=None,
        wanted=tuple([(0.0, count) for _, count in memory.wanted]),
        with_chance=tuple([(0.0, count) for _, count in memory.with_chance]),
        outliers=None if outliers is None or not outliers.found else changed(outliers, seen=0.0),
    )


def _asked(status: PoolStatus) -> Iterator[Any]:
    yield from (status.assignments, status.desired_replicas, status.revision, status.plan, status.failure)
    yield status.engine
