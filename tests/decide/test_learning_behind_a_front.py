"""Replicas behind one front: how little their requests wait is not taken for fast engines."""

from __future__ import annotations

import math
from dataclasses import astuple, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.decide.test_learning import RATE, SLO, Serving, replica_of
from tests.decide.test_splits import half, over_rdma, split, split_world
from tests.decide.world import WORKLOAD, external
from weft.catalog import load
from weft.decide.plans.facts import Facts, shape_request
from weft.domain.shape import Calibration
from weft.domain.spec import RouterKind
from weft.domain.workload import Role
from weft.fabric import build_fabric
from weft.perf import ASTRAY, Coming, at_engine
from weft.shaping import capacity_of

if TYPE_CHECKING:
    from weft.domain.capacity import Capacity
    from weft.domain.snapshot import PoolObservation
    from weft.domain.workload import Workload

TIGHT, REPLICAS = 0.9, 4
AS_PREDICTED = 1.0 / 1.05  # a measured tail is trusted to a twentieth
LONG = replace(WORKLOAD, input_tokens=8_000, input_tokens_p95=16_000)


class Counting(Serving):
    """Engines that count first tokens by buckets, which have an edge at each percentile."""

    def seen(self, name: str, load_of: Workload = WORKLOAD) -> PoolObservation:
        seen, plan = super().seen(name, load_of), self.world.status(name).plan
        assert plan is not None
        true = replace(replica_of(plan.shape), calibration=self.truth[name], wire=self.wire)
        found = self.counted(true, replace(load_of, requests_per_second=RATE), self.roles[name])
        assert found is not None
        edges = zip(astuple(found[0])[1:], (500.0, 900.0, 950.0, 990.0), strict=True)
        return replace(seen, ttft_buckets=(*edges, (math.inf, 1000.0)))


def serving(
    truth: float, replicas: int, in_one_queue: int | None, router: RouterKind = RouterKind.Nothing, astray: float = 0.0
) -> Serving:
    """A split whose prefill replicas are so slow, and let requests wait as one, or as so many that share a queue.

    All but the part `astray` share it, and nobody knows how the user's own router chooses.
    """
    prefill, decode = (over_rdma(replace(half(role, 1), slo=SLO)) for role in (Role.Prefill, Role.Decode))
    world = split_world(replace(prefill, scaling=external(replicas)), decode)
    world.splits["pd"] = split(prefill, decode, router)
    world.turn(8)
    counted = partial(at_engine, coming=Coming(in_one_queue, astray))
    found = Counting(world, {"pd-prefill": Calibration(truth)}, {"pd-prefill": Role.Prefill}, counted, LONG)
    assert world.serving("pd-prefill") == replicas
    found.run(60)
    return found


def factors(of: Serving) -> Calibration:
    found = of.factors("pd-prefill")
    assert found is not None
    return found


def test_replicas_that_share_a_queue_are_as_fast_as_they_are() -> None:
    """Their requests wait less than those of a lone one: that would be an engine a tenth faster, if not more."""
    found = factors(serving(1.0, 4, in_one_queue=4))
    assert found.prefill == pytest.approx(1.0, abs=0.02)
    assert found.prompt_points >= 10


def test_slow_replicas_are_found_behind_any_front_that_does_not_look_at_loads() -> None:
    assert factors(serving(1.3, 4, in_one_queue=None)).prefill == pytest.approx(1.3, abs=0.05)


@pytest.mark.parametrize(("astray", "least"), [(0.0, 1.1), (ASTRAY / 2.0, 1.15), (ASTRAY, 1.22)])
def test_slow_replicas_are_found_behind_a_front_that_goes_by_load(astray: float, least: float) -> None:
    """Their capacity counts on a short wait, which hides little of their time; of another front it hides all."""
    assert least <= factors(serving(1.25, 4, 4, RouterKind.Managed, astray)).prefill <= 1.28
    assert factors(serving(1.25, 4, 4, RouterKind.Nothing, astray)).prefill == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("astray", [0.0, ASTRAY])
def test_replicas_behind_a_front_that_goes_by_load_are_as_fast_as_they_are(astray: float) -> None:
    assert factors(serving(1.0, 4, 4, RouterKind.Managed, astray)).prefill == pytest.approx(1.0, abs=0.02)


def test_slow_replicas_never_pass_for_fast() -> None:
    assert factors(serving(1.2, 4, in_one_queue=4)).prefill >= 0.99


def test_a_lone_replica_is_found_faster_at_once() -> None:
    assert factors(serving(0.7, 1, in_one_queue=None)).prefill == pytest.approx(0.7, abs=0.03)


def test_the_tail_is_of_the_wait_that_capacity_counts_on() -> None:
    """All share a queue: of a front that is known to go by load, one request in four is expected not to."""
    assert factors(serving(1.0, 4, 4, RouterKind.Nothing)).ttft_tail == pytest.approx(0.8, abs=0.02)
    assert factors(serving(1.0, 4, 4, RouterKind.Managed)).ttft_tail == pytest.approx(0.87, abs=0.02)
    astray = factors(serving(1.0, 4, 4, RouterKind.Managed, ASTRAY)).ttft_tail
    assert astray == pytest.approx(1.0, abs=0.03)


def test_a_tail_that_others_shorten_does_not_make_one_alone_serve_more() -> None:
    found = serving(1.0, 4, 4, RouterKind.Nothing)
    as_predicted = replace(factors(found), ttft_tail=AS_PREDICTED)
    assert capacity(found, managed=False).alone == pytest.approx(capacity(found, as_predicted, managed=False).alone)


def test_what_replicas_serve_together_falls_by_a_third_at_a_time() -> None:
    """First tokens are due soon after what an idle replica takes: then what one serves alone is no measure of it."""
    tight = replace(SLO, ttft=((95, TIGHT),))
    prefill, decode = (over_rdma(replace(half(role, 1), slo=tight)) for role in (Role.Prefill, Role.Decode))
    world = split_world(replace(prefill, scaling=external(REPLICAS)), decode)
    world.splits["pd"] = split(prefill, decode)
    world.turn(8)
    counted = partial(at_engine, coming=Coming(REPLICAS, ASTRAY))
    found = Counting(world, {"pd-prefill": Calibration()}, {"pd-prefill": Role.Prefill}, counted, LONG)
    found.run(30)
    found.truth["pd-prefill"] = Calibration(1.6)
    served = [together(found)]
    for _ in range(60):
        found.run(1)
        if together(found) != served[-1]:
            served.append(together(found))
    assert served[-1] < 0.6 * served[0]
    assert all(later / earlier > 0.65 for earlier, later in pairwise(served))


def together(of: Serving) -> float:
    """Requests per second that each of four serves by the factors in force."""
    return capacity(of).each(REPLICAS)


def capacity(of: Serving, factors: Calibration | None = None, *, managed: bool = True) -> Capacity:
    """What prefill replicas serve by the factors in force, or by those that are given."""
    pool, known = of.world.pools["pd-prefill"], of.world.status("pd-prefill")
    assert pool.spec is not None
    assert known.plan is not None
    facts = Facts(build_fabric(of.world.nodes, (), load()), load())
    request = shape_request(pool.spec, facts, None, known.plan.engine)
    calibration = tuple(each if factors is None else replace(each, factors=factors) for each in known.calibration)
    request = replace(request, calibration=calibration, managed=managed)
    return capacity_of(known.plan, request, load(), LONG)
