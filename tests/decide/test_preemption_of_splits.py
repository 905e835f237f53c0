"""Splits take places of lower pools and give them up: always as pairs that can serve."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.limited import join
from tests.decide.preempting import HIGH
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from tests.scaling.cases import seen
from weft.domain.scaling_spec import ScalingSpec


def halves(world: World, name: str = "pair") -> tuple[int, int]:
    """Replicas of prefill and of decode that serve."""
    return world.serving(f"{name}-prefill"), world.serving(f"{name}-decode")


def low_pool(boards: int) -> World:
    """As many boards as a pool of priority 0 has replicas."""
    world = World.of([board(f"b-{i}") for i in range(boards)], pool("low", pool_spec(8, external(boards))))
    world.turn(5)
    return world


def low_split(prefill: int, decode: int, fewest: int = 1) -> World:
    """A split of priority 0 on as many boards as it has replicas."""
    world = World.of([board(f"b-{i}") for i in range(prefill + decode)])
    first, second = (replace(external(count), min_replicas=fewest) for count in (prefill, decode))
    join(world, "pair", first, second)
    world.turn(5)
    assert (prefill, decode) == halves(world)
    return world


def test_a_split_without_any_replica_takes_the_first_place_of_both_halves() -> None:
    world = low_pool(4)
    join(world, "pair", external(1), external(1), priority=100)
    world.now += 5
    world.decide()
    assert 2 == len(world.status("low").assignments)
    for half in ("pair-prefill", "pair-decode"):
        assert ("False", "Preempting") == world.condition(half, "Placed")[:2]
        assert "waits until pods of pool team/low, of lower priority, are gone" in world.condition(half, "Placed")[2]
    (gave,) = world.decision("low").events
    assert "to pool team/pair-prefill, of higher priority" in gave.message
    world._follow()
    world.turn(6)
    assert ((1, 1), 2) == (halves(world), world.serving("low"))


def test_a_split_that_could_have_one_half_alone_takes_nothing() -> None:
    """Of three replicas two have to stay: one place is half a pair."""
    world = World.of([board(f"b-{i}") for i in range(3)], pool("low", pool_spec(8, ScalingSpec(min_replicas=3))))
    world.turn(5)
    world.edit("low", pool_spec(8, replace(external(3), min_replicas=2)))
    join(world, "pair", external(1), external(1), priority=100)
    world.turn(6)
    assert ((0, 0), 3) == (halves(world), world.serving("low"))
    assert ("False", "NoSlot") == world.condition("pair-prefill", "Placed")[:2]


def test_a_free_place_is_the_first_half_of_what_a_split_takes() -> None:
    world = low_pool(2)
    world.nodes.append(board("b-9"))
    join(world, "pair", external(1), external(1), priority=100)
    world.turn(7)
    assert ((1, 1), 1) == (halves(world), world.serving("low"))


def test_both_halves_take_places_for_traffic_that_is_measured_one_in_a_decision() -> None:
    world = low_pool(4)
    auto = ScalingSpec(max_replicas=2)
    join(world, "pair", auto, auto, priority=100)
    world.turn(6)
    assert ((1, 1), 2) == (halves(world), world.serving("low"))
    plans = [world.status(half).plan for half in ("pair-prefill", "pair-decode")]
    rate = 1.5 * max(plan.prediction.capacity for plan in plans if plan is not None)
    for half in ("prefill", "decode"):
        world.observations[f"uid-pair-{half}"] = seen(rate, 1)
    world.turn(3)
    assert (2, 1) == (world.status("pair-prefill").desired_replicas, len(world.status("low").assignments))
    world.turn(12)
    assert 4 == sum(halves(world)) + world.serving("low")
    assert 1 == world.serving("low"), "its fewest"


def test_a_split_gives_from_the_half_that_is_ahead_and_keeps_its_ratio() -> None:
    """4 : 2 serve; three places go one after the other, and every pair in between can serve."""
    world = low_split(4, 2)
    world.pools["high"] = pool("high", pool_spec(8, ScalingSpec(min_replicas=3)), priority=100)
    found = set()
    for _ in range(20):
        world.turn()
        found.add(halves(world))
    assert (3, (2, 1)) == (world.serving("high"), halves(world))
    assert found <= {(4, 2), (3, 2), (4, 1), (3, 1), (2, 2), (2, 1)}


def test_the_half_that_gives_says_so_and_has_its_replica_again_when_there_is_room() -> None:
    world = low_split(2, 2)
    world.pools["high"] = HIGH
    world.now += 5
    world.decide()
    told = [world.condition(f"pair-{half}", "Placed")[1] for half in ("prefill", "decode")]
    assert ["AllPlaced", "NoSlot"] == sorted(told)
    gave = "pair-prefill" if told[0] == "NoSlot" else "pair-decode"
    (event,) = world.decision(gave).events
    assert "Preempted" == event.reason.value
    assert "gives its place to pool team/high, of higher priority" in event.message
    world._follow()
    world.turn(6)
    assert (1, 3) == (world.serving("high"), sum(halves(world)))
    assert 2 == world.status(gave).desired_replicas
    del world.pools["high"]
    world.turn(6)
    assert (2, 2) == halves(world)


def test_who_would_be_left_without_a_counterpart_goes_along() -> None:
    """Eight GPUs of prefill are on one board, eight of decode on the other: four of either leave for four GPUs."""
    world = World.of([board(f"b-{half}", labels={"half": half}) for half in ("prefill", "decode")])
    join(world, "pair", external(8), external(8), tp=1)
    for half in ("prefill", "decode"):
        record = world.pools[f"pair-{half}"]
        assert record.spec is not None
        placement = replace(record.spec.placement, node_selector=(("half", half),))
        world.pools[f"pair-{half}"] = replace(record, spec=replace(record.spec, placement=placement))
    world.turn(6)
    assert (8, 8) == halves(world)
    world.pools["high"] = pool("high", pool_spec(4, external(1)), priority=100)
    world.turn(8)
    assert 1 == world.serving("high")
    assert [4, 5] == sorted(halves(world))


def test_of_a_board_that_both_halves_share_both_give() -> None:
    world = World.of([board("b-0")])
    join(world, "pair", external(4), external(4), tp=1)
    world.turn(6)
    world.pools["high"] = pool("high", pool_spec(4, external(1)), priority=100)
    world.turn()
    assert [2, 2] == [len(world.status(half).assignments) for half in ("pair-prefill", "pair-decode")]
    world.turn(7)
    assert (1, (2, 2)) == (world.serving("high"), halves(world))


@pytest.mark.parametrize("fewest", [1, 2])
def test_no_half_goes_below_its_fewest_replicas(fewest: int) -> None:
    world = low_split(fewest, fewest, fewest)
    world.pools["high"] = HIGH
    world.turn(6)
    assert (0, (fewest, fewest)) == (world.serving("high"), halves(world))


def test_a_split_that_rolls_gives_nothing() -> None:
    """Two generations are to be there, and each needs both of its halves."""
    world = low_split(2, 2)
    for half in ("pair-prefill", "pair-decode"):
        spec = world.pools[half].spec
        assert spec is not None
        world.edit(half, replace(spec, engine=replace(spec.engine, args=("--seed=7",))))
    world.pools["high"] = HIGH
    world.turn(4)
    assert (0, (2, 2)) == (world.serving("high"), halves(world))


def test_a_split_whose_class_never_preempts_takes_nothing() -> None:
    world = low_pool(4)
    join(world, "pair", external(1), external(1), priority=100)
    for half in ("pair-prefill", "pair-decode"):
        world.pools[half] = replace(world.pools[half], preempts=False)
    world.turn(5)
    assert ((0, 0), 4) == (halves(world), world.serving("low"))
