"""How much more replicas of a pool carry behind a router that goes by load: what comes to each is more regular."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.shaping.cases import CATALOG, LLAMA_8B, Wish
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.shape import EngineName
from weft.domain.spec import ShapePins
from weft.domain.workload import Role, Slo, Workload
from weft.perf import ASTRAY, dispersion
from weft.perf.service import service
from weft.shaping import capacity_of, choose, planned_capacity, share_a_front
from weft.shaping.choice import answer
from weft.shaping.running import modelled
from weft.shaping.together import ASSESSED, FEW_HITS

TARGET = 0.04
WISH = Wish(
    LLAMA_8B,
    slo=Slo(tpot=((95, TARGET),)),
    input_tokens=12_000.0,
    pins=ShapePins(tensor_parallel=1),
    scaling=ScalingSpec(max_replicas=200),
)
PLAN = WISH.plan()


def test_each_carries_more_the_more_of_them_there_are() -> None:
    request = replace(WISH.request(), managed=True)
    found = planned_capacity(PLAN, request, CATALOG).gains
    assert len(found) == ASSESSED[-1]
    assert found[0] == 1.0
    assert found[1] > 1.02
    assert all(before <= after for before, after in pairwise(found))
    assert found[-1] < 1.5


def test_what_they_gain_is_within_the_target_with_a_quarter_gone_astray() -> None:
    request = replace(WISH.request(), managed=True)
    found = planned_capacity(PLAN, request, CATALOG)
    server = service(modelled(request, PLAN.shape, CATALOG), request.workload, Role.Aggregated)
    for replicas in ASSESSED:
        point = replace(server, dispersion=dispersion(replicas, ASTRAY)).at_rate(found.each(replicas))
        assert point is not None
        assert point.tpot.at(95) * PLAN.prediction.tpot_doubt <= TARGET * 1.005


def test_only_a_router_of_wefts_choice_is_known_to_go_by_load() -> None:
    assert planned_capacity(PLAN, WISH.request(), CATALOG).gains == ()


def test_first_tokens_gain_nothing() -> None:
    """The front of a pool counts those who decode, too, so that a prompt may wait as behind any."""
    request = replace(replace(WISH, slo=Slo(ttft=((95, 2.0),))).request(), managed=True)
    assert planned_capacity(choose(request, CATALOG), request, CATALOG).gains == ()


def test_fewer_replicas_are_paid_for_and_latencies_are_theirs() -> None:
    request = replace(WISH, rate=100.0).request()
    alone, together = (answer(replace(request, managed=managed), CATALOG) for managed in (False, True))
    assert together.scored.replicas < alone.scored.replicas
    tpot, rate = together.plan.prediction.tpot, 100.0 / together.scored.replicas
    server = service(modelled(request, PLAN.shape, CATALOG), request.workload, Role.Aggregated)
    point = replace(server, dispersion=dispersion(together.scored.replicas, ASTRAY)).at_rate(rate)
    assert point is not None
    assert tpot.p95 == pytest.approx(point.tpot.at(95))


def test_where_first_tokens_are_out_of_reach_the_rest_still_gains() -> None:
    """Then what one serves counts below which fewer requests would hardly help, and that is more in company."""
    slo = Slo(ttft=((95, 0.4),), tpot=((95, 0.02),))
    request = replace(replace(WISH, input_tokens=1_000.0, slo=slo).request(), managed=True)
    live = Workload(5.0, 5_000, 60, 11_000, 160)
    found = capacity_of(choose(request, CATALOG), request, CATALOG, live)
    assert not answer(replace(request, workload=live), CATALOG).scored.meets_slo
    assert found.gains
    assert found.gains[-1] > 1.1


@pytest.mark.parametrize(
    ("engine", "known"), [(EngineName.VLLM, True), (EngineName.TensorRTLLM, True), (EngineName.SGLang, False)]
)
def test_the_router_of_each_engines_pools_is_known_or_not(engine: EngineName, known: bool) -> None:  # noqa: FBT001
    shape = replace(PLAN.shape, engine=engine)
    assert share_a_front(Role.Aggregated, shape, FEW_HITS) is known
    assert not share_a_front(Role.Aggregated, shape, 2.0 * FEW_HITS)
    assert not share_a_front(Role.Aggregated, replace(shape, data_parallel=2), 0.0)
