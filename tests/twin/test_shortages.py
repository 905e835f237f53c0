"""When pools had fewer replicas than they wanted: one entry while a reason lasts, with the figures of its worst."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.decide.world import external, pool, pool_spec
from weft.domain.reasons import Explanation, Reason
from weft.domain.status import Assignment, Condition, PoolStatus
from weft.twin.shortages import Shortages

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord

CHAT = pool("chat", pool_spec(1, external(1)))


def placed(have: int, wanted: int, reason: Reason = Reason.NoSlot) -> PoolRecord:
    """A pool that waits for places, if any is missing."""
    there = tuple(Assignment(replica, "r", ("node",), 1, 0.0) for replica in range(have))
    why = Explanation(reason, f"{have} of {wanted} replicas placed")
    lacks = Condition("Placed", "False" if have < wanted else "True", why)
    return replace(CHAT, status=PoolStatus(desired_replicas=wanted, assignments=there), conditions=(lacks,))


def held_at(count: int) -> PoolRecord:
    """A pool whose quota leaves room for so many, all of which are there."""
    why = Explanation(Reason.BudgetExhausted, f"room for {count}")
    whole = placed(count, count)
    return replace(whole, status=replace(whole.status, scale=why))


def seen(*looks: tuple[float, PoolRecord], end: float = 100.0) -> list[tuple[float, float, float, str]]:
    """Begin, end, the worst moment and the message of each shortage."""
    shortages = Shortages()
    for now, record in looks:
        shortages.look((record,), now)
    return [(each.at, each.until, each.worst_at, each.explanation.message) for each in shortages.of(CHAT, end)]


def test_figures_are_those_of_the_moment_with_most_missing() -> None:
    found = seen((10.0, placed(4, 5)), (20.0, placed(1, 5)), (30.0, placed(1, 8)), (40.0, placed(6, 8)))
    assert [(10.0, 100.0, 30.0, "1 of 8 replicas placed")] == found


def test_of_moments_that_lack_as_many_the_one_with_fewest_replicas_is_told_and_the_first_of_those() -> None:
    looks = ((10.0, placed(7, 8)), (20.0, placed(1, 2)), (30.0, placed(1, 2)), (40.0, placed(7, 8)))
    assert [(10.0, 100.0, 20.0, "1 of 2 replicas placed")] == seen(*looks)


def test_what_holds_a_count_down_is_told_at_the_least_count() -> None:
    assert [(10.0, 50.0, 20.0, "room for 2")] == seen(
        (10.0, held_at(5)), (20.0, held_at(2)), (30.0, held_at(4)), (50.0, placed(4, 4))
    )


def test_another_reason_or_a_whole_pool_ends_it_and_the_next_has_figures_of_its_own() -> None:
    drains = placed(4, 5, Reason.Draining)
    found = seen((10.0, placed(1, 5)), (20.0, drains), (30.0, placed(5, 5)), (40.0, placed(4, 5)), end=60.0)
    assert [
        (10.0, 20.0, 10.0, "1 of 5 replicas placed"),
        (20.0, 30.0, 20.0, "4 of 5 replicas placed"),
        (40.0, 60.0, 40.0, "4 of 5 replicas placed"),
    ] == found
