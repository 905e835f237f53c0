"""A pool that cannot be planned or placed says so in an event, once, and again once it can."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from weft.decide.telling.news import News, news_of
from weft.domain.reasons import Explanation, Reason
from weft.domain.status import Condition

if TYPE_CHECKING:
    from weft.domain.decision import PoolDecision


def told(before: tuple[Condition, ...], world: World) -> list[tuple[str, bool]]:
    return [(each.explanation.reason.value, each.warns) for each in news_of(before, world.decision("chat"))]


def short_of_room() -> World:
    world = World.of([board("b-0")], pool("chat", pool_spec(8, external(2))))
    world.decide()
    return world


def decision_with(*conditions: Condition, events: tuple[Explanation, ...] = ()) -> PoolDecision:
    return replace(short_of_room().decision("chat"), conditions=conditions, events=events)


def placed(status: str, reason: Reason, message: str = "") -> Condition:
    return Condition("Placed", status, Explanation(reason, message))


def test_a_pool_without_room_warns_once() -> None:
    world = short_of_room()
    assert [("NoSlot", True)] == told((), world)
    before = world.decision("chat").conditions
    world.decide()
    assert [] == told(before, world)


def test_it_says_that_all_have_a_place_again() -> None:
    world = short_of_room()
    before = world.decision("chat").conditions
    world.pools["chat"] = replace(world.pools["chat"], spec=pool_spec(8, external(1)))
    world.decide()
    assert ("AllPlaced", False) in told(before, world)


def test_another_reason_is_news_and_another_number_is_none() -> None:
    was = (placed("False", Reason.NoSlot, "1 of 2 replicas placed"),)
    assert [] == [*news_of(was, decision_with(placed("False", Reason.NoSlot, "1 of 3 replicas placed")))]
    now = placed("False", Reason.QueueMissing)
    assert [News(now.explanation, warns=True)] == [*news_of(was, decision_with(now))]


def test_what_ends_by_itself_is_told_and_warns_nobody() -> None:
    waits = placed("False", Reason.WaitingForQuota)
    assert [News(waits.explanation, warns=False)] == [*news_of((), decision_with(waits))]


def test_what_an_event_tells_already_is_not_told_twice() -> None:
    lacks = placed("False", Reason.NoSlot)
    assert [] == [*news_of((), decision_with(lacks, events=(Explanation(Reason.NoSlot, "said"),)))]


def test_a_latency_above_its_target_is_no_event() -> None:
    """It comes and goes with traffic; the condition and the metric tell of it."""
    late = Condition("SLOMet", "False", Explanation(Reason.AboveSLO, "p95 TTFT is above 1 s"))
    assert [] == [*news_of((), decision_with(late))]
