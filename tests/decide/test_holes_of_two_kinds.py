"""A pool goes where all of what it wants has a place, not where the first of it has the cheapest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board, busy, rack
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.spec import ModelSpec, PlacementSpec, PoolSpec, RolloutSpec, ShapePins
from weft.domain.workload import Slo, Workload

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord

CLIQUE = "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1"


def wide_spec() -> PoolSpec:
    """A pool of many replicas whose shape is left open, and which may not be without any of them."""
    spec = pool_spec(1, ScalingSpec(max_replicas=64, headroom=0.0), rollout=RolloutSpec(max_surge=1, max_unavailable=0))
    load = Workload(100.0, input_tokens=4000, output_tokens=100, input_tokens_p95=8000, output_tokens_p95=200)
    return replace(spec, shape=ShapePins(), placement=PlacementSpec(), workload=load, slo=Slo(tpot=((95, 0.05),)))


def run_on(nodes: list[NodeRecord]) -> World:
    world = World.of(nodes, pool("chat", wide_spec()))
    world.turn(8)
    return world


def kind_of(world: World, name: str = "chat") -> str:
    plan = world.status(name).plan
    assert plan is not None
    return plan.shape.accelerator


def boards(count: int) -> list[NodeRecord]:
    return [board(f"b-{index}") for index in range(count)]


FEW = rack(CLIQUE)[:1]  # four of the seven places that are wanted


def test_a_kind_without_enough_places_is_left_for_one_that_has_them() -> None:
    assert kind_of(run_on([*rack(CLIQUE), *boards(4)])) == "GB200"
    world = run_on([*FEW, *boards(4)])
    assert kind_of(world) == "H200"
    assert world.serving("chat") == world.status("chat").desired_replicas
    status, reason, message = world.condition("chat", "Planned")
    assert (status, reason) == ("True", "HolesTooSmall")
    assert "GB200" in message


def test_it_stays_there_while_the_cheaper_one_has_a_place_for_a_few() -> None:
    world = run_on([*FEW, *boards(4)])
    running = set(world.pods)
    world.turn(20)
    assert kind_of(world) == "H200"
    assert set(world.pods) == running


def test_it_comes_back_without_a_gap_once_the_cheaper_one_has_places_for_all() -> None:
    world = run_on([*FEW, *boards(4)])
    wanted = world.serving("chat")
    world.nodes += rack(CLIQUE)[1:]
    for _ in range(60):
        world.turn()
        assert world.serving("chat") >= min(wanted, world.status("chat").desired_replicas)
    assert kind_of(world) == "GB200"
    assert world.condition("chat", "Placed")[0] == "True"


def test_of_kinds_that_are_all_too_few_the_one_that_serves_most_is_taken() -> None:
    assert kind_of(run_on([*FEW, board("b-0", 2)])) == "GB200"
    assert kind_of(run_on([*FEW, *boards(1), board("b-9", 4)])) == "H200"


def test_pools_that_are_new_in_one_pass_do_not_count_on_the_same_holes() -> None:
    world = World.of([*rack(CLIQUE)[:2], *boards(4)], pool("a", wide_spec()), pool("b", wide_spec()))
    world.turn(8)
    for name in ("a", "b"):
        assert world.serving(name) == world.status(name).desired_replicas
    assert {kind_of(world, "a"), kind_of(world, "b")} == {"GB200", "H200"}


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_who_would_get_nothing_takes_a_shape_that_fits_beside_a_first_replica_of_the_others(names: str) -> None:
    """In rounds of one replica each: the first pool has room for all that it wants, and the second then for none."""
    large = pool_spec(1, ScalingSpec(max_replicas=8, headroom=0.0))
    large = replace(
        large, model=ModelSpec("meta-llama/Llama-3.3-70B-Instruct"), shape=ShapePins(), placement=PlacementSpec()
    )
    load = Workload(6.0, input_tokens=4000, output_tokens=300, input_tokens_p95=8000, output_tokens_p95=600)
    large = replace(large, workload=load, slo=Slo(ttft=((95, 2.0),), tpot=((95, 0.03),)))
    pools = (pool(names[0], pool_spec(1, external(5))), pool(names[1], large))
    world = World.of([board("b-0")], *pools, pods=[busy("job", "b-0", 3)])
    world.turn(8)
    assert [world.serving(name) for name in names] == [1, 1]
