"""A replica whose node stays silent in a cluster without room: who waits for it and who does not (ADR 0085)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.test_crowded import open_pool
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board, busy

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord


def left_after_silence(mine: PoolRecord, *others: PoolRecord, free: int = 0) -> list[int]:
    """Which replicas a pool on b-0 has left after it was silent for 40 s, with so many GPUs free on b-1."""
    jobs = (busy("job-0", "b-0", 6), busy("job-1", "b-1", 8 - free))
    world = World.of([board("b-0"), board("b-1")], mine, *others, pods=jobs)
    world.turn(5)
    assert world.nodes_of(mine.key.name) == [("b-0",)]
    world.nodes = [replace(node, ready=node.name != "b-0") for node in world.nodes]
    for seconds in (1, 40):
        world.now += seconds
        world.decide()
    return [each.replica for each in world.status(mine.key.name).assignments]


WIDE = pool_spec(2, external(1))
LOW = pool("low", pool_spec(2, external(1)))  # it has no place but where one is free
MAY_MAKE_ROOM = pool("chat", WIDE, priority=9)


@pytest.mark.parametrize(
    ("mine", "others", "free", "waits"),
    [
        (pool("chat", WIDE), (), 0, True),
        (pool("chat", WIDE), (LOW,), 2, True),
        (MAY_MAKE_ROOM, (), 0, True),
        (MAY_MAKE_ROOM, (LOW,), 2, False),
        (MAY_MAKE_ROOM, (LOW,), 0, True),
        (replace(MAY_MAKE_ROOM, preempts=False), (LOW,), 2, True),
    ],
    ids=["alone", "equals", "highest alone", "above another", "above one that has nothing", "above, takes nothing"],
)
def test_who_may_take_a_place_from_a_lower_pool_does_not_wait(
    mine: PoolRecord, others: tuple[PoolRecord, ...], free: int, *, waits: bool
) -> None:
    assert waits == (left_after_silence(mine, *others, free=free) == [0])


def test_a_lower_pool_whose_nodes_are_silent_too_makes_no_room() -> None:
    """An API server that no node reaches ends no engine of a pool, whatever is below it."""
    mine, low = pool("chat", WIDE, priority=9), pool("low", WIDE)
    world = World.of([board("b-0"), board("b-1")], mine, low, pods=(busy("job-0", "b-0", 6), busy("job-1", "b-1", 6)))
    world.turn(5)
    world.nodes = [replace(node, ready=False) for node in world.nodes]
    for seconds in (1, 40):
        world.now += seconds
        world.decide()
    assert [1, 1] == [len(world.status(name).assignments) for name in ("chat", "low")]


@pytest.mark.parametrize(("free", "left"), [(0, [0]), (1, [1])], ids=["nothing free", "room for a smaller one"])
def test_a_pool_that_has_nothing_else_takes_a_smaller_shape_where_that_has_room(free: int, left: list[int]) -> None:
    """One GPU is free on b-1: the shape is open, and the pool serves from there in place of waiting."""
    assert left == left_after_silence(pool("chat", open_pool(external(1, most=1), 30.0)), free=free)


def test_a_pool_whose_shape_is_fixed_waits_though_a_smaller_one_would_have_room() -> None:
    assert left_after_silence(pool("chat", WIDE), free=1) == [0]
