"""Halves of a split whose GPUs are out of sight for a moment, and what a second look at that moment finds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.decide.histories import left_open
from tests.decide.test_splits import half, split_conditions, split_world
from tests.fabric.cluster import NVIDIA, board, node
from weft.decide.replicas.vanished import VANISHED_SECONDS
from weft.domain.spec import PlacementSpec
from weft.domain.workload import Role

if TYPE_CHECKING:
    from tests.decide.world import World

EITHER = PlacementSpec(accelerators=("A100", "H200"))
HALVES = "pd-prefill", "pd-decode"


def split_on_a100() -> World:
    """Both halves serve on A100, beside H200 that would do."""
    prefill, decode = (replace(left_open(half(role), 1.0), placement=EITHER) for role in (Role.Prefill, Role.Decode))
    world = split_world(prefill, decode, boards=0)
    cheap = [node(f"a-{index}", {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}, 8) for index in range(2)]
    world.nodes = [*cheap, board("b-0"), board("b-1")]
    world.turn(5)
    assert {"a"} == places(world)
    return world


def places(world: World) -> set[str]:
    return {name[0] for half_of in HALVES for nodes in world.nodes_of(half_of) for name in nodes}


def hide(world: World) -> None:
    gone = ((NVIDIA, 0),)
    world.nodes = [
        replace(each, allocatable=gone, capacity=gone) if each.name[0] == "a" else each for each in world.nodes
    ]


def test_both_halves_of_a_split_keep_their_shapes_while_their_gpus_are_out_of_sight() -> None:
    world = split_on_a100()
    shown, before = world.nodes, [world.status(name).assignments for name in HALVES]
    hide(world)
    world.turn(3, 20.0)
    assert before == [world.status(name).assignments for name in HALVES]
    assert ("False", "NoAccelerator") == split_conditions(world)["Planned"]
    world.nodes = shown
    world.turn(2)
    assert before == [world.status(name).assignments for name in HALVES]
    assert ("True", "ShapeChosen") == split_conditions(world)["Planned"]


def test_each_moment_of_it_is_the_same_at_a_second_look_and_the_last_one_is_told() -> None:
    """The next pass comes when another shape is chosen, if nothing else happens."""
    world = split_on_a100()
    hide(world)
    first = world.decide()
    assert VANISHED_SECONDS == first.wake_after_seconds
    for seconds in (0.0, 100.0, VANISHED_SECONDS - 100.0):
        world.now += seconds
        told = world.decide()
        quiet = tuple(replace(each, events=()) for each in told.pools)
        splits = tuple(replace(each, events=()) for each in told.splits)
        assert replace(told, pools=quiet, splits=splits) == world.decide()
    world.turn(8)
    assert {"b"} == places(world)


def test_a_clock_that_is_set_back_keeps_nobody_in_its_shape_for_longer() -> None:
    world = split_on_a100()
    hide(world)
    world.turn()
    world.now -= 3600.0
    world.turn()
    world.now += VANISHED_SECONDS
    world.turn(12)
    assert {"b"} == places(world)
