"""A rack of small trays beside one of larger trays of the same kind: what a rack holds has a place in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.world import World, expert_spec, external, pool
from tests.fabric.cluster import busy, rack
from tests.placement.cases import free_map
from weft.domain.spec import ShapePins
from weft.placement import rooms_of

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord


def small_rack(clique: str, trays: int) -> list[NodeRecord]:
    """Trays of two GPUs."""
    two = (("nvidia.com/gpu", 2),)
    return [replace(each, capacity=two, allocatable=two) for each in rack(clique, trays)]


@pytest.mark.parametrize("large", [3, 4], ids=["the larger trays are too few", "the larger trays are full"])
def test_a_group_that_a_rack_of_small_trays_holds_has_a_place_there(large: int) -> None:
    """Its pods have two GPUs each, though others of the kind have four: `weft fabric` says that 16 fit."""
    trays = rack("a.1", large)
    jobs = [busy(f"job-{each.name}", each.name, 4) for each in trays]
    nodes = [*trays, *small_rack("b.1", 8)]
    assert [0, 16] == [room.largest for room in rooms_of(free_map(nodes, *jobs))]
    world = World.of(nodes, pool("moe", expert_spec(1, 16, external(1))), pods=jobs)
    world.turn(4)
    (found,) = world.nodes_of("moe")
    assert {f"b.1-t{index}" for index in range(8)} == set(found)
    assert 1 == world.serving("moe")


def test_pods_fill_the_larger_trays_where_both_hold_a_group() -> None:
    """Fewer pods are simpler."""
    world = World.of([*rack("a.1", 4), *small_rack("b.1", 8)], pool("moe", expert_spec(1, 16, external(1))))
    world.turn(4)
    assert [4] == [len(nodes) for nodes in world.nodes_of("moe")]


def test_a_shape_that_both_kinds_of_trays_hold_is_looked_at_once() -> None:
    """A replica of two GPUs is one pod on either."""
    spec = replace(expert_spec(1, 1, external(1)), shape=ShapePins())
    world = World.of([*rack("a.1", 4), *small_rack("b.1", 8)], pool("moe", spec))
    world.turn()
    plan = world.status("moe").plan
    assert plan is not None
    shapes = [plan.shape, *(each.shape for each in plan.alternatives)]
    assert len(shapes) == len(set(shapes))
