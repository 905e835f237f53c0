"""A split is ready by the rule of pools: each half needs `minReplicas`, or all where others set the count."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.converge.test_split import DECODE, DUO, FRONT, assert_settles, child, serve
from tests.converge.world import World
from tests.render.pools import changed
from weft.domain.reasons import Reason
from weft.domain.scaling_spec import ScalingMode, ScalingSpec
from weft.domain.spec import RolloutSpec
from weft.domain.workload import Role

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord
    from weft.domain.status import SplitProgress

AUTO = ScalingMode.Auto


def prefill(mode: ScalingMode, least: int, desired: int, spared: int = 0) -> PoolRecord:
    """A half with one replica, which has `minReplicas` and `maxUnavailable`."""
    half = changed(child(Role.Prefill), desired_replicas=desired)
    assert half.spec is not None
    count = desired if mode is ScalingMode.External else None
    scaling, rollout = ScalingSpec(mode, count, min_replicas=least), RolloutSpec(max_unavailable=spared)
    return replace(half, spec=replace(half.spec, scaling=scaling, rollout=rollout))


def progress(half: PoolRecord) -> SplitProgress:
    """Of a split whose replicas all serve, behind a front that answers."""
    world, halves = World(), (half, DECODE)
    assert_settles(world, DUO, *halves)
    serve(world, *halves)
    world.objects["Deployment", FRONT]["status"] = {"readyReplicas": 1}
    assert_settles(world, DUO, *halves)
    return world.look_at(DUO, *halves).progress


@pytest.mark.parametrize(
    ("half", "expected"),
    [
        (prefill(AUTO, 1, 3), ("True", Reason.Serving)),  # growing beyond the least makes nothing unready
        (prefill(AUTO, 2, 3), ("False", Reason.ReplicasStarting)),
        (prefill(AUTO, 2, 3, spared=1), ("True", Reason.Serving)),
        (prefill(AUTO, 2, 1), ("True", Reason.Serving)),  # there is room or a budget for one alone
        (prefill(ScalingMode.External, 1, 2), ("False", Reason.ReplicasStarting)),
    ],
)
def test_each_half_needs_what_a_pool_needs(half: PoolRecord, expected: tuple[str, Reason]) -> None:
    (ready,) = [c for c in progress(half).conditions if c.kind == "Ready"]
    assert expected == (ready.status, ready.explanation.reason)


def test_a_split_whose_service_is_missing_is_not_reached() -> None:
    world, halves = World(), (prefill(AUTO, 1, 1), DECODE)
    assert_settles(world, DUO, *halves)
    serve(world, *halves)
    world.objects["Deployment", FRONT]["status"] = {"readyReplicas": 1}
    assert_settles(world, DUO, *halves)
    assert world.look_at(DUO, *halves).progress.url is not None
    del world.objects["Service", "duo"]
    found = world.look_at(DUO, *halves).progress
    (ready,) = [each for each in found.conditions if each.kind == "Ready"]
    assert (ready.status, ready.explanation.reason) == ("False", Reason.ServiceMissing)
    assert found.url is None


def test_with_too_few_requests_are_served_and_words_say_how_many() -> None:
    """`url` and `generation` are about requests, `Ready` about the size that was asked for."""
    seen = progress(prefill(AUTO, 2, 3))
    (ready,) = [c for c in seen.conditions if c.kind == "Ready"]
    assert ready.explanation.message.startswith("1 of 3 prefill, 1 of 1 decode replicas are ready")
    assert ("http://duo.team.svc:8000", DUO.generation) == (seen.url, seen.serving_generation)
