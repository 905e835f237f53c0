"""A pool of higher priority takes a place of a lower one: one at a time, drained, and never below its minReplicas."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.preempting import HIGH, asked, comes, draining_goes_on
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from weft.domain.scaling_spec import ScalingSpec

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord


def full(low: PoolRecord | None = None, boards: int = 3) -> World:
    """As many boards as a pool of priority 0 has replicas."""
    world = World.of([board(f"b-{i}") for i in range(boards)], low or pool("low", pool_spec(8, external(boards))))
    world.turn(5)
    assert boards == world.serving("low")
    return world


def test_a_pool_without_any_place_takes_one_and_both_say_so() -> None:
    world = full()
    comes(world, HIGH)
    world.now += 5
    world.decide()
    assert 2 == len(world.status("low").assignments)
    status, reason, message = world.condition("low", "Placed")
    assert ("False", "NoSlot") == (status, reason)
    assert "2 of 3 replicas placed; H200 BF16 TP8 needs 8 GPUs free on one node" in message
    (gave,) = world.decision("low").events
    assert "Preempted" == gave.reason.value
    assert "gives its place to pool team/high, of higher priority" in gave.message
    assert ("False", "Preempting") == world.condition("high", "Placed")[:2]
    assert "waits until pods of pool team/low, of lower priority, are gone" in world.condition("high", "Placed")[2]
    world._follow()
    world.turn(6)
    assert [1, 2] == [world.serving("high"), world.serving("low")]
    assert ("False", "NoSlot") == world.condition("low", "Placed")[:2]
    assert 3 == world.status("low").desired_replicas


def test_while_pods_drain_nobody_else_is_asked_to_go_and_the_place_is_kept() -> None:
    world = full()
    comes(world, HIGH)
    for _ in range(5):  # the pods of the one that goes never end
        world.now += 5
        world.decide()
        assert 2 == len(world.status("low").assignments)
        assert () == world.status("high").assignments
        assert "Preempting" == world.condition("high", "Placed")[1]
    before = world.pools
    world.decide()
    assert before == world.pools


def test_one_place_is_taken_in_a_decision() -> None:
    world = full(boards=4)
    comes(world, pool("high", pool_spec(8, ScalingSpec(min_replicas=3)), priority=100))
    world.now += 5
    world.decide()
    assert 3 == len(world.status("low").assignments)
    world._follow()
    world.turn(14)
    assert [3, 1] == [world.serving("high"), world.serving("low")]


def test_small_replicas_go_together_and_none_that_is_not_needed() -> None:
    world = World.of(
        [board(f"b-{i}") for i in range(2)],
        pool("small", pool_spec(4, external(3))),
        pool("single", pool_spec(2, external(1))),
    )
    world.turn(5)
    comes(world, HIGH)
    world.turn(7)
    assert [1, 1] == [world.serving("high"), world.serving("single")]
    assert 1 == world.serving("small")


def test_the_lowest_pool_gives_first() -> None:
    world = World.of(
        [board(f"b-{i}") for i in range(4)],
        pool("low", pool_spec(8, external(2)), priority=1),
        pool("lower", pool_spec(8, external(2)), priority=0),
    )
    world.turn(5)
    comes(world, HIGH)
    world.turn(7)
    assert [1, 2, 1] == [world.serving(name) for name in ("high", "low", "lower")]


@pytest.mark.parametrize(
    "record",
    [
        replace(HIGH, preempts=False),
        replace(HIGH, priority=0),
        replace(HIGH, spec=replace(pool_spec(8, external(1)), placement=pool_spec(8, accelerator="B200").placement)),
    ],
    ids=["its class never preempts", "no higher priority", "other accelerators"],
)
def test_who_may_not_or_cannot_take_a_place_takes_none(record: PoolRecord) -> None:
    world = full()
    comes(world, record)
    world.turn(5)
    assert 3 == world.serving("low")


def test_nobody_goes_below_its_fewest_replicas() -> None:
    world = full(pool("low", pool_spec(8, ScalingSpec(min_replicas=3))))
    comes(world, HIGH)
    world.turn(5)
    assert 3 == world.serving("low")
    assert ("False", "NoSlot") == world.condition("high", "Placed")[:2]


def test_free_places_come_before_those_of_others() -> None:
    world = full()
    world.nodes.append(board("b-9"))
    comes(world, HIGH)
    world.turn(5)
    assert [1, 3] == [world.serving("high"), world.serving("low")]


def busy(pods: int, answered: int | None = None) -> World:
    """A pool of higher priority serves with one replica, and one more is asked for by more than it can take."""
    world = full(pool("low", pool_spec(8, external(2))), boards=2)
    world.nodes.append(board("b-9"))
    comes(world, pool("high", pool_spec(8, ScalingSpec(max_replicas=4, headroom=0.5)), priority=100))
    world.turn(5)
    asked(world, 1.4, pods, answered)
    return world


def test_measured_demand_takes_a_place() -> None:
    world = busy(1)
    world.turn(7)
    assert [2, 1] == [world.serving("high"), world.serving("low")]


def test_headroom_alone_takes_none() -> None:
    """Growth that is only in advance waits for a place that is free."""
    world = busy(1)
    asked(world, 0.8)
    world.turn(7)
    assert 2 == world.status("high").desired_replicas
    assert [1, 2] == [world.serving("high"), world.serving("low")]


def test_what_is_not_measured_in_whole_takes_none() -> None:
    world = busy(2, answered=1)
    world.turn(7)
    assert 2 == world.serving("low")


def test_a_place_that_drains_for_a_pool_is_kept_though_its_traffic_falls_a_little() -> None:
    """The second replica was needed when the other one was asked to go, and is wanted as headroom now."""
    world = busy(1)
    world.turn()
    assert 1 == len(world.status("low").assignments)
    asked(world, 0.9)
    draining_goes_on(world, left=1)
    world.turn(7)
    assert [2, 1] == [world.serving("high"), world.serving("low")]
