"""What the forecast of a pool's traffic promises: it learns its own errors, and nothing odd ever breaks it."""

from __future__ import annotations

import json
import math
from dataclasses import astuple, replace
from time import process_time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.domain.coded import coded, decoded
from weft.scaling.forecasting.forecast import (
    ASSUMED_STARTUP_SECONDS,
    BIN_SECONDS,
    MOST_STARTUP_SECONDS,
    forecast,
    horizon_of,
    is_old,
)
from weft.scaling.forecasting.learning import HELD_BINS, watched
from weft.scaling.forecasting.scatter import ASSUMED, BOUNDS, quantile, with_error

if TYPE_CHECKING:
    from weft.domain.forecast import ForecastState

MONDAY = 4 * 86_400.0 + 20_000 * 7 * 86_400.0  # midnight
HOUR, DAY = 3600.0, 86_400.0

rates = st.one_of(
    st.none(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(0, 1000),
    st.sampled_from([0.0, -1.0, 1e300, 1e-300]),
)


def followed(
    series: list[float], apart: float = 10.0, start: float = MONDAY, state: ForecastState | None = None
) -> ForecastState:
    """The state after looks that came `apart` seconds apart, each with the rate since the one before."""
    state = state or watched(None, start, None, None)
    for index, rate in enumerate(series):
        state = watched(state, start + (index + 1) * apart, rate, None)
    return state


def at_most(state: ForecastState, part: float = 0.95) -> float:
    found = forecast(state, state.seen)
    assert found is not None
    return found.quantile(part)


def poisson(rate: float, seconds: float, seed: int = 1, apart: float = 10.0) -> list[float]:
    random = np.random.default_rng(seed)
    found: list[float] = (random.poisson(rate * apart, round(seconds / apart)) / apart).tolist()
    return found


def busy_from_nine() -> list[float]:
    """A day of minutes: 10 requests/s, twice as many from nine, and back over the evening."""
    hours = np.arange(0.0, DAY, 60.0) / HOUR
    rise, fall = np.clip((hours - 9.0) * 4.0, 0.0, 1.0), np.clip((hours - 17.0) / 4.0, 0.0, 1.0)
    found: list[float] = (10.0 * 2.0 ** (rise - fall)).tolist()
    return found


def test_a_constant_series_is_foretold_within_a_tenth_and_more_closely_by_and_by() -> None:
    state = followed([20.0] * 360)
    assert at_most(state, 0.5) == pytest.approx(20.0, rel=0.01)
    assert 20.0 < at_most(state) < 22.0
    later = followed([20.0] * 4 * 2160, start=state.seen, state=state)
    assert 20.0 < at_most(later) < at_most(state)


@pytest.mark.parametrize("rate", [0.5, 5.0, 50.0])
def test_counts_at_random_widen_it_by_what_chance_does_to_a_bin(rate: float) -> None:
    """Of a count of n the 95th percentile is about n + 1.6 sqrt(n); forecasts see it less clearly than that."""
    state = followed(poisson(rate, 6 * HOUR))
    counted = rate * BIN_SECONDS
    ideal = (counted + 1.645 * math.sqrt(counted)) / counted
    assert at_most(state, 0.5) == pytest.approx(rate, rel=0.3)
    assert at_most(state) / rate < 1.0 + 2.0 * (ideal - 1.0)


def test_a_quantile_is_exceeded_as_often_as_it_says_where_bursts_are_usual() -> None:
    """By one in twenty requests, in minutes that have nothing to do with each other; forecasts are kept for five."""
    random = np.random.default_rng(5)
    minutes = 20.0 * random.lognormal(0.0, 0.4, 600)
    bins = random.poisson(np.repeat(minutes, 2) * BIN_SECONDS) / BIN_SECONDS
    state, foretold, inside = watched(None, MONDAY, None, None), [], []
    for index, rate in enumerate(bins):
        state = watched(state, MONDAY + (index + 1) * BIN_SECONDS, float(rate), None)
        foretold.append(at_most(state))
        ahead = index - 5  # the forecast whose bin this is
        if ahead > 240:
            inside.append((rate <= max(foretold[ahead - HELD_BINS + 1 : ahead + 1]), rate))
    within, requests = zip(*inside, strict=True)
    assert 0.92 <= np.average(within, weights=requests) <= 0.98


def bursts(count: int) -> list[float]:
    """Looks of ten seconds: 20 requests/s, and 80 in the last of each ten minutes."""
    return ([20.0] * 54 + [80.0] * 6) * count


@pytest.mark.parametrize(("seen", "least", "most"), [(1, 20.0, 24.0), (2, 20.0, 24.0), (5, 60.0, 90.0)])
def test_bursts_that_hold_a_third_of_all_requests_are_no_tenth(seen: int, least: float, most: float) -> None:
    """One minute in ten, with four times the requests. A single one or two are not what is usual."""
    state = followed(bursts(seen) + [20.0] * 42)
    assert least < at_most(state, 0.9) < most


def test_in_a_burst_no_margin_reaches_far_beyond_the_most_that_came() -> None:
    """What quiet times taught, four times as much within minutes, would be four times the burst."""
    quiet = (30, 78, 54, 72, 36, 60, 42, 66, 48, 54, 33, 75)  # looks in between: bursts by a clock are foretold as such
    irregular = [rate for looks in quiet for rate in ([20.0] * looks + [80.0] * 6)]
    state = followed([*irregular, *[20.0] * 54, *[80.0] * 9])
    assert at_most(state, 0.5) > 60.0
    assert 80.0 < at_most(state, 0.99) < 100.0
    calm = followed([20.0] * 360, start=state.seen, state=state)
    assert 60.0 < at_most(calm, 0.99) < 100.0


def test_the_most_that_came_is_forgotten_by_half_of_the_way_in_half_a_day() -> None:
    state = followed([*[20.0] * 360, 160.0, 160.0, 160.0, *[20.0] * 4320])
    assert math.exp(state.highest) == pytest.approx(20.0 * math.sqrt(160.0 / 20.0), rel=0.05)


def test_a_step_is_followed_within_minutes_and_is_no_trend() -> None:
    state = followed([0.0] * 720 + [20.0] * 12)
    assert at_most(state, 0.5) == pytest.approx(20.0, rel=0.2)
    settled = followed([20.0] * 60, start=state.seen, state=state)
    assert at_most(settled, 0.5) == pytest.approx(20.0, rel=0.05)
    assert at_most(settled) < 30.0


def test_a_ramp_is_foretold_to_go_on() -> None:
    """From 5 to 10 requests/s in half an hour; two and a half minutes later it will be 0.4 more."""
    climbing = np.linspace(5.0, 10.0, 180).tolist()
    assert at_most(followed(climbing), 0.5) > 9.9


def middles_over_last(state: ForecastState, bins: list[float]) -> float:
    """The middle of what is foretold after each bin, over the rate in it, both as logarithms around 20 requests/s."""
    found = []
    for rate in bins:
        state = followed([rate] * 3, start=state.seen, state=state)
        found.append((math.log(at_most(state, 0.5) / 20.0), math.log(rate / 20.0)))
    middles, rates = np.array(found).T
    return float((middles * rates).sum() / (rates * rates).sum())


def test_what_does_not_come_back_is_foretold_from_where_it_is_and_what_does_is_not() -> None:
    """A walk by 8 % a bin, and as much scatter around a rate that stays: the part of the last bin that is foretold."""
    random = np.random.default_rng(1)
    scatter = random.normal(0.0, 0.08, 600)
    walk = (20.0 * np.exp(np.cumsum(scatter))).tolist()
    staying = (20.0 * np.exp(scatter)).tolist()
    assert middles_over_last(watched(None, MONDAY, None, None), walk) > 0.95
    assert middles_over_last(watched(None, MONDAY, None, None), staying) < 0.25


def test_hours_of_zeros_ask_for_nothing() -> None:
    state = followed([0.0] * 4 * 360)
    assert at_most(state, 0.99) < 0.2


def test_bursts_of_the_day_ask_for_nothing_in_a_night_without_traffic() -> None:
    random = np.random.default_rng(7)
    day = (20.0 * np.exp(np.repeat(random.normal(0.0, 0.5, 240), 6))).tolist()
    state = followed(day + [0.0] * 120)
    assert at_most(followed(day)) > 25.0
    assert at_most(state, 0.99) < 0.5


def test_a_dip_does_not_count_as_a_burst_when_it_ends() -> None:
    steady = followed([9.0] * 400)
    dipped = followed([0.0] * 12 + [9.0] * 60, start=steady.seen, state=steady)
    assert at_most(dipped) < 1.3 * at_most(steady)


def test_the_time_of_day_is_used_once_a_day_was_seen_and_only_if_it_was_right() -> None:
    """Every day at nine traffic doubles within a quarter of an hour."""
    day = busy_from_nine()
    to_nine = len(day) * 9 // 24 - 1
    first = followed(day[:to_nine], apart=60.0)
    fourth = followed(day * 3 + day[:to_nine], apart=60.0)
    horizon = 900.0
    before, after = (forecast(state, state.seen, horizon) for state in (first, fourth))
    assert before is not None
    assert after is not None
    assert before.quantile(0.5) == pytest.approx(10.0, rel=0.05)
    assert after.quantile(0.5) > 11.0
    noise = np.random.default_rng(2).permutation(day * 2).tolist()
    misled = followed(noise, apart=60.0)
    assert misled.foretold[0] <= 0.5 * (misled.foretold[1] + 0.05)


def test_a_weekend_is_not_a_workday() -> None:
    """Busy from nine on workdays alone: on the second Saturday nothing is foretold at nine."""
    busy = busy_from_nine()
    calm = [10.0] * len(busy)
    to_nine = calm[: len(calm) * 9 // 24 - 1]
    week = followed(busy * 5 + calm * 2, apart=60.0)
    monday = followed(to_nine, apart=60.0, start=week.seen, state=week)
    friday = replace(week, seen=week.seen + 5 * DAY, bin=week.bin + 14_400, quarter=None, pending=())
    saturday = followed(to_nine, apart=60.0, start=friday.seen, state=friday)
    quiet, rising = (forecast(state, state.seen, 900.0) for state in (saturday, monday))
    assert quiet is not None
    assert rising is not None
    assert quiet.quantile(0.5) == pytest.approx(10.0, rel=0.03)
    assert rising.quantile(0.5) > 11.0


def test_a_gap_widens_and_then_ends_the_forecast_and_teaches_nothing() -> None:
    state = followed([20.0] * 360)
    soon, later = (forecast(state, state.seen + wait) for wait in (0.0, 100.0))
    assert soon is not None
    assert later is not None
    assert later.quantile(0.95) > soon.quantile(0.95)
    assert not is_old(state, state.seen + 100.0)
    assert is_old(state, state.seen + 200.0)
    after = watched(state, state.seen + HOUR, 90.0, None)
    assert (after.level, after.errors) == (state.level, state.errors)
    again = followed([20.0] * 12, start=after.seen, state=after)
    assert at_most(again) == pytest.approx(at_most(state), rel=0.05)


def test_no_quantile_is_told_that_hardly_an_error_was_beyond() -> None:
    """The first step of a new pool is no margin, however little is risked; after many errors the tail is known."""
    stepped = ASSUMED
    for _ in range(5):
        stepped = with_error(stepped, 1.0, 0.2)
    assert quantile(stepped, 0.99) == pytest.approx(quantile(stepped, 1.0 - 1.2 / 25.0))
    assert quantile(stepped, 0.99) < 0.2
    known = stepped
    for _ in range(200):
        known = with_error(known, 1.0, 0.2)
    assert quantile(known, 0.99) > 0.9


def test_how_often_it_is_looked_at_makes_no_difference() -> None:
    often, rarely = followed([20.0] * 3600, apart=2.0), followed([20.0] * 240, apart=30.0)
    assert at_most(often) == pytest.approx(at_most(rarely), rel=0.01)


def test_the_same_look_twice_teaches_nothing_new() -> None:
    state = followed(poisson(5.0, HOUR))
    assert watched(state, state.seen, 7.0, 60.0) == state


def test_a_clock_that_is_set_back_keeps_what_was_learnt() -> None:
    state = followed(poisson(20.0, HOUR))
    back = watched(state, state.seen - 5000.0, 20.0, None)
    assert (back.level, back.errors, back.pending) == (state.level, state.errors, ())
    assert at_most(followed([20.0] * 30, start=back.seen, state=back), 0.5) == pytest.approx(20.0, rel=0.1)


def test_the_horizon_is_an_estimate_until_a_start_was_measured() -> None:
    """And from the first measurement on nothing of it is left: there is no mean of both."""
    state = replace(watched(None, MONDAY, None, None), estimated_startup_seconds=316.0)
    assert horizon_of(state) == 316.0
    state = followed([5.0] * 4, state=state)
    foretold = forecast(state, state.seen)
    assert foretold is not None
    assert (foretold.horizon_seconds, foretold.is_measured) == (316.0, False)
    state = watched(state, state.seen + BIN_SECONDS, 5.0, 140.0)
    assert horizon_of(state) == 140.0


@given(st.none() | st.floats(0.0, 1e9), st.none() | st.floats(1.0, MOST_STARTUP_SECONDS))
def test_what_was_measured_always_goes_before_what_was_estimated(
    estimated: float | None, measured: float | None
) -> None:
    """Whatever either is, and an estimate looks no further ahead than a measurement may."""
    state = watched(None, MONDAY, None, None)
    state = replace(state, estimated_startup_seconds=estimated, startup_seconds=measured)
    if measured is not None:
        assert horizon_of(state) == measured
    elif estimated is not None:
        assert horizon_of(state) == min(estimated, MOST_STARTUP_SECONDS)


def test_the_horizon_is_what_starts_took_and_is_assumed_before() -> None:
    state = watched(None, MONDAY, None, None)
    assert horizon_of(state) == ASSUMED_STARTUP_SECONDS
    for index in range(1, 400):
        state = watched(state, MONDAY + index * 10.0, 5.0, 40.0 if index < 20 else 60.0)
    assert horizon_of(state) == pytest.approx(60.0, rel=0.01)
    found = forecast(state, state.seen)
    assert found is not None
    assert found.is_measured


@given(looks=st.lists(st.tuples(rates, st.floats(-100, 200), rates), max_size=40))
def test_whatever_comes_it_stays_a_distribution(looks: list[tuple[float | None, float, float | None]]) -> None:
    state, now = watched(None, MONDAY, None, None), MONDAY
    for rate, seconds, startup in looks:
        now += seconds
        state = watched(state, now, rate, startup)
        found = forecast(state, now)
        if found is not None:
            quantiles = [found.quantile(part) for part in (0.0, 0.05, 0.5, 0.95, 1.0)]
            assert all(0.0 <= each for each in quantiles)
            assert quantiles == sorted(quantiles)
    assert all(math.isfinite(each) for each in (state.level, state.trend, state.noise, state.dispersion, *state.errors))


@settings(max_examples=30)
@given(less=st.floats(0, 60), more=st.floats(0, 60), seed=st.integers(0, 20))
def test_more_traffic_in_the_last_bin_never_foretells_less(less: float, more: float, seed: int) -> None:
    less, more = min(less, more), max(less, more)
    state = followed(poisson(20.0, 1800.0, seed))
    lower, higher = (at_most(followed([each] * 3, start=state.seen, state=state)) for each in (less, more))
    assert lower <= higher * (1.0 + 1e-9)


@given(errors=st.lists(st.floats(-5, 5), max_size=30), parts=st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_quantiles_of_errors_are_in_order_and_within_the_bounds(errors: list[float], parts: list[float]) -> None:
    weights = ASSUMED
    for error in errors:
        weights = with_error(weights, error, 1.0)
    low, high = (quantile(weights, part) for part in sorted(parts))
    assert BOUNDS[0] <= low <= high <= BOUNDS[-1]


def test_two_weeks_of_minutes_are_learnt_in_little_time_and_space() -> None:
    """Less than 5 ms a minute's look, 4 kB in all; what is remembered is read back as it was."""
    minutes = poisson(20.0, 14 * DAY, apart=60.0)
    begun = process_time()
    state = followed(minutes, apart=60.0)
    assert (process_time() - begun) / len(minutes) < 0.005
    assert len(json.dumps(astuple(state), separators=(",", ":"))) < 4096
    assert decoded(json.loads(json.dumps(coded(state)))) == state
