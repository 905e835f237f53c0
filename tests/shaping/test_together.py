"""How much more replicas carry that share a queue."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.shaping.cases import CATALOG, Wish
from weft.domain.calibration import Calibrated, CalibrationSubject
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.shape import Calibration
from weft.domain.spec import EngineSpec, ShapePins
from weft.domain.workload import Role, Slo
from weft.perf import ASTRAY
from weft.perf.service import service
from weft.shaping import choose, planned_capacity
from weft.shaping.choice import answer
from weft.shaping.running import modelled
from weft.shaping.together import ASSESSED

if TYPE_CHECKING:
    from weft.domain.capacity import Capacity
    from weft.shaping import ShapeRequest

TARGET = 2.0
AS_PREDICTED = 1.0 / 1.05  # a measured tail is trusted to a twentieth
OVER_RDMA = EngineSpec(resources=(("rdma/ib", "1"),))
WISH = Wish(slo=Slo(ttft=((95, TARGET),), tpot=((95, 0.04),)), role=Role.Prefill, input_tokens=3000.0, engine=OVER_RDMA)


def asked(request: ShapeRequest) -> Capacity:
    """What replicas serve behind a router of Weft's choice."""
    request = replace(request, managed=True)
    return planned_capacity(choose(request, CATALOG), request, CATALOG)


def test_each_carries_more_the_more_of_them_there_are() -> None:
    found = asked(WISH.request()).gains
    assert len(found) == ASSESSED[-1]
    assert found[0] == 1.0
    assert found[1] > 1.05
    assert all(before <= after for before, after in pairwise(found))
    assert found[-1] < 2.0


def test_what_they_gain_is_within_the_target_with_a_quarter_gone_astray() -> None:
    request = WISH.request()
    plan = choose(request, CATALOG)
    found = asked(request)
    server = service(modelled(request, plan.shape, CATALOG), request.workload, Role.Prefill)
    doubt = plan.prediction.ttft_doubt
    for replicas in ASSESSED:
        point = replace(server, in_one_queue=replicas, astray=ASTRAY).at_rate(found.each(replicas))
        assert point is not None
        assert point.ttft.at(95) * doubt <= TARGET * 1.005


def test_only_a_router_of_wefts_choice_is_known_to_go_by_load() -> None:
    request = WISH.request()
    plan = choose(request, CATALOG)
    assert planned_capacity(plan, request, CATALOG).gains == ()


def test_fewer_replicas_are_paid_for() -> None:
    request = replace(WISH, rate=40.0, scaling=ScalingSpec(max_replicas=100)).request()
    alone, together = (answer(replace(request, managed=managed), CATALOG).scored for managed in (False, True))
    assert together.shape == alone.shape
    assert together.replicas < alone.replicas


def test_a_link_that_all_wait_for_is_no_wider_for_a_shared_queue() -> None:
    over_rdma = asked(WISH.request()).gains
    over_tcp = asked(replace(WISH, engine=EngineSpec()).request()).gains
    assert over_rdma[-1] > 1.1
    assert over_tcp == () or over_tcp[-1] < 1.01


def test_a_short_tail_counts_among_others_and_not_alone() -> None:
    """It may be that of a wait which others shortened when it was measured."""
    plan = WISH.plan()
    request = replace(replace(WISH, pins=ShapePins.of(plan.shape)).request(), managed=True)
    subject = CalibrationSubject.of(request.spec.model.model_id, plan.engine, plan.shape)
    tails = {}
    for tail in (0.8, AS_PREDICTED):
        known = Calibrated(subject, Calibration(points=100, prompt_points=100, ttft_tail=tail), 0.0)
        seen = replace(request, calibration=(known,), engine=plan.engine)
        tails[tail] = planned_capacity(choose(seen, CATALOG), seen, CATALOG)
    assert tails[0.8].alone == pytest.approx(tails[AS_PREDICTED].alone, rel=0.01)
    assert tails[0.8].each(8) > 1.01 * tails[AS_PREDICTED].each(8)


def test_latencies_are_those_of_the_queue_that_the_replicas_share() -> None:
    """Each of those that run gets more than one alone would have in time, and has it in time."""
    request = replace(WISH, rate=40.0, scaling=ScalingSpec(max_replicas=100)).request()
    request = replace(request, managed=True)
    found = answer(request, CATALOG)
    rate, prediction = 40.0 / found.scored.replicas, found.plan.prediction
    assert rate > prediction.capacity
    server = service(modelled(request, found.plan.shape, CATALOG), request.workload, Role.Prefill)
    point = replace(server, in_one_queue=found.scored.replicas, astray=ASTRAY).at_rate(rate)
    assert point is not None
    assert prediction.ttft.p95 == pytest.approx(point.ttft.at(95))
    assert prediction.ttft.p95 * prediction.ttft_doubt <= TARGET
