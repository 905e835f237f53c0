"""Room in a ResourceQuota goes to the pool of higher priority: one replica at a time, drained, and with a place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.limited import GPUS, PODS, Limited, desired, join, limited
from tests.decide.preempting import HIGH, asked, comes, draining_goes_on
from tests.decide.test_budgets import of_class
from tests.decide.world import external, pool, pool_spec
from tests.fabric.cluster import board, rack
from weft.domain.quotas import QuotaRecord, QuotaScope
from weft.domain.scaling_spec import ScalingSpec

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord, Snapshot


def used_up(low: PoolRecord | None = None, boards: int = 6) -> Limited:
    """A pool of priority 0 has all of a quota of 24 GPUs, and half of the boards are free."""
    world = limited(boards, {GPUS: 24}, low or pool("low", pool_spec(8, external(3))))
    world.turn(5)
    assert 3 == world.serving("low")
    return world


def test_a_pool_without_room_in_its_quota_takes_some_and_both_say_so() -> None:
    world = used_up()
    comes(world, HIGH)
    world.now += 5
    world.decide()
    assert 2 == len(world.status("low").assignments)
    status, reason, message = world.condition("low", "Placed")
    assert ("False", "BudgetExhausted") == (status, reason)
    assert "2 of 3 replicas placed; ResourceQuota gpus" in message
    gave = next(event for event in world.decision("low").events if event.reason.value == "Preempted")
    assert "gives its room in the quota to pool team/high, of higher priority" in gave.message
    assert ("False", "Preempting") == world.condition("high", "Placed")[:2]
    waits = "0 of 1 replicas placed; waits until pods of pool team/low, of lower priority, are gone"
    assert waits == world.condition("high", "Placed")[2]
    world._follow()
    world.turn(6)
    assert [1, 2] == [world.serving("high"), world.serving("low")]
    assert (1, 2) == desired(world, "high", "low")
    assert "BudgetExhausted" == world.condition("low", "Placed")[1]


@pytest.mark.parametrize("seconds", [5.0, 60.0])
def test_while_pods_drain_nobody_else_is_asked_to_go(seconds: float) -> None:
    world = used_up()
    comes(world, HIGH)
    for _ in range(20):  # the pods of the one that goes never end
        world.now += seconds
        world.decide()
        assert 2 == len(world.status("low").assignments)
        assert () == world.status("high").assignments
        assert "Preempting" == world.condition("high", "Placed")[1]
    before = world.pools
    world.decide()
    assert before == world.pools


def test_what_leaves_for_one_pool_makes_others_wait_from_the_same_pass_on() -> None:
    """A replica that goes anyway pays for the first of two pools that come; until that is counted, none is asked to."""
    world = used_up()
    world.edit("low", pool_spec(8, replace(external(2), min_replicas=1)))
    world.now += 5
    world.decide()
    comes(world, HIGH)
    comes(world, pool("second", pool_spec(8, external(1)), priority=50))
    world.now += 5
    for _ in range(2):
        decisions = world.decide()
        assert 2 == len(world.status("low").assignments)
        assert ["Preempting", "BudgetExhausted"] == [world.condition(name, "Placed")[1] for name in ("high", "second")]
        assert 30.0 == decisions.wake_after_seconds


class Late(Limited):
    """The quota controller takes its time: what was used a while ago is what it shows."""

    shown: tuple[QuotaRecord, ...] = ()

    def snapshot(self) -> Snapshot:
        found = super().snapshot()
        return replace(found, quotas=self.shown or found.quotas)


def test_a_quota_that_still_counts_pods_that_are_gone_costs_nobody_else_a_replica() -> None:
    world = Late.of([board(f"b-{i}") for i in range(6)], pool("low", pool_spec(8, external(3))))
    assert isinstance(world, Late)
    world.quotas = (QuotaRecord("team", "gpus", ((GPUS, 24),)),)
    world.turn(5)
    comes(world, HIGH)
    world.turn(1)
    world.shown = (replace(world.quotas[0], used=((GPUS, 24),)),)
    world.turn(5)
    assert not any(pod.terminating for pod in world.pods.values())
    assert (2, 2) == (world.serving("low"), len(world.status("low").assignments))
    assert world.last is not None
    assert world.last.wake_after_seconds is not None
    world.shown = ()
    world.turn(4)
    assert [1, 2] == [world.serving("high"), world.serving("low")]


def test_one_replica_is_taken_in_a_decision_and_half_a_minute_passes_in_between() -> None:
    world = used_up()
    comes(world, pool("high", pool_spec(8, ScalingSpec(min_replicas=2)), priority=100))
    counts = []
    for _ in range(30):
        world.turn()
        counts.append((world.serving("high"), world.serving("low")))
    assert (2, 1) == counts[-1]
    assert counts.index((2, 1)) - counts.index((1, 2)) >= 5
    assert all(world.used(GPUS) <= 24 for _ in counts)


def test_room_that_is_too_little_alone_is_kept_for_whoever_waits_for_the_rest() -> None:
    """Four GPUs of the quota are left, as many as one lower replica gives up: it does not get them again."""
    world = limited(6, {GPUS: 12}, pool("low", pool_spec(4, external(2))))
    world.turn(5)
    comes(world, HIGH)
    given = 0
    for _ in range(30):
        world.turn()
        given += len([each for each in world.decision("low").events if each.reason.value == "Preempted"])
    assert [1, 1] == [world.serving("high"), world.serving("low")]
    assert 1 == given


def test_the_number_of_pods_is_taken_too() -> None:
    world = limited(6, {PODS: 2}, pool("low", pool_spec(8, external(2))))
    world.turn(5)
    comes(world, pool("high", pool_spec(4, external(1)), priority=100))
    world.turn(8)
    assert [1, 1] == [world.serving("high"), world.serving("low")]


def test_small_replicas_go_together_and_none_that_is_not_needed() -> None:
    world = limited(6, {GPUS: 14}, pool("small", pool_spec(4, external(3))), pool("single", pool_spec(2, external(1))))
    world.turn(5)
    comes(world, HIGH)
    world.turn(8)
    assert [1, 1, 1] == [world.serving(name) for name in ("high", "small", "single")]


def test_the_lowest_pool_gives_first() -> None:
    low, lower = (pool(name, pool_spec(8, external(2)), priority) for name, priority in (("low", 1), ("lower", 0)))
    world = limited(8, {GPUS: 32}, low, lower)
    world.turn(5)
    comes(world, HIGH)
    world.turn(8)
    assert [1, 2, 1] == [world.serving(name) for name in ("high", "low", "lower")]


@pytest.mark.parametrize(
    "record",
    [
        replace(HIGH, preempts=False),
        replace(HIGH, priority=0),
        replace(HIGH, spec=pool_spec(4, external(1), accelerator="GB200")),
    ],
    ids=["its class never preempts", "no higher priority", "there is no place for it"],
)
def test_who_may_not_or_cannot_use_room_takes_none(record: PoolRecord) -> None:
    world = used_up()
    world.nodes += [replace(node, ready=False) for node in rack("a.1", 1)]
    comes(world, record)
    world.turn(5)
    assert 3 == world.serving("low")
    assert 0 == world.serving("high")


def test_a_quota_that_does_not_count_the_lower_pool_is_not_helped_by_it() -> None:
    low = of_class(pool("low", pool_spec(8, external(3))), "batch", 0)
    world = limited(6, {GPUS: 4}, low)
    world.quotas = (replace(world.quotas[0], scopes=(QuotaScope("PriorityClass", "NotIn", ("batch",)),)),)
    world.turn(5)
    comes(world, HIGH)
    world.turn(5)
    assert 3 == world.serving("low")


def test_nobody_goes_below_its_fewest_replicas() -> None:
    world = used_up(pool("low", pool_spec(8, ScalingSpec(min_replicas=3))))
    comes(world, HIGH)
    world.turn(5)
    assert 3 == world.serving("low")
    assert ("False", "BudgetExhausted") == world.condition("high", "Placed")[:2]


def test_what_leaves_anyway_is_waited_for() -> None:
    """The lower pool shrinks by itself as the other one comes: that is enough."""
    world = used_up()
    world.edit("low", pool_spec(8, external(2)))
    comes(world, HIGH)
    world.turn(7)
    assert [1, 2] == [world.serving("high"), world.serving("low")]
    assert (1, 2) == desired(world, "high", "low")


def test_measured_demand_takes_room_and_headroom_none() -> None:
    world = limited(6, {GPUS: 24}, pool("low", pool_spec(8, external(2))))
    comes(world, pool("high", pool_spec(8, ScalingSpec(max_replicas=4, headroom=0.5)), priority=100))
    world.turn(5)
    assert [1, 2] == [world.serving("high"), world.serving("low")]
    asked(world, 0.8)
    world.turn(5)
    assert [1, 2] == [world.serving("high"), world.serving("low")]
    asked(world, 1.4)
    world.turn(8)
    assert [2, 1] == [world.serving("high"), world.serving("low")]


def test_what_was_taken_stays_taken_and_comes_back_when_it_is_not_needed() -> None:
    world = used_up()
    comes(world, HIGH)
    world.turn(8)
    before = {name: record.status for name, record in world.pools.items()}
    world.turn(40)
    assert before == {name: record.status for name, record in world.pools.items()}
    del world.pools["high"]
    world.pods = {name: pod for name, pod in world.pods.items() if not name.startswith("high")}
    world.turn(5)
    assert 3 == world.serving("low")


def test_a_split_takes_room_for_both_halves() -> None:
    world = used_up(boards=10)
    join(world, "pair", external(1), external(1), priority=50)
    world.now += 5
    world.decide()
    assert {"Preempting"} == {world.condition(half, "Placed")[1] for half in ("pair-prefill", "pair-decode")}
    world._follow()
    world.turn(7)
    assert [1, 1, 1] == [world.serving(name) for name in ("pair-prefill", "pair-decode", "low")]


def test_a_split_gives_room_in_step() -> None:
    world = limited(10, {GPUS: 48})
    join(world, "pair", external(4), external(2))
    world.turn(5)
    comes(world, pool("high", pool_spec(8, ScalingSpec(min_replicas=3)), priority=100))
    pairs = set()
    for _ in range(40):
        world.turn()
        pairs.add((world.serving("pair-prefill"), world.serving("pair-decode")))
    assert (3, (2, 1)) == (world.serving("high"), (world.serving("pair-prefill"), world.serving("pair-decode")))
    assert all(abs(prefill / 4 - decode / 2) <= 0.5 for prefill, decode in pairs)


def test_room_for_half_a_split_is_not_taken() -> None:
    world = limited(6, {GPUS: 24}, pool("low", pool_spec(8, replace(external(3), min_replicas=2))))
    world.turn(5)
    join(world, "pair", external(1), external(1), priority=100)
    world.turn(6)
    assert [0, 0, 3] == [world.serving(name) for name in ("pair-prefill", "pair-decode", "low")]


def test_a_split_of_which_one_half_may_not_shrink_gives_no_more_than_its_balance_allows() -> None:
    """Eight GPUs are two prefill replicas, and decode has to keep all four."""
    world = limited(10, {GPUS: 32})
    join(world, "pair", external(4), replace(external(4), min_replicas=4), tp=4)
    world.turn(5)
    comes(world, HIGH)
    world.turn(8)
    assert [0, 4, 4] == [world.serving(name) for name in ("high", "pair-prefill", "pair-decode")]


def test_who_leaves_outside_of_the_quota_is_not_waited_for() -> None:
    """What the pool of another class gives back is none of the quota's business."""
    other = of_class(pool("other", pool_spec(8, external(2))), "batch", 0)
    world = limited(8, {GPUS: 40}, other, pool("low", pool_spec(8, external(3))))
    world.quotas = (replace(world.quotas[0], scopes=(QuotaScope("PriorityClass", "NotIn", ("batch",)),)),)
    world.turn(5)
    spec = world.pools["other"].spec
    assert spec is not None
    world.edit("other", replace(spec, scaling=external(1)))
    comes(world, HIGH)
    world.now += 5
    world.decide()
    assert "waits until pods of pool team/low, of lower priority, are gone" in world.condition("high", "Placed")[2]


def test_what_drains_for_a_pool_is_its_own_though_its_traffic_falls_a_little() -> None:
    """The second replica was needed when the other one was asked to go, and is wanted as headroom now."""
    world = limited(6, {GPUS: 20}, pool("low", pool_spec(4, external(2))))
    comes(world, pool("high", pool_spec(8, ScalingSpec(max_replicas=4, headroom=0.5)), priority=100))
    world.turn(5)
    asked(world, 1.4)
    world.turn()
    assert 1 == len(world.status("low").assignments)
    asked(world, 0.9)
    draining_goes_on(world, left=1)
    world.turn(8)
    assert [2, 1] == [world.serving("high"), world.serving("low")]
