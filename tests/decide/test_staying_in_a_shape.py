"""A pool whose shape changed keeps the new one for an hour, unless its spec or its SLO asks for another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.histories import left_open
from tests.decide.test_splits import over_rdma, split_world
from tests.decide.world import World, pool, pool_spec
from tests.fabric.cluster import board
from weft.decide.plans.kept_shapes import SHAPE_STAYS_SECONDS
from weft.domain.calibration import Calibrated, CalibrationSubject
from weft.domain.scaling_spec import ScalingMode, ScalingSpec
from weft.domain.shape import Calibration
from weft.domain.workload import Role, Slo

RATE = 160.0
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
SLOW, SLOWER, FAR_SLOWER = 1.5, 2.05, 3.1
OPEN = left_open(pool_spec(1, ScalingSpec(max_replicas=20)), RATE)
# Prompts of which a captured graph holds one or two beside all that is decoded: who waits for launches by the host
# gains little by more GPUs.
SHORT = replace(OPEN.workload, input_tokens=200, input_tokens_p95=200)
SPEC = replace(OPEN, workload=SHORT, slo=Slo(tpot=((95, 0.0155),)))
# Halves have no steps that prompts and answers share, so that no prompt outgrows a graph beside what is decoded.
ALONE = replace(OPEN.workload, requests_per_second=100.0, input_tokens=500, input_tokens_p95=500)
HALF_SLO = Slo(tpot=((95, 0.018),))


def measured(world: World, name: str, factor: float) -> None:
    """What metrics teach of the shape that runs: it takes so many times as long as predicted."""
    status = world.status(name)
    assert status.plan is not None
    subject = CalibrationSubject.of(MODEL, status.plan.engine, status.plan.shape)
    others = [each for each in status.calibration if each.subject != subject]
    known = (Calibrated(subject, Calibration(factor, factor, 9, 9), world.now), *others)
    world.pools[name] = replace(world.pools[name], status=replace(status, calibration=known))


def tensors(world: World, name: str = "chat") -> int:
    plan = world.status(name).plan
    assert plan is not None
    return plan.shape.tensor_parallel


def after_a_change() -> World:
    """TP1 turned out to be slow, so that two GPUs a replica serve the rate with fewer."""
    world = World.of([board(f"b-{index}") for index in range(6)], pool("chat", SPEC))
    world.turn(4)
    assert 1 == tensors(world)
    measured(world, "chat", SLOW)
    world.turn(8)
    assert 2 == tensors(world)
    return world


@pytest.mark.parametrize("restarted", [False, True])
def test_nobody_goes_back_within_the_hour_to_save_gpus(restarted: bool) -> None:  # noqa: FBT001
    """TP2 turned out to be slower still: without the hour TP1 would be back within a minute. A new process knows."""
    world = after_a_change()
    measured(world, "chat", SLOWER)
    if restarted:
        world.memory = {}
    changed = world.status("chat").left_shape
    assert changed is not None
    assert "H200 BF16 TP1" == changed.shape
    while world.now + 600.0 < changed.at + SHAPE_STAYS_SECONDS:
        world.turn(1, 600.0)
        assert 2 == tensors(world)
    told = world.condition("chat", "Planned")
    assert ("True", "ShapeKept") == told[:2]
    assert told[2].endswith("its shape changed less than an hour ago")
    world.now = changed.at + SHAPE_STAYS_SECONDS - 30.0
    assert 30.0 >= (world.decide().wake_after_seconds or 0.0)
    world.turn(1, 30.0)
    assert 1 == tensors(world)


def test_who_does_not_serve_the_rate_as_it_is_goes_back_at_once() -> None:
    world = after_a_change()
    measured(world, "chat", FAR_SLOWER)
    world.turn(1)
    assert 1 == tensors(world)


def test_who_misses_its_slo_as_it_is_takes_what_meets_it_at_once() -> None:
    world = after_a_change()
    measured(world, "chat", 2 * FAR_SLOWER)
    world.turn(1)
    assert 2 != tensors(world)
    assert "ShapeChosen" == world.condition("chat", "Planned")[1]


def test_an_edit_is_followed_within_the_hour_and_a_count_is_no_such_edit() -> None:
    world = after_a_change()
    measured(world, "chat", SLOWER)
    counted = replace(SPEC.scaling, mode=ScalingMode.External, replicas=7)
    world.edit("chat", replace(SPEC, scaling=counted))
    world.turn(2)
    assert 2 == tensors(world)
    world.edit("chat", replace(SPEC, slo=Slo(tpot=((95, 0.016),))))
    world.turn(2)
    assert 1 == tensors(world)


def test_halves_of_a_split_stay_in_what_one_of_them_changed_to() -> None:
    """Decode left TP1 as it was slow, and TP2 turns out to be slower: TP1 would be back at once."""
    prefill, decode = (
        over_rdma(replace(SPEC, role=role, workload=ALONE, slo=Slo())) for role in (Role.Prefill, Role.Decode)
    )
    world = split_world(prefill, replace(decode, slo=HALF_SLO), boards=8)
    world.turn(5)
    shapes = []
    for factor in (SLOWER, 2 * SLOW):
        shapes.append((tensors(world, "pd-prefill"), tensors(world, "pd-decode")))
        measured(world, "pd-decode", factor)
        world.turn(9)
    assert [(1, 1), (1, 2)] == shapes
    assert (1, 2) == (tensors(world, "pd-prefill"), tensors(world, "pd-decode"))
    world.turn(2, SHAPE_STAYS_SECONDS)
    assert (1, 1) == (tensors(world, "pd-prefill"), tensors(world, "pd-decode"))
