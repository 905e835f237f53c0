"""A split over TCP from its resource to its count: shapes and replicas are those whose links carry what comes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.test_known_cases import counts, offer
from tests.decide.test_splits import half, over_rdma, split_world
from tests.decide.world import WORKLOAD, World
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.shape import Limit
from weft.domain.spec import PoolSpec, ShapePins
from weft.domain.workload import Role, Slo
from weft.perf import SEVERAL_THROUGH_THE_HOST

RATE = 6.0
AUTO = ScalingSpec(max_replicas=12, headroom=0.0)
LONG = replace(WORKLOAD, requests_per_second=RATE, input_tokens=4000, input_tokens_p95=8000)
SLO = Slo(ttft=((95, 3.0),), tpot=((95, 0.05),))
NAMES = (PREFILL, DECODE) = "pd-prefill", "pd-decode"
KV_BYTES = 2 * 32 * 8 * 128 * 2 * LONG.input_tokens  # of a prompt, on all GPUs of a rank
CARRIED = 1.4e9 * SEVERAL_THROUGH_THE_HOST / KV_BYTES  # prompts a second over the link of one GPU


def free(role: Role) -> PoolSpec:
    return replace(half(role, 1, AUTO), workload=LONG, slo=SLO, shape=ShapePins())


def over_tcp() -> World:
    return split_world(free(Role.Prefill), free(Role.Decode), boards=8)


def gpus(world: World, name: str) -> int:
    """Of all replicas that it shall have."""
    status = world.status(name)
    assert status.plan is not None
    return status.desired_replicas * status.plan.shape.gpus


def test_what_is_declared_is_planned_with_links_for_it_and_over_rdma_with_engines() -> None:
    narrow = over_tcp()
    wide = split_world(over_rdma(free(Role.Prefill)), over_rdma(free(Role.Decode)), boards=8)
    for world in (narrow, wide):
        world.turn(6)
    for name in NAMES:
        told = narrow.status(name).plan
        assert told is not None
        assert told.prediction.limit is Limit.ScaleOutNetwork
        assert told.prediction.capacity < 0.95 * told.shape.gpus * CARRIED
        assert gpus(narrow, name) * CARRIED * 0.95 > RATE
        assert gpus(narrow, name) > 2 * gpus(wide, name)


@pytest.mark.parametrize("times", [1.5, 3.0])
def test_counts_follow_what_comes_over_the_links(times: float) -> None:
    """An engine alone would serve all of it with one replica."""
    world = over_tcp()
    world.turn(6)
    declared = counts(world)
    lengths = {"input_tokens": LONG.input_tokens, "output_tokens": LONG.output_tokens, "kv_usage": 0.2}
    offer(world, times * RATE, 24, *NAMES, prefix_hit=0.0, **lengths)
    for name, count, before in zip(NAMES, counts(world), declared, strict=True):
        assert before < count <= 1.2 * times * before
        assert gpus(world, name) * CARRIED * 0.95 > times * RATE
