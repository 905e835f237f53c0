"""Until the first replica is ready the declared rate says what is needed, so a budget that pays for less is named."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.limited import GPUS, desired, limited, paired
from tests.decide.world import pool, pool_spec
from tests.scaling.cases import seen
from weft.domain.scaling_spec import ScalingSpec

if TYPE_CHECKING:
    from tests.decide.limited import Limited
    from weft.domain.snapshot import PoolRecord

RATE = 200.0  # requests per second: needs three replicas of one board each
QUOTA = "ResourceQuota gpus (requests.nvidia.com/gpu: 20) leaves room for 2 replicas of 8 GPUs, and more are wanted"
BUDGET, MISSING = "BudgetExhausted", "HoldMetricsMissing"


def expecting(rate: float, scaling: ScalingSpec | None = None) -> PoolRecord:
    spec = pool_spec(8, scaling or ScalingSpec(max_replicas=9))
    return pool("chat", replace(spec, workload=replace(spec.workload, requests_per_second=rate)))


def new_pool(gpus: int, rate: float = RATE) -> Limited:
    """A pool of which two replicas have their places and start."""
    world = limited(8, {GPUS: gpus}, expecting(rate))
    world.turn(1)
    return world


def said(world: Limited, name: str = "chat") -> tuple[str, str]:
    scale = world.status(name).scale
    assert scale is not None
    return scale.reason.value, scale.message


def with_quota(world: Limited, gpus: int) -> None:
    world.quotas = (replace(world.quotas[0], hard=((GPUS, gpus),)),)


def test_the_quota_is_named_while_replicas_start() -> None:
    world = new_pool(20)
    for _ in range(3):
        assert ((2,), BUDGET) == (desired(world, "chat"), said(world)[0])
        assert said(world)[1].startswith(QUOTA)
        world.turn(1)


def test_what_the_declared_rate_needs_is_no_reason_to_name_a_quota() -> None:
    world = new_pool(20, rate=RATE / 2)
    assert ((2,), MISSING) == (desired(world, "chat"), said(world)[0])


def test_a_full_quota_that_pays_for_all_of_it_is_not_named() -> None:
    assert MISSING == said(new_pool(24))[0]


def test_another_process_names_it_too() -> None:
    world = new_pool(20)
    before = said(world)
    world.memory.clear()
    world.turn(1)
    assert before == said(world)


def test_a_quota_that_rises_before_anybody_tells_of_traffic_buys_nothing_and_is_not_named() -> None:
    world = new_pool(20)
    with_quota(world, 80)
    world.turn(3)
    assert ((2,), MISSING) == (desired(world, "chat"), said(world)[0])


@pytest.mark.parametrize("answered", [0, 2])
def test_ready_replicas_are_believed_instead(answered: int) -> None:
    """That they tell nothing is a fault which the user has to know of; an idle pool needs no third one."""
    world = new_pool(20)
    world.turn(3)
    world.observations["uid-chat"] = seen(1.0, 2, answered=answered)
    world.turn(1)
    assert ((2,), BUDGET) != (desired(world, "chat"), said(world)[0])


def test_a_pool_that_loses_all_replicas_goes_by_what_it_saw() -> None:
    world = new_pool(20)
    world.turn(3)
    world.observations["uid-chat"] = seen(1.0, 2)
    world.turn(1)
    world.observations["uid-chat"] = seen(None, 0)
    world.turn(1, seconds=120.0)
    assert MISSING == said(world)[0]


def test_the_pools_own_budget_is_named_too() -> None:
    world = limited(8, {}, expecting(RATE, ScalingSpec(max_replicas=9, max_gpus=16)))
    world.turn(2)
    assert (BUDGET, "spec.scaling.maxGPUs 16 allows 2 replicas of 8 GPUs; demand needs more") == said(world)


def test_both_halves_of_a_split_name_it() -> None:
    """Each of its first replicas is paid for; for the next one of either half there is no room."""
    world = paired(8, 20, 1, 1)
    for name in ("pair-prefill", "pair-decode"):
        spec = world.pools[name].spec
        assert spec is not None
        workload = replace(spec.workload, requests_per_second=RATE * 10)
        world.edit(name, replace(spec, workload=workload, scaling=ScalingSpec(max_replicas=90)))
    world.turn(2)
    for name in ("pair-prefill", "pair-decode"):
        assert ((1,), BUDGET) == (desired(world, name), said(world, name)[0])
        assert "ResourceQuota gpus (requests.nvidia.com/gpu: 20) leaves room for 1 replica" in said(world, name)[1]
