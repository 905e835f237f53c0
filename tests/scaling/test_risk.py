"""What is risked moves with what a margin costs: GPUs protect requests where they protect the most of them."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scaling.cases import AUTO, Pool, seen
from weft.domain.forecast import ForecastState
from weft.scaling.forecast import Forecast
from weft.scaling.risk import MOST_RISK, risk_now
from weft.scaling.scatter import ASSUMED

MINUTES = 6  # looks, ten seconds apart
SPEC = replace(AUTO, max_replicas=400, headroom=0.0)
risks = st.floats(0.01, 0.5)
costs = st.floats(0.01, 100.0)


def risked(risk: float, times: float) -> float:
    """Where a margin costs so many times as much as usual."""
    return risk_now(risk, ForecastState(0.0, 0, costs=(10.0, 20.0)), Forecast(0.0, 1.0, ASSUMED, 120.0), 2.0 * times)


@given(risks)
def test_the_risk_is_the_users_where_a_margin_costs_what_it_usually_does(risk: float) -> None:
    assert risked(risk, 1.0) == pytest.approx(risk, abs=1e-6)


def test_the_risk_is_the_users_before_anything_is_usual() -> None:
    assert risk_now(0.1, ForecastState(0.0, 0), Forecast(0.0, 1.0, ASSUMED, 120.0), 7.0) == 0.1


@given(risks, costs, costs)
def test_more_is_risked_the_more_a_margin_costs_and_never_more_than_half(risk: float, one: float, other: float) -> None:
    assert 0.0 <= risked(risk, min(one, other)) <= risked(risk, max(one, other)) <= MOST_RISK


def test_wider_forecasts_cost_as_much_as_more_work() -> None:
    state = ForecastState(0.0, 0, costs=(10.0, 10.0))
    wide, heavy = Forecast(0.0, 1.5, ASSUMED, 120.0), Forecast(0.0, 1.0, ASSUMED, 120.0)
    assert risk_now(0.1, state, wide, 1.0) == risk_now(0.1, state, heavy, 1.5)


@pytest.mark.parametrize("risk", [0.02, 0.1])
def test_no_gpu_moved_from_one_hour_to_another_would_save_more_requests(risk: float) -> None:
    """Hours of short and of long requests, as many of each: any other pair of margins of the same cost misses more."""
    normal, works = NormalDist(), (0.5, 1.5)
    margins = [normal.inv_cdf(1.0 - risked(risk, work)) for work in works]

    def missed(shift: float) -> float:
        """Demand beyond capacity in both hours (in deviations), once the first gives GPUs to the second."""
        shifted = (margins[0] - shift / works[0], margins[1] + shift / works[1])
        return math.fsum(1.0 - normal.cdf(margin) for margin in shifted)

    assert missed(0.0) == min(missed(step / 50.0) for step in range(-20, 21))


def counts(work: float) -> int:
    """Of a pool with bursts, once a request has been so many times the usual work for ten minutes, per unit of work."""
    pool = Pool(SPEC, capacity=20.0, declared_rate=200.0, declared_capacity=20.0)
    for minute in range(4 * 60):
        pool.run(seen(300.0 if minute % 5 == 0 else 200.0, 20), 60)
    pool.capacity = 20.0 / work
    for minute in range(10):
        pool.run(seen((300.0 if minute % 5 == 0 else 200.0) / work, 20), 60)
    return min(pool.history[-MINUTES * 5 :])


def test_a_fleet_of_short_requests_keeps_a_wider_margin_than_one_of_long_ones() -> None:
    assert counts(0.5) > counts(2.0)


def test_an_event_says_why_more_is_risked_than_the_user_said() -> None:
    pool = Pool(SPEC, capacity=20.0, declared_rate=200.0, declared_capacity=20.0)
    for minute in range(4 * 60):
        pool.run(seen(300.0 if minute % 5 == 0 else 200.0, 20), 60)
    pool.capacity = 5.0
    answer = pool.step(seen(200.0, 20))
    assert answer.changed is not None
    assert "(a risk of 50 %, as margins are dearer than usual)" in answer.changed.message
