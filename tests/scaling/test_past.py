"""What rates of weeks before the first look teach."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scaling.test_forecast import DAY, HOUR, MONDAY, at_most, busy_from_nine, followed, rates
from weft.scaling.forecasting.forecast import forecast
from weft.scaling.forecasting.past import STEP_SECONDS, learnt_from, with_past


def steps(days: int) -> list[tuple[float, float]]:
    """Days with a rush from nine, as means of five minutes."""
    means = np.array(busy_from_nine() * days).reshape(-1, 5).mean(axis=1)
    return [(MONDAY + (at + 1) * STEP_SECONDS, float(rate)) for at, rate in enumerate(means)]


def test_the_pattern_of_the_days_is_that_which_looking_finds() -> None:
    """Workdays and weekends, of two weeks."""
    past, looked = learnt_from(steps(14)), followed(busy_from_nine() * 14, apart=60.0)
    assert past is not None
    for told, seen in zip(past.days, looked.days, strict=True):
        assert len(told) == len(seen)
        assert all(one == pytest.approx(other, abs=0.02) for one, other in zip(told, seen, strict=True))


def test_a_pool_that_is_looked_at_for_an_hour_foresees_the_rush_of_nine() -> None:
    """With starts of half an hour, at ten to nine: without a past it foretells what it sees."""
    morning = MONDAY + 14 * DAY
    state = followed([10.0] * 110, apart=60.0, start=morning + 7 * HOUR)
    foretold = {}
    for name, past in (("known", learnt_from(steps(14))), ("unknown", None)):
        taught = with_past(state, past)
        assert taught is not None
        ahead = forecast(taught, taught.seen, 1800.0)
        assert ahead is not None
        foretold[name] = ahead.quantile(0.5)
    assert foretold["unknown"] == pytest.approx(10.0, rel=0.01)
    assert foretold["known"] > 14.0


def test_what_the_past_does_not_tell_is_learnt_by_looking() -> None:
    state, past = followed([10.0] * 60), learnt_from(steps(3))
    taught = with_past(state, past)
    assert past is not None
    assert taught == replace(state, days=past.days, foretold=past.foretold)
    assert at_most(taught) == pytest.approx(at_most(state), rel=0.3)


def test_more_days_that_were_seen_are_not_replaced() -> None:
    """By fewer, or by as many."""
    state, past = followed(busy_from_nine() * 2, apart=60.0), learnt_from(steps(1))
    assert with_past(state, past) is state
    taught = with_past(state, learnt_from(steps(14)))
    assert with_past(taught, learnt_from(steps(14))) is taught is not state
    assert with_past(state, None) is state
    assert with_past(None, past) is None


def test_a_pattern_that_is_none_is_not_trusted() -> None:
    """Changes at random are found as changes, and proved wrong by the next day."""
    random = np.random.default_rng(3)
    past = learnt_from([(at, math.exp(random.normal())) for at, _ in steps(14)])
    assert past is not None
    assert past.foretold[0] < 0.1 * past.foretold[1]


@pytest.mark.parametrize("few", [[], steps(1)[:5], [(MONDAY, 1.0)] * 100])
def test_too_little_tells_nothing(few: list[tuple[float, float]]) -> None:
    assert learnt_from(few) is None


@given(st.lists(st.tuples(st.integers(0, 5000), rates), max_size=300))
def test_no_number_of_anybody_breaks_it(odd: list[tuple[int, float]]) -> None:
    past = learnt_from([(MONDAY + at * STEP_SECONDS, rate) for at, rate in sorted(odd, key=lambda each: each[0])])
    assert past is None or all(map(math.isfinite, past.foretold))
