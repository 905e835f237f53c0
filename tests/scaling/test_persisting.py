"""Bursts: those that are over before a replica would be ready are not ordered for, and steps always are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scaling.cases import Pool, reason, seen
from tests.scaling.test_forecast import DAY, HOUR, MONDAY, followed, poisson
from weft.domain.reasons import Reason
from weft.domain.start_up import StartUp
from weft.scaling import scale_pool
from weft.scaling.forecasting.forecast import horizon_of, persists
from weft.scaling.forecasting.learning import watched
from weft.scaling.forecasting.seasons import QUARTERS_A_DAY, change

if TYPE_CHECKING:
    from weft.domain.forecast import ForecastState

MINUTE = 60.0
CALM, BURST = 20.0, 60.0
STEPS = 720  # of 10 s: two hours


def restless(lasting: int, steps: int = STEPS) -> list[float]:
    """Rates that are anything from a third to three times the usual one, another one after so many steps; calm then."""
    sizes = np.random.default_rng(1).normal(0.0, 0.6, steps // lasting + 1)
    found: list[float] = (CALM * np.exp(np.repeat(sizes, lasting)[:steps])).tolist()
    return [*found, *[CALM] * 12]


def part_that_persists(state: ForecastState, rate: float) -> float:
    """Of so many requests a second over a minute."""
    return persists(state, state.seen, rate, MINUTE) / rate


def test_all_of_the_first_burst_is_ordered_for() -> None:
    assert part_that_persists(followed([CALM] * 60), 1.5 * CALM) == 1.0


def test_a_burst_counts_as_far_as_those_before_it_outlived_a_start() -> None:
    """Starts of two minutes, and bursts of half a minute and of ten."""
    short, long = (part_that_persists(followed(restless(lasting)), BURST) for lasting in (3, 60))
    assert short < 0.5
    assert long == 1.0


def test_a_pool_of_short_bursts_orders_for_a_step_that_is_none_of_them() -> None:
    state = followed(restless(3))
    assert part_that_persists(state, 100.0 * CALM) == 1.0


@pytest.mark.parametrize("rate", [2.0, 20.0])
def test_a_calm_day_at_random_does_not_hide_a_step(rate: float) -> None:
    """Chance teaches that leads do not last; a step to twice as much is told from it by its size."""
    state = followed(poisson(rate, DAY))
    assert part_that_persists(state, 2.0 * rate) == 1.0


def test_who_knows_short_bursts_orders_less_for_the_next_one_and_says_so() -> None:
    counts, told = [], ""
    for before in ([CALM] * STEPS, restless(3)):
        pool = Pool(capacity=1.0).configured(max_replicas=500, headroom=0.0, risk=0.5, scale_down_delay_seconds=60.0)
        pool.current = 20
        for rate in before:
            pool.step(seen(rate, 20))
        for _ in range(2):
            news = pool.step(seen(BURST, 20)).changed
            told = news.message if news is not None else told
        counts.append(pool.current)
    assert counts[0] >= BURST
    assert counts[1] <= 0.7 * BURST
    assert "60 requests/s offered" in told
    assert "expected to last as long as a start takes, judging by earlier bursts" in told


def after_a_lull(burst: float) -> Pool:
    """A pool that knows short bursts, at the moment at which it would shrink for a lull and one more burst comes."""
    pool = Pool(capacity=1.0).configured(max_replicas=500, headroom=0.0, risk=0.5, scale_down_delay_seconds=60.0)
    for rate in (*restless(3), *[BURST] * 30, *[CALM] * 7):
        pool.step(seen(rate, 20))
    pool.run(seen(burst, 20), 2 * MINUTE)
    return pool


def test_in_a_burst_that_will_not_last_no_replica_is_let_go_that_serves_it() -> None:
    """What is over before a start is nothing to order for: those that run are there for it."""
    pool = after_a_lull(0.8 * BURST)
    assert min(pool.history[-12:]) >= 0.8 * BURST
    assert reason(pool) is Reason.Steady


def test_what_a_lull_needs_less_than_its_burst_leaves_when_the_burst_is_over() -> None:
    pool = after_a_lull(0.8 * BURST)
    pool.run(seen(CALM, 20), 10 * MINUTE)
    assert pool.current <= 1.1 * CALM


def test_while_traffic_rises_no_replica_is_let_go() -> None:
    """How much comes is not known yet: the last minute lacks most of it."""
    pool = Pool(capacity=1.0).configured(max_replicas=500, headroom=0.0, risk=0.5)
    pool.run(seen(BURST, 60), 20 * MINUTE)
    before, last = pool.current, pool
    while pool.step(seen(CALM, 60)).desired == before:
        last = replace(pool)
    rising = replace(seen(CALM, 60), arrivals=10.0 * 2.0 * CALM, arrival_seconds=10.0)
    assert pool.current < 2.0 * CALM
    assert before == last.step(rising).desired
    assert reason(last) is Reason.Steady


def test_where_requests_wait_all_that_is_offered_counts() -> None:
    pool = Pool(capacity=1.0).configured(max_replicas=500, headroom=0.0, risk=0.5)
    pool.current = 20
    for rate in restless(3):
        pool.step(seen(rate, 20))
    pool.run(seen(BURST, 20, waiting=300.0), 20)
    assert pool.current >= BURST


def test_a_restless_pool_follows_what_stays_within_minutes() -> None:
    pool = Pool(capacity=1.0).configured(max_replicas=500, headroom=0.0)
    pool.current = 20
    for rate in restless(3):
        pool.step(seen(rate, 20))
    pool.run(seen(BURST, 20), 3 * MINUTE)
    assert pool.current >= BURST


def test_after_a_gap_nothing_is_known_of_what_is_usual() -> None:
    state = followed(restless(3))
    assert persists(state, state.seen + HOUR, BURST, MINUTE) == BURST


@given(less=st.floats(0.0, 1e4), more=st.floats(0.0, 1e4), lasting=st.integers(1, 20), seconds=st.floats(5.0, 300.0))
def test_more_that_is_offered_never_means_that_less_persists(
    less: float, more: float, lasting: int, seconds: float
) -> None:
    state = followed(restless(lasting, 120))
    less, more = sorted((less, more))
    kept = [persists(state, state.seen, rate, seconds) for rate in (less, more)]
    assert kept[0] <= kept[1] * (1.0 + 1e-9)
    assert all(found <= rate for found, rate in zip(kept, (less, more), strict=True))


def test_what_a_start_should_take_is_known_from_the_first_look_on() -> None:
    """The same look once more changes nothing."""
    pool = Pool()
    asked = replace(pool.request(seen(CALM, 20)), current=20, start_up=StartUp(100, 60, 20))
    first = scale_pool(asked)
    assert first.memory.forecast is not None
    assert horizon_of(first.memory.forecast) == 180.0
    again = scale_pool(replace(asked, memory=first.memory, current=first.desired))
    assert again.memory.forecast == first.memory.forecast


def test_before_anything_was_learnt_all_persists() -> None:
    assert persists(watched(None, MONDAY, None, None), MONDAY, CALM, MINUTE) == CALM


def test_what_days_do_comes_back_every_week_however_long_it_was_not_seen() -> None:
    hours = np.arange(QUARTERS_A_DAY) / 4.0
    day = tuple(np.round(np.sin(hours / 24.0 * 2.0 * np.pi), 3).tolist())
    expected = change((day, ()), MONDAY, 5.0 * HOUR)
    assert expected > 1.0
    assert change((day, ()), MONDAY, 2000.0 * 7.0 * DAY + 5.0 * HOUR) == pytest.approx(expected)
