"""Bursts that come back at no fixed distance are served by what stands, and nothing else is taken for them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fluid import STEP_SECONDS
from bench.returning import BURST, QUIET, bursts, by_forecasts_alone, counted, held
from tests.scaling.cases import Pool, seen
from tests.scaling.test_forecast import HOUR, busy_from_nine, followed, poisson
from weft.domain.start_up import MeasuredStart
from weft.scaling.demand import Demand, want_for
from weft.scaling.forecasting.keeping import is_worth_a_write, kept_now
from weft.scaling.forecasting.packing import packed, unpacked
from weft.scaling.forecasting.returning import RETURN_BINS, STAYED_AWAY, returning
from weft.scaling.sight import look

if TYPE_CHECKING:
    from weft.domain.forecast import ForecastState
    from weft.scaling.demand import Want

MINUTE = 60.0


def test_what_bursts_return_with_is_held() -> None:
    assert returning(followed(bursts(2.0))) == pytest.approx(BURST, rel=0.1)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_pool_in_such_bursts_has_what_they_take(seed: int) -> None:
    """Forecasts alone shrink the pool before each of them; a fixed fleet for the bursts has 40 replicas."""
    rates = counted(bursts(6.0, apart=(6.0, 15.0), seed=seed))
    pool = held(rates)
    assert pool.attained > 0.90
    assert by_forecasts_alone(rates).attained < 0.50
    assert pool.replica_seconds < 1.15 * BURST * len(rates) * STEP_SECONDS


@pytest.mark.parametrize(
    "rates",
    [
        pytest.param([BURST] * 720, id="constant"),
        pytest.param(poisson(0.1, 2.0 * HOUR), id="a few requests a minute"),
        pytest.param(poisson(BURST, 2.0 * HOUR), id="chance"),
        pytest.param([QUIET] * 360 + [BURST] * 360, id="a step"),
        pytest.param([BURST] * 360 + [QUIET] * 360, id="a step down"),
        pytest.param(np.linspace(QUIET, BURST, 720).tolist(), id="a ramp"),
        pytest.param([*np.linspace(QUIET, BURST, 120)] * 6, id="ramps that return"),
        pytest.param(bursts(2.0, lasting=20.0, apart=(5.0, 9.0)), id="as long as they can be followed"),
        pytest.param([0.0] * 720, id="nothing"),
        pytest.param(([QUIET] * 60 + [BURST] * 12) * 2, id="two"),
    ],
)
def test_nothing_else_is_taken_for_bursts_that_return(rates: list[float]) -> None:
    assert returning(followed(rates)) == 0.0


def test_a_day_has_none() -> None:
    minutes = busy_from_nine()
    assert max(returning(followed(minutes[: 60 * hour], apart=MINUTE)) for hour in range(1, 25)) == 0.0


def test_they_are_over_once_they_stay_away_for_longer_than_ever() -> None:
    pause = 30
    rates = ([QUIET] * pause + [BURST] * 12) * 4
    soon, late = (rates + [QUIET] * round(times * STAYED_AWAY * pause) for times in (0.8, 1.3))
    assert returning(followed(soon)) > 0.0
    assert returning(followed(late)) == 0.0


def test_a_gap_in_the_metrics_ends_none() -> None:
    before = followed(bursts(2.0))
    after = followed([QUIET] * 6, start=before.seen + HOUR / 2.0, state=before)
    assert returning(after) == pytest.approx(returning(before), rel=0.1)


@settings(max_examples=50, deadline=None)
@given(heights=st.lists(st.floats(4.0, 60.0), min_size=6, max_size=20), risk=st.floats(0.02, 0.4))
def test_no_more_requests_exceed_it_than_are_accepted(heights: list[float], risk: float) -> None:
    """But for the rounding of rates to a tenth of a logarithm."""
    rates = [rate for height in heights for rate in (*[0.1] * 12, *[height] * 6)]
    rate = returning(followed(rates), risk)
    above = math.fsum(each for each in rates if each > rate * math.exp(0.1))
    assert rate == 0.0 or above <= (risk + 0.02) * math.fsum(rates)


@settings(max_examples=30, deadline=None)
@given(risks=st.tuples(st.floats(0.01, 0.5), st.floats(0.01, 0.5)), seed=st.integers(1, 50))
def test_who_risks_more_holds_no_more(risks: tuple[float, float], seed: int) -> None:
    state = followed(counted(bursts(2.0, seed=seed)))
    assert returning(state, min(risks)) >= returning(state, max(risks))


@settings(max_examples=30, deadline=None)
@given(times=st.floats(0.5, 20.0), seed=st.integers(1, 50))
def test_more_of_the_same_traffic_is_never_held_less(times: float, seed: int) -> None:
    rates = bursts(2.0, seed=seed)
    less, more = (returning(followed([rate * factor for rate in rates])) for factor in (1.0, max(1.0, times)))
    assert more >= less * 0.9


def wanted(wished: Demand) -> Want:
    """Of a pool each of whose replicas serves a request/s."""
    return want_for(look(Pool(capacity=1.0).request(seen(1.0, 10))), wished)


def test_a_peak_orders_what_returns_and_what_is_expected_to_last() -> None:
    peak = Demand(60.0, 5.0, lately=55.0)
    assert wanted(peak).replicas == 55
    assert wanted(replace(peak, returning=40.0)).replicas == 40
    assert wanted(replace(peak, returning=40.0, persisting=58.0)).replicas == 64  # with headroom


def test_it_is_said_where_it_decides() -> None:
    told = "40 as bursts keep coming back faster than a start"
    assert told in wanted(Demand(1.0, 1.0, returning=40.0)).because
    assert told not in wanted(Demand(50.0, 50.0, returning=40.0)).because


def with_starts(state: ForecastState) -> ForecastState:
    return replace(state, starts=(MeasuredStart(3, (1, 2, 3, 4, 5)),))


@pytest.mark.parametrize("known", [replace, with_starts], ids=["alone", "with starts"])
def test_a_status_keeps_them(known: object) -> None:
    state = known(followed(bursts(3.0)))  # type: ignore[operator]
    restored = unpacked(packed(state))
    assert restored is not None
    assert returning(restored) == returning(state) > 0.0
    assert (restored.starts, restored.period) == (state.starts, 0.0)


def test_that_bursts_return_is_worth_a_write_once() -> None:
    rates = bursts(3.0)
    calm, later = followed([QUIET] * RETURN_BINS), followed(rates)
    same = followed(rates[:30], start=later.seen, state=later)
    kept = kept_now(replace(calm, errors=later.errors, highest=later.highest), later.seen - HOUR / 2.0)
    assert is_worth_a_write(kept, later, later.seen)
    again = kept_now(later, later.seen)
    assert not is_worth_a_write(again, replace(same, errors=later.errors, highest=later.highest), later.seen + HOUR)


def test_halves_of_a_split_hold_the_greater_of_what_both_see() -> None:
    one, other = Demand(1.0, 1.0, returning=8.0), Demand(2.0, 2.0, returning=5.0)
    assert one.at_least(other).returning == other.at_least(one).returning == 8.0
