"""What is risked moves with what a margin costs: GPUs protect requests where they protect the most of them."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.counting import counted
from tests.scaling.cases import AUTO, Pool, seen
from weft.domain.forecast import ForecastState
from weft.scaling.demand import Demand
from weft.scaling.forecasting.forecast import BIN_SECONDS, Forecast, forecast, width
from weft.scaling.forecasting.risk import MOST_OF_MEAN, MOST_RISK, Margin, margin_now, with_cost
from weft.scaling.forecasting.scatter import ASSUMED, with_error

AHEAD = Forecast(3.0, 1.0, ASSUMED, 120.0)
MINUTES = 6  # looks, ten seconds apart
SPEC = replace(AUTO, max_replicas=400, headroom=0.0)
# One minute in five, at no fixed distance: by a clock they would be foretold one by one.
BURSTS = frozenset(np.flatnonzero(np.random.default_rng(1).random(240) < 0.2).tolist())
risks = st.floats(0.01, 0.49)
costs = st.floats(0.01, 100.0)


def risked(risk: float, times: float) -> float:
    """Where a margin costs so many times as much as usual."""
    return Margin(risk, times).risk


def test_a_margin_weighs_each_distribution_of_errors_once() -> None:
    """However many quantiles over requests it asks for, as it does where it costs far more or less than usual."""
    errors = with_error(ASSUMED, 0.3, 7.0)
    ahead = replace(AHEAD, scale=1.25, width=1.25, errors=errors)
    _, weighed = counted(lambda: Margin(0.05, 9.0).on(ahead), "scatter.py:_times")
    assert weighed == 1


def known(cost: float) -> ForecastState:
    """Requests whose margins cost so much on average."""
    return ForecastState(0.0, 0, costs=(5.0, 10.0, 10.0 * cost))


@given(risks)
def test_the_risk_is_the_users_where_a_margin_costs_what_it_usually_does(risk: float) -> None:
    assert risked(risk, 1.0) == pytest.approx(risk, abs=1e-6)


def test_the_risk_is_the_users_before_anything_is_usual() -> None:
    assert margin_now(0.1, ForecastState(0.0, 0), AHEAD, 7.0).risk == pytest.approx(0.1)


@given(risks, costs, costs)
def test_more_is_risked_the_more_a_margin_costs_and_never_more_than_half(risk: float, one: float, other: float) -> None:
    assert 0.0 <= risked(risk, min(one, other)) <= risked(risk, max(one, other)) <= MOST_RISK


def test_wider_forecasts_cost_as_much_as_more_work() -> None:
    wide = margin_now(0.1, known(2.0), replace(AHEAD, width=1.5), 1.0)
    assert wide.times == pytest.approx(margin_now(0.1, known(2.0), AHEAD, 1.5).times) == pytest.approx(0.75)


def test_bins_that_nobody_saw_make_no_margin_dearer() -> None:
    state = replace(learnt([600.0] * 9), latest=8)
    soon, later = (forecast(state, (9.0 + unseen) * BIN_SECONDS) for unseen in (0, 4))
    assert soon is not None
    assert later is not None
    assert later.scale > soon.scale
    assert margin_now(0.1, state, later, 1.0) == margin_now(0.1, state, soon, 1.0)


def test_who_wants_no_margin_gets_none() -> None:
    assert risked(0.5, 0.1) == risked(0.5, 10.0) == 0.5


@given(risks, st.floats(0.1, 20.0), costs, st.floats(1.0, 3.0))
def test_more_work_never_means_fewer_replicas(risk: float, scatter: float, times: float, more: float) -> None:
    """At any cost, however wild the forecast: errors of a twentieth, times so much."""
    ahead = Forecast(3.0, scatter, ASSUMED, 120.0)
    before, after = (each * Margin(risk, each).on(ahead) for each in (times, times * more))
    assert after >= 0.98 * before


@given(risks, st.floats(0.5, 3.0), st.lists(st.tuples(st.floats(0.0, 2.0), st.floats(0.5, 20.0)), max_size=4))
def test_nor_where_errors_are_those_of_bursts(risk: float, scatter: float, bursts: list[tuple[float, float]]) -> None:
    """A margin reaches as far as they do, or as far as what is usual: between lies a cliff."""
    errors = ASSUMED
    for burst, weight in bursts:
        errors = with_error(errors, burst, weight)
    ahead = Forecast(3.0, scatter, errors, 120.0)
    bought = [times * Margin(risk, times).on(ahead) for times in (0.3 * 1.1**step for step in range(40))]
    assert all(after >= before * (1.0 - 1e-9) for before, after in pairwise(bought))


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
        pool.run(seen(300.0 if minute in BURSTS else 200.0, 20), 60)
    pool.capacity = 20.0 / work
    for minute in range(10):
        pool.run(seen((300.0 if minute in BURSTS else 200.0) / work, 20), 60)
    return min(pool.history[-MINUTES * 5 :])


def test_a_fleet_of_short_requests_keeps_a_wider_margin_than_one_of_long_ones() -> None:
    assert counts(0.5) > counts(2.0)


def test_an_event_says_why_more_is_risked_than_the_user_said() -> None:
    pool = Pool(SPEC, capacity=20.0, declared_rate=200.0, declared_capacity=20.0)
    for minute in range(4 * 60):
        pool.run(seen(300.0 if minute in BURSTS else 200.0, 20), 60)
    pool.capacity = 5.0
    answer = pool.step(seen(200.0, 20))
    assert answer.changed is not None
    assert "(at a risk of 50 %, as a margin costs more than usual)" in answer.changed.message


@pytest.mark.parametrize("load", [137.0, 200.0, 611.0])
def test_no_margin_is_told_as_0_and_not_as_what_rounding_leaves(load: float) -> None:
    pool = Pool(SPEC, capacity=20.0, declared_rate=load, declared_capacity=20.0)
    for minute in range(4 * 60):
        pool.run(seen(load * (1.5 if minute in BURSTS else 1.0), 20), 60)
    pool.capacity = 5.0
    answer = pool.step(seen(load, 20))
    assert answer.changed is not None
    assert ", 0 of it as a margin for forecast errors (at a risk of 50 %" in answer.changed.message


def test_of_two_measurements_a_margin_goes_with_the_forecast_that_it_is_for() -> None:
    own, other = (Demand(1.0, 1.0, ahead=AHEAD, margin=Margin(risk)) for risk in (0.1, 0.2))
    assert own.at_least(other).margin == Margin(0.1)
    assert Demand(1.0, 1.0).at_least(other).margin == Margin(0.2)


def learnt(counts: list[float], work: float = 1.0, **state: float) -> ForecastState:
    """After bins of so many requests, whose work is so many times the usual."""
    found = replace(ForecastState(0.0, 0), level=math.log(20.0), **state)  # type: ignore[arg-type]
    for index, count in enumerate(counts):
        found = with_cost(found, replace(found, latest=index, count=count * work), work)
    return found


def test_the_usual_cost_is_that_of_a_request_and_of_how_wide_forecasts_were() -> None:
    calm, wild, heavy = learnt([600.0] * 9), learnt([600.0] * 9, upward=0.08, usual=0.02), learnt([600.0] * 9, 3.0)
    assert calm.costs[1] == pytest.approx(9 * 600.0, rel=0.01)
    assert wild.costs[2] / calm.costs[2] == pytest.approx(width(wild, wild.level) / width(calm, calm.level))
    assert heavy.costs[1:] == pytest.approx((calm.costs[1], 3.0 * calm.costs[2]))
    assert margin_now(0.1, calm, replace(AHEAD, width=width(calm, calm.level)), 1.0).risk == pytest.approx(0.1)


def test_a_bin_is_learnt_once() -> None:
    state = learnt([600.0])
    assert with_cost(state, state, 1.0) == state


def test_a_broken_look_is_not_what_is_usual() -> None:
    requests = learnt([600.0] * 20 + [1e9 * BIN_SECONDS] + [600.0] * 20).costs[1]
    assert requests < (40.0 + MOST_OF_MEAN) * 600.0


def test_what_was_usual_is_forgotten_by_half_in_half_a_day() -> None:
    old = learnt([1000.0])
    for index in range(round(43_200.0 / BIN_SECONDS)):
        old = with_cost(old, replace(old, latest=index + 1, count=0.0), 1.0)
    assert old.costs[1] == pytest.approx(500.0, rel=1e-6)
