"""Cycles that rise, fall, end, vary or come at odd times: no more is bought for less, and what ended is let go."""

from __future__ import annotations

import math
from copy import deepcopy
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.scaling.test_cycles import AHEAD, BehindAFront, bought, came, foretold, learnt, moments, pulses, waves
from tests.scaling.test_forecast import HOUR, followed
from weft.scaling.forecasting.course import with_bin
from weft.scaling.forecasting.cycles import in_cycle
from weft.scaling.forecasting.learning import watched

if TYPE_CHECKING:
    from tests.scaling.test_cycles import Rates

PARTS = (0.25, 0.5, 0.85, 1.0, 1.2, 2.0, 3.0)


@pytest.mark.parametrize(
    "rates", [waves(20.0, 6.0), pulses(3.0, 15.0, 6.0), pulses(1.0, 10.0, 6.0)], ids=["waves", "pulses", "minutes"]
)
@pytest.mark.parametrize("bins", [1, 2, 4])
def test_more_demand_never_means_fewer_replicas(rates: Rates, bins: int) -> None:
    """Whenever in a cycle the last bins bring more or less than it foretells."""
    steps = came(rates)
    for begin in range(1500, 1620, 24):
        pool = BehindAFront(declared_rate=20.0).run(steps[:begin])
        counts = []
        for part in PARTS:
            other = deepcopy(pool).run([rate * part for rate in steps[begin : begin + 3 * bins]])
            other.step(steps[begin + 3 * bins] * part)
            counts.append(other.counts[-1])
        assert all(fewer <= more for fewer, more in pairwise(counts)), (begin, counts)


def varying(lasting: float, minutes: float, hours: float, spread: float, seed: int) -> Rates:
    """Pulses of which each has another height."""
    heights = 1.0 + 3.0 * np.exp(np.random.default_rng(seed).normal(0.0, spread, 1000))
    index = (moments(hours) // (60.0 * minutes)).astype(int)
    found: Rates = np.where(moments(hours) % (60.0 * minutes) < 60.0 * lasting, 10.0 * heights[index], 10.0)
    return found


@pytest.mark.parametrize(("lasting", "minutes"), [(3.0, 15.0), (1.0, 10.0)])
def test_pulses_of_different_heights_exceed_no_more_than_their_user_accepts(lasting: float, minutes: float) -> None:
    """Their margin is that of pulses, and not of all the time between; 11 to 15 % exceeded it when it was."""
    found = [bought(varying(lasting, minutes, 8.0, 0.3, seed))[0] for seed in range(101, 105)]
    assert float(np.mean(found)) < 0.1


@pytest.mark.parametrize(("lasting", "minutes"), [(3.0, 15.0), (1.0, 10.0)])
def test_pulses_that_end_are_let_go_after_two_of_their_periods(lasting: float, minutes: float) -> None:
    """And are not bought again later, when nobody remembers their period; 37 replicas were held for hours."""
    pool = BehindAFront(declared_rate=20.0).run(came(pulses(lasting, minutes, 4.0)))
    assert max(pool.counts[-360:]) > 40
    pool.run(came(np.full(len(moments(5.0)), 10.0)))
    gone = round((2.5 * minutes + 6.0) * 6.0)
    assert max(pool.counts[1440 + gone :]) < 18


@pytest.mark.parametrize(("lasting", "minutes"), [(3.0, 15.0), (1.0, 10.0)])
def test_pulses_that_nobody_could_see_have_not_ended(lasting: float, minutes: float) -> None:
    """After an hour without metrics the first quiet bin is no sign that pulses stay away: margins still reach them."""
    state = learnt(pulses(lasting, minutes, 6.0))
    before = state.highest
    state = watched(state, state.seen + HOUR, 10.0, None)
    state = followed([10.0] * 12, start=state.seen, state=state)
    assert state.highest == pytest.approx(before, abs=0.2)
    state = followed([10.0] * round(2.5 * minutes * 6.0), start=state.seen, state=state)
    assert state.highest == pytest.approx(math.log(10.0), abs=0.2)


def test_how_far_cycles_came_too_early_is_how_much_further_is_looked_ahead() -> None:
    """One of 14 pulses came two minutes early: the next may, too."""
    course = ["", ""]
    for pulse in range(15):
        for index in range(30 if pulse < 14 else 2):
            for which, early in enumerate((0, 4)):
                at = index + (early if pulse == 7 else 0)
                rate = 40.0 if 10 <= at < 16 else 10.0
                course[which] = with_bin(course[which], math.log(rate), 0)
    regular, odd = (in_cycle(each, 30.0, AHEAD) for each in course)
    assert regular is not None
    assert odd is not None
    assert regular.ahead.level == pytest.approx(math.log(10.0), abs=0.1)
    assert odd.ahead.level > math.log(20.0)


def test_a_rise_leaves_a_cycle_beside_the_usual_forecast_and_a_fall_too() -> None:
    state = learnt(waves(20.0, 4.0))
    for rate, rose in ((90.0, True), (1.0, False)):
        found = foretold(learnt(np.full(6, rate), state=state))
        assert found.cycle is not None
        assert (found.cycle.rose, found.cycle.fell) == (rose, not rose)
        assert found.cycle.cycle_seconds > 0.0
