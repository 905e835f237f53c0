"""Halves of a split that have outgrown their GPUs: neither waits for what the other leaves (ADR 0093)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.kinds import STEP, Growing, board_of, boards, open_spec
from tests.decide.test_outgrown import PATIENCE
from tests.decide.test_splits import over_rdma, split
from tests.decide.world import World, external, pool
from tests.fabric.cluster import with_rdma
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.spec import PlacementSpec, ShapePins
from weft.domain.workload import Role, Slo

if TYPE_CHECKING:
    from weft.domain.spec import PoolSpec

HALVES = ("pd-prefill", "pd-decode")
Counts = tuple[int, int]


def half(role: Role, replicas: int) -> PoolSpec:
    spec = over_rdma(replace(open_spec(20.0, external(replicas, 60)), role=role))
    return replace(spec, slo=Slo()) if role is Role.Prefill else spec


def halves(counts: Counts) -> tuple[PoolSpec, PoolSpec]:
    return half(Role.Prefill, counts[0]), half(Role.Decode, counts[1])


def split_on(idle: int, before: Counts, wanted: Counts, other: str = "h200") -> World:
    """A split on one board of H100 beside idle ones of another kind, for as long as a node may take to come."""
    prefill, decode = halves(before)
    world = World.of(map(with_rdma, [*boards("h100", 1), *boards(other, idle)]))
    world.splits["pd"] = split(prefill, decode)
    for name, spec in zip(HALVES, (prefill, decode), strict=True):
        world.pools[name] = pool(name, spec, split_uid="uid-pd")
    world.turn(20, STEP)
    for name, spec in zip(HALVES, halves(wanted), strict=True):
        world.edit(name, spec)
    world.turn(5, STEP)
    return world


def kinds(world: World) -> list[str]:
    plans = [world.status(name).plan for name in HALVES]
    return [plan.shape.accelerator for plan in plans if plan is not None]


def serving(world: World) -> Counts:
    return world.serving(HALVES[0]), world.serving(HALVES[1])


@pytest.mark.parametrize(
    ("wanted", "after"),
    [((6, 6), ["H200", "H200"]), ((2, 7), ["H100", "H200"]), ((7, 2), ["H200", "H100"])],
)
def test_the_half_that_is_short_goes_and_both_where_both_are(wanted: Counts, after: list[str]) -> None:
    world = split_on(3, (2, 2), wanted)
    before = serving(world)
    assert ["H100", "H100"] == kinds(world)
    for _ in range(round((PATIENCE + 900.0) / STEP)):
        world.turn(1, STEP)
        assert all(now >= least for now, least in zip(serving(world), before, strict=True))
    assert after == kinds(world)
    assert wanted == serving(world)
    assert {("True", "AllPlaced")} == {world.condition(name, "Placed")[:2] for name in HALVES}


def test_a_pair_stays_where_the_other_kind_has_no_more() -> None:
    world = split_on(1, (2, 2), (8, 8))
    world.turn(round(2 * PATIENCE / STEP), STEP)
    assert ["H100", "H100"] == kinds(world)
    assert (4, 4) == serving(world)


def test_a_pair_stays_where_what_serves_could_exchange_no_kv_with_the_other_kind() -> None:
    """ADR 0122: Hopper's engines choose another attention backend than Blackwell's."""
    world = split_on(3, (2, 2), (6, 6), "b200")
    world.turn(round((PATIENCE + 900.0) / STEP), STEP)
    assert ["H100", "H100"] == kinds(world)
    assert (4, 4) == serving(world)
    assert 0 == world.splits["pd"].status.kv_layouts


def test_the_half_that_only_waits_for_the_other_says_why_it_goes() -> None:
    world = split_on(3, (2, 2), (6, 6))
    world.turn(round((PATIENCE + 60.0) / STEP), STEP)
    assert {"Outgrown"} == {world.condition(name, "Planned")[1] for name in HALVES}


def test_a_half_that_waits_for_the_other_keeps_it_where_it_is() -> None:
    """Decode may only use the three H100, of which prefill has two: what prefill left would come too late for both."""
    prefill, decode = halves((8, 3))
    decode = replace(decode, placement=PlacementSpec(accelerators=("H100",)))
    world = World.of(map(with_rdma, [board_of("h100", "h100-0", 3), *boards("h200", 2)]))
    world.splits["pd"] = split(prefill, decode)
    prefill = replace(prefill, placement=PlacementSpec(accelerators=("H100",)))
    for name, spec in zip(HALVES, (prefill, decode), strict=True):
        world.pools[name] = pool(name, spec, split_uid="uid-pd")
    world.turn(5, STEP)
    world.edit(HALVES[0], replace(prefill, placement=PlacementSpec()))
    world.turn(round(2 * PATIENCE / STEP), STEP)
    assert (2, 1) == serving(world)
    assert ["H100", "H100"] == kinds(world)


@pytest.mark.parametrize(
    ("most", "after"),
    [((8, 1), ["H100 BF16 TP1", "H200 BF16 TP1"]), ((1, 1), ["H100 BF16 TP2", "H100 BF16 TP2"])],
)
def test_a_half_that_may_have_no_more_goes_to_a_shape_that_serves_more(most: Counts, after: list[str]) -> None:
    """Decode alone, or both: one H100 computes 36 prompts/s, and writes 50 answers/s."""
    world = World.of(map(with_rdma, [*boards("h100", 2), *boards("h200", 2)]))
    pins = ShapePins(pipeline_parallel=1, data_parallel=1)
    prefill, decode = (
        replace(half, scaling=ScalingSpec(max_replicas=count, headroom=0.0), shape=pins)
        for half, count in zip(halves((1, 1)), most, strict=True)
    )
    world.splits["pd"] = split(prefill, decode)
    for name, spec in zip(HALVES, (prefill, decode), strict=True):
        world.pools[name] = pool(name, spec, split_uid="uid-pd")
    growing = Growing(world, dict.fromkeys(HALVES, 5.0))
    growing.turn(200.0)
    assert ["H100", "H100"] == kinds(world)
    growing.turn(PATIENCE + 900.0, 60.0)
    assert after == [str(plan.shape) for name in HALVES if (plan := world.status(name).plan) is not None]
