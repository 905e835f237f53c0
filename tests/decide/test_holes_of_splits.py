"""Both halves of a split change their shapes at once where no shape of one half alone gives the pair a place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.test_holes import ONE_OF_EIGHT, free_spec, shapes_of
from tests.decide.test_splits import over_rdma, split_world
from tests.fabric.cluster import board, busy, with_rdma
from weft.domain.hardware import Precision
from weft.domain.spec import ModelSpec, PoolSpec, ShapePins
from weft.domain.workload import Role, Slo

if TYPE_CHECKING:
    from tests.decide.world import World

RATE = 75.0  # of which one replica of four GPUs for prefill and one of two for decode serve all


def one_of_each(rate: float = RATE) -> PoolSpec:
    """Either half, of one replica."""
    return over_rdma(free_spec(rate, most=1))


def large_pair(*holes: int, rate: float = RATE, **halves: PoolSpec) -> World:
    """A split on boards with so many free GPUs."""
    prefill, decode = (halves.get(role.value.lower(), one_of_each(rate)) for role in (Role.Prefill, Role.Decode))
    world = split_world(replace(prefill, role=Role.Prefill), replace(decode, role=Role.Decode), boards=len(holes))
    taken = {f"b-{index}": ONE_OF_EIGHT - hole for index, hole in enumerate(holes) if hole < ONE_OF_EIGHT}
    world.pods = {f"job-{name}": busy(f"job-{name}", name, gpus) for name, gpus in taken.items()}
    return world


def serves(world: World) -> bool:
    return min(world.serving("pd-prefill"), world.serving("pd-decode")) > 0


def test_both_halves_want_more_than_one_gpu() -> None:
    """What the cases below start from."""
    world = large_pair(8, 8)
    world.turn(5)
    assert (4, 2) == shapes_of(world)
    assert serves(world)


def test_both_take_shapes_that_have_a_place_where_neither_half_has_one() -> None:
    world = large_pair(1, 1, 1)
    world.turn(5)
    assert (1, 1) == shapes_of(world)
    assert serves(world)
    for name, better in (("pd-prefill", "TP4"), ("pd-decode", "TP2")):
        status, reason, message = world.condition(name, "Planned")
        assert ("True", "HolesTooSmall") == (status, reason)
        assert f"{better} would be better, but nothing has room for 1 of it: " in message


def test_a_half_with_a_place_changes_too_where_the_other_has_none_beside_it() -> None:
    world = large_pair(2)
    world.turn(5)
    assert (1, 1) == shapes_of(world)
    assert serves(world)
    message = world.condition("pd-decode", "Planned")[2]
    assert "TP2 would be better, but nothing has room for 1 of it beside the other half: " in message


def test_a_half_that_need_not_change_does_not() -> None:
    """Of two GPUs on each board one half has a place as it is, and only the other one takes another shape."""
    world = large_pair(2, 2)
    world.turn(5)
    assert (2, 2) == shapes_of(world)
    assert "ShapeChosen" == world.condition("pd-decode", "Planned")[1]


@pytest.mark.parametrize("holes", [(2, 2), (2, 1)])
def test_the_first_pair_in_rank_that_has_a_place_is_taken(holes: tuple[int, int]) -> None:
    """Of eight and four GPUs that are wanted here."""
    world = large_pair(*holes, rate=2 * RATE)
    world.turn(5)
    assert holes == shapes_of(world)
    assert serves(world)


def test_it_stays_there_and_a_second_look_changes_nothing() -> None:
    world = large_pair(1, 1, 1)
    world.turn(5)
    running = set(world.pods)
    first = world.decide()
    assert first == world.decide()
    world.turn(20)
    assert running == set(world.pods)


def test_the_better_pair_comes_back_without_a_gap() -> None:
    """Once both halves have a place in it, and not while only one has."""
    world = large_pair(1, 1)
    world.turn(5)
    world.nodes.append(with_rdma(board("b-8")))
    world.pods["job-8"] = busy("job-8", "b-8", 3)  # leaves room for either half, and not for both
    for _ in range(5):
        world.turn()
        assert serves(world)
    assert (1, 1) == shapes_of(world)
    del world.pods["job-8"]
    for _ in range(20):
        world.turn()
        assert serves(world)
    assert (4, 2) == shapes_of(world)


def test_a_pinned_half_waits_in_its_shape() -> None:
    pinned = replace(one_of_each(), shape=ShapePins(tensor_parallel=4))
    world = large_pair(1, 1, 1, prefill=pinned)
    world.turn(5)
    assert (4, 2) == shapes_of(world)
    assert ("False", "NoSlot") == world.condition("pd-prefill", "Placed")[:2]
    assert ("False", "NoSlot") == world.condition("pd-decode", "Placed")[:2]


def test_where_no_pair_has_a_place_both_halves_wait_in_their_best_shapes() -> None:
    world = large_pair(1, 0)
    world.turn(5)
    assert (4, 2) == shapes_of(world)
    assert [] == world.nodes_of("pd-prefill")


@pytest.mark.parametrize(("holes", "shapes"), [((4, 2), (2, 2)), ((1, 1), (1, 1))])
def test_only_shapes_between_which_kv_can_be_transferred_go_together(
    holes: tuple[int, int], shapes: tuple[int, int]
) -> None:
    """NIXL moves the states of this model between groups of one size, or of up to two GPUs.

    So the smaller shapes of decode do not go with what prefill would run at best, and go with smaller ones.
    """
    spec = replace(
        one_of_each(),
        model=ModelSpec("Qwen/Qwen3-Next-80B-A3B-Instruct", precision=Precision.FP8),
        shape=ShapePins(data_parallel=1, expert_parallel=1),
        slo=Slo(ttft=((95, 4.0),), tpot=((95, 0.05),)),
    )
    best = large_pair(8, 8, prefill=spec, decode=spec)
    best.turn(5)
    assert (8, 8) == shapes_of(best)
    world = large_pair(*holes, prefill=spec, decode=spec)
    world.turn(5)
    assert shapes == shapes_of(world)
    assert serves(world)
