"""Pools behind a router that goes by load: fewer replicas for the same requests, and engines as fast as they are."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from tests.decide.test_learning import Serving
from tests.decide.world import WORKLOAD, World, external, pool, pool_spec
from tests.fabric.cluster import board
from tests.scaling.cases import seen
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.shape import Calibration
from weft.domain.spec import PoolSpec, RouterKind, RouterSpec
from weft.domain.workload import Slo, Workload
from weft.perf import ASTRAY, Coming, at_engine, dispersion

MANAGED, NONE = RouterSpec(RouterKind.Managed), RouterSpec()
LONG = replace(WORKLOAD, input_tokens=12_000, input_tokens_p95=24_000)
SHORT_ANSWERS = Workload(1.0, 5_000, 60, 11_000, 160)
REPLICAS = 4


def spec(router: RouterSpec, scaling: ScalingSpec, rate: float = 1.0) -> PoolSpec:
    """A pool with long prompts, whose answers they hold up."""
    workload = replace(LONG, requests_per_second=rate)
    return replace(pool_spec(1, scaling), slo=Slo(tpot=((95, 0.03),)), workload=workload, router=router)


def sized(router: RouterSpec, rate: float = 30.0) -> int:
    """How many replicas it is given at first."""
    world = World.of([board(f"b-{number}") for number in range(8)], pool("chat", spec(router, AUTO, rate)))
    world.turn()
    return world.status("chat").desired_replicas


AUTO = ScalingSpec(max_replicas=60)


def test_fewer_replicas_serve_the_same_behind_a_router_that_goes_by_load() -> None:
    assert sized(MANAGED) < sized(NONE)


def test_a_lone_replica_is_counted_on_for_no_more() -> None:
    assert sized(MANAGED, 0.5) == sized(NONE, 0.5) == 1


def test_a_router_that_is_not_wefts_choice_may_choose_as_it_likes() -> None:
    assert sized(replace(MANAGED, image="example.org/router:1")) == sized(NONE)


def counted_with(hit: float) -> int:
    """How many are wanted once so many prefix hits are measured."""
    world = World.of([board(f"b-{number}") for number in range(8)], pool("chat", spec(MANAGED, AUTO, 30.0)))
    world.turn(6)
    for _ in range(12):
        lengths = replace(seen(30.0, world.serving("chat")), input_tokens=12_000.0, output_tokens=200.0)
        world.observations["uid-chat"] = replace(lengths, prefix_hit=hit)
        world.turn()
    return world.status("chat").desired_replicas


def test_prompts_with_a_prefix_in_common_go_where_it_is() -> None:
    assert counted_with(0.06) > counted_with(0.0)


def learnt(truth: float, router: RouterSpec, coming: Coming, load: Workload) -> Calibration:
    """The factors of engines so slow, to each of which requests come like that."""
    world = World.of([board("b-0")], pool("chat", spec(router, external(REPLICAS))))
    world.turn(6)
    found = Serving(world, {"chat": Calibration(truth, truth)}, counted=partial(at_engine, coming=coming), load=load)
    assert world.serving("chat") == REPLICAS
    found.run(60)
    factors = found.factors()
    assert factors is not None
    return factors


@pytest.mark.parametrize("astray", [0.0, ASTRAY])
def test_who_makes_tokens_sooner_for_a_front_is_hardly_faster(astray: float) -> None:
    coming = Coming(REPLICAS, 1.0, dispersion(REPLICAS, astray))
    assert learnt(1.0, MANAGED, coming, SHORT_ANSWERS).decode == pytest.approx(1.0, abs=0.05)
    assert learnt(1.0, NONE, coming, SHORT_ANSWERS).decode < 0.92


@pytest.mark.parametrize("astray", [0.0, ASTRAY])
def test_slow_engines_are_found_behind_a_front_that_goes_by_load(astray: float) -> None:
    coming = Coming(REPLICAS, 1.0, dispersion(REPLICAS, astray))
    assert learnt(1.3, MANAGED, coming, WORKLOAD).decode == pytest.approx(1.3, abs=0.03)
    slow = learnt(1.3, MANAGED, coming, SHORT_ANSWERS)
    assert slow.prefill == pytest.approx(1.3, abs=0.03)
    assert slow.decode > learnt(1.3, NONE, coming, SHORT_ANSWERS).decode + 0.04
