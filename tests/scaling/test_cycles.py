"""Waves and pulses that come back every few minutes are foretold by that, and nothing else is taken for them."""

from __future__ import annotations

import base64
import math
import struct
from dataclasses import replace
from time import process_time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.fluid import STEP_SECONDS, Fluid
from tests.scaling.test_forecast import HOUR, MONDAY, followed
from weft.api.status_fields import LONGEST_FORECAST
from weft.domain.forecast import Pending
from weft.domain.start_up import MeasuredStart
from weft.scaling.forecasting.course import COURSE_BINS, LONGEST_BINS, SHORTEST_BINS, with_bin
from weft.scaling.forecasting.cycles import in_cycle, period_of
from weft.scaling.forecasting.forecast import BIN_SECONDS, Forecast, forecast
from weft.scaling.forecasting.keeping import is_worth_a_write, kept_now
from weft.scaling.forecasting.learning import HELD_BINS, watched
from weft.scaling.forecasting.packing import packed, unpacked
from weft.scaling.forecasting.risk import margin_now, with_cost, without_costs

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from weft.domain.forecast import ForecastState
    from weft.domain.snapshot import PoolObservation

    Rates = NDArray[np.float64]

AHEAD = 5  # bins, of a start of two minutes


def moments(hours: float) -> Rates:
    """The middle of each step."""
    found: Rates = np.arange(0.5, round(hours * HOUR / STEP_SECONDS), dtype=np.float64) * STEP_SECONDS
    return found


def waves(minutes: float, hours: float, mean: float = 20.0) -> Rates:
    found: Rates = mean * (1.0 + 0.6 * np.sin(2.0 * math.pi * moments(hours) / (60.0 * minutes)))
    return found


def pulses(lasting: float, minutes: float, hours: float, mean: float = 10.0) -> Rates:
    found: Rates = np.where(moments(hours) % (60.0 * minutes) < 60.0 * lasting, 4.0 * mean, mean)
    return found


def came(rates: Rates, seed: int = 1) -> list[float]:
    """Rates of steps in which requests came by chance."""
    found: list[float] = (np.random.default_rng(seed).poisson(rates * STEP_SECONDS) / STEP_SECONDS).tolist()
    return found


def learnt(rates: Rates, seed: int = 1, state: ForecastState | None = None) -> ForecastState:
    return followed(came(rates, seed), start=MONDAY if state is None else state.seen, state=state)


def foretold(state: ForecastState) -> Forecast:
    found = forecast(state, state.seen)
    assert found is not None
    return found


CYCLES = [
    (waves(20.0, 4.0), 20.0),
    (waves(20.0, 4.0, mean=2.0), 20.0),
    (waves(45.0, 5.0), 45.0),
    (waves(17.3, 4.0), 17.3),
    (pulses(1.0, 10.0, 4.0), 10.0),
    (pulses(1.0, 7.3, 4.0, mean=2.0), 7.3),
    (pulses(3.0, 15.0, 4.0), 15.0),
    (waves(20.0, 4.0) * np.linspace(0.5, 2.0, len(moments(4.0))), 20.0),
]


@pytest.mark.parametrize(("rates", "minutes"), CYCLES)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_cycle_is_found_in_chance_and_in_growth(rates: Rates, minutes: float, seed: int) -> None:
    state = learnt(rates, seed)
    assert state.period * BIN_SECONDS == pytest.approx(60.0 * minutes, rel=0.02)
    assert foretold(state).cycle_seconds == state.period * BIN_SECONDS


def at_random(random: np.random.Generator) -> Rates:
    """Minutes of four times the rate, ten minutes apart on average."""
    starts = np.cumsum(random.exponential(600.0, 400))
    is_in = (moments(24.0)[:, None] >= starts) & (moments(24.0)[:, None] < starts + 60.0)
    return np.where(is_in.any(axis=1), 40.0, 10.0)


def wandering(random: np.random.Generator) -> Rates:
    found: Rates = 20.0 * np.exp(np.cumsum(random.normal(0.0, 0.02, len(moments(24.0)))))
    return found


NO_CYCLES: dict[str, Callable[[np.random.Generator], Rates]] = {
    "chance": lambda _: np.full(len(moments(24.0)), 20.0),
    "chance of few": lambda _: np.full(len(moments(24.0)), 0.2),
    "a step": lambda _: np.where(moments(24.0) < 8.0 * HOUR, 5.0, 40.0),
    "a ramp": lambda _: np.linspace(1.0, 40.0, len(moments(24.0))),
    "a day": lambda _: 20.0 * (1.0 - 0.8 * np.cos(2.0 * math.pi * moments(24.0) / (24.0 * HOUR))),
    "one burst": lambda _: np.where(np.abs(moments(24.0) - 8.0 * HOUR) < 300.0, 80.0, 10.0),
    "bursts at random": at_random,
    "a random walk": wandering,
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NO_CYCLES)
def test_nothing_else_is_taken_for_a_cycle(name: str, seed: int) -> None:
    """In a day of bins, whenever it is looked for."""
    rates = np.array(came(NO_CYCLES[name](np.random.default_rng(seed)), seed)).reshape(-1, 3).mean(axis=1)
    course = ""
    for index, rate in enumerate(rates.tolist()):
        course = with_bin(course, math.log(rate + 0.5 / BIN_SECONDS), 0)
        assert index % 7 or period_of(course) == 0.0


def test_chance_in_a_few_bins_is_no_cycle() -> None:
    """However short a course is."""
    for seed in range(100):
        course = ""
        for count in np.random.default_rng(seed).poisson(60.0, 120).tolist():
            course = with_bin(course, math.log(count / BIN_SECONDS), 0)
            period = period_of(course)
            assert not period or in_cycle(course, period, AHEAD) is None


class BehindAFront(Fluid):
    """A fluid whose requests are counted before any replica answers them."""

    def observation(self) -> PoolObservation | None:
        """As metrics show it."""
        found = super().observation()
        return None if found is None else replace(found, arrivals_at_front=True)


def short_of(pool: Fluid, rates: list[float]) -> tuple[float, float]:
    """The part of requests beyond what replicas that are ready serve, and the mean count."""
    short, held = 0.0, pool.replica_seconds
    for rate in rates:
        pool.step(rate)
        short += max(0.0, rate - pool.ready * pool.capacity)
    return short / sum(rates), (pool.replica_seconds - held) / len(rates) / STEP_SECONDS


@pytest.mark.parametrize(
    ("rates", "short", "replicas"),
    [(waves(20.0, 6.0), 0.003, 34.0), (pulses(3.0, 15.0, 6.0), 0.003, 40.0)],
    ids=["waves", "pulses"],
)
def test_what_comes_back_is_there_in_time_and_gone_after_it(rates: Rates, short: float, replicas: float) -> None:
    """Without it 1.6 % of requests exceed capacity in these waves for 35 replicas, and 0.8 % in these pulses for 47."""
    steps = came(rates)
    pool = BehindAFront(declared_rate=20.0).run(steps[: len(steps) // 2])
    found = short_of(pool, steps[len(steps) // 2 :])
    assert found[0] < short
    assert found[1] < replicas


def test_a_cycle_that_breaks_is_given_up_at_once() -> None:
    """When more comes than it foretells, in the first bin of that; and when a pulse stays away, after its two bins."""
    state = learnt(pulses(1.0, 10.0, 4.0 + 5.0 / 60.0))  # up to halfway between two pulses
    assert foretold(state).cycle_seconds > 0.0
    burst = followed([40.0] * 3, start=state.seen, state=state)
    assert foretold(burst).cycle_seconds == 0.0
    silent = learnt(pulses(1.0, 10.0, 4.0))
    assert foretold(silent).cycle_seconds > 0.0
    silent = learnt(np.full(6, 10.0), state=silent)
    assert foretold(silent).cycle_seconds == 0.0


def test_what_stays_after_a_wave_is_no_wave() -> None:
    state = learnt(waves(20.0, 4.0))
    for _ in range(6):
        state = learnt(np.full(120, 20.0), state=state)
        assert foretold(state).cycle_seconds == 0.0


def test_a_wave_is_foretold_at_its_next_highest_within_a_start() -> None:
    """Two minutes before its lowest, and two before its highest."""
    for minutes, least, most in ((13.0, 8.0, 13.0), (3.0, 31.0, 34.0)):
        state = learnt(waves(20.0, 4.0 + minutes / 60.0))
        assert least < math.exp(foretold(state).level) < most


def test_what_is_let_go_is_not_ordered_again_within_a_start() -> None:
    """Between pulses of a minute in eight there is time to start, and to let go, but none to be without."""
    steps = came(pulses(1.0, 8.0, 5.0))
    pool = BehindAFront(declared_rate=20.0).run(steps)
    assert min(pool.counts[-720:]) > 40


def test_never_fewer_than_what_is_offered_now_needs() -> None:
    """Half as much again as the lowest of a wave brings is followed, whatever the wave foretells."""
    steps = came(waves(20.0, 4.0 + 13.0 / 60.0))
    pool = BehindAFront(declared_rate=20.0).run(steps)
    for _ in range(12):
        pool.step(40.0)
    assert pool.counts[-1] >= 40


def test_an_event_names_the_cycle() -> None:
    pool = BehindAFront(declared_rate=20.0)
    told = []
    for rate in came(waves(20.0, 4.5)):
        pool.step(rate)
        if pool.answer is not None and pool.answer.changed is not None:
            told.append(pool.answer.changed.message)
    assert any(", as every 20 min before, " in each for each in told[-10:])
    assert not any("before, " in each for each in told[:10])


def bought(rates: Rates, risk: float = 0.1) -> tuple[float, float, float]:
    """In cycles of the later half: the part of requests in bins that exceed what is bought a start earlier, and most.

    The last two are the highest rates that are bought, and that came.
    """
    bins = np.array(came(rates)).reshape(-1, 3).mean(axis=1).tolist()
    state, ordered = watched(None, MONDAY, None, None), []
    for rate in bins:
        before, state = state, watched(state, state.seen + BIN_SECONDS, rate, None)
        state, ahead = with_cost(before, state, 1.0), foretold(state)
        ordered.append(margin_now(risk, state, ahead, 1.0).on(ahead) if ahead.cycle_seconds else None)
    pairs = list(zip(ordered[len(bins) // 2 : -AHEAD], bins[len(bins) // 2 + AHEAD :], strict=True))
    known = [(order, rate) for order, rate in pairs if order is not None]
    assert len(known) > len(pairs) / 4
    exceeding, total = sum(rate for order, rate in known if rate > order), sum(rate for _, rate in known)
    return exceeding / total, max(order for order, _ in known), max(bins)


def at_times(rates: Rates, seconds: float, spread: float, seed: int = 1) -> Rates:
    """The rates, times another factor after so many seconds."""
    steps = round(seconds / STEP_SECONDS)
    factors = np.exp(np.random.default_rng(seed).normal(0.0, spread, len(rates) // steps + 1))
    found: Rates = rates * np.repeat(factors, steps)[: len(rates)]
    return found


@pytest.mark.parametrize("rates", [pulses(3.0, 15.0, 8.0), waves(20.0, 8.0)], ids=["pulses", "waves"])
def test_no_more_requests_exceed_a_cycle_than_its_user_accepts(rates: Rates) -> None:
    """However wide it scatters: margins are not bought as if they cost more than usual, which let a third exceed it."""
    assert bought(at_times(rates, 120.0, 0.3))[0] < 0.1


def test_no_margin_on_a_cycle_reaches_far_beyond_the_most_that_came() -> None:
    """Where every fifth pulse stays away, errors are as large as pulses, and none is larger than any before."""
    is_away = moments(8.0) // 600.0 % 5 == 4
    _, most, came_at_most = bought(np.where(is_away, 2.0, pulses(1.5, 10.0, 8.0, mean=5.0)))
    assert most < 1.5 * came_at_most


def test_a_gap_of_minutes_is_bridged_and_one_of_most_of_a_period_is_not() -> None:
    for minutes, held in ((5.0, True), (15.0, False)):
        state = learnt(waves(20.0, 4.0))
        state = watched(state, state.seen + 60.0 * minutes, 20.0, None)
        after = waves(20.0, 5.0)[len(moments(4.0 + minutes / 60.0)) :][:24]
        state = followed(came(after), start=state.seen, state=state)
        assert (foretold(state).cycle_seconds > 0.0) == held


def test_a_gap_costs_no_cycle_when_it_reaches_the_begin_of_what_is_remembered() -> None:
    """Hours later the bins before it are gone, and what nobody saw is no step from nothing."""
    rates = waves(20.0, 8.0).reshape(-1, 3).mean(axis=1)
    course = ""
    for index, rate in enumerate(rates.tolist()):
        if not 200 <= index < 240:
            course = with_bin(course, math.log(rate), 40 if index == 240 else 0)
        assert index < COURSE_BINS or period_of(course) == pytest.approx(40.0, rel=0.02)


@pytest.mark.parametrize("startup", [60.0, 300.0, 900.0])
@pytest.mark.parametrize("minutes", [7.3, 10.0, 20.0, 45.0])
def test_a_cycle_outlives_the_process(minutes: float, startup: float) -> None:
    """Also where a start takes longer than a period, and cycles that are further back foretell."""
    state = replace(learnt(waves(minutes, 5.0)), startup_seconds=startup)
    again = unpacked(packed(state))
    assert again is not None
    assert again.period == state.period
    assert foretold(again).cycle_seconds == foretold(state).cycle_seconds > 0.0
    assert foretold(again).level == pytest.approx(foretold(state).level, abs=0.1 if minutes > 40.0 else 1e-9)
    assert packed(again) == packed(state)


def test_that_traffic_repeats_itself_is_worth_a_write() -> None:
    state = learnt(waves(20.0, 5.0))
    kept = kept_now(replace(state, course="", period=0.0), state.seen)
    assert is_worth_a_write(kept, state, state.seen + 900.0)
    assert not is_worth_a_write(kept_now(state, state.seen), state, state.seen + 900.0)


@pytest.mark.parametrize("period", [8.0, 67.0, 67.125, float(LONGEST_BINS)])
def test_the_most_that_is_ever_known_fits_into_a_status(period: float) -> None:
    """All starts, and a forecast for each bin of the longest hold and start that still has one of its own."""
    starts = tuple(MeasuredStart(replica, (9, 9, 9, 9, 9)) for replica in range(10))
    state = learnt(waves(20.0, 5.0))
    pending = tuple(Pending(state.bin + each, 3.0, 1.0, 0.0, 0.0) for each in range(1 - HELD_BINS, 13))
    text = packed(replace(state, starts=starts, pending=pending, period=period, course="I" * COURSE_BINS))
    assert len(text) <= LONGEST_FORECAST
    assert unpacked(text) is not None


@given(st.floats(width=32), st.integers(0, 2**16 - 1))
def test_a_cycle_of_anybody_is_one_that_can_be_or_as_if_nothing_was_known(period: float, count: int) -> None:
    text = packed(learnt(waves(20.0, 3.0)))
    content = struct.pack("<fH", period, count) + base64.b64decode(text[2:])[6:]
    found = unpacked(text[:2] + base64.b64encode(content).decode())
    assert found is None or SHORTEST_BINS <= found.period <= LONGEST_BINS


@given(st.text(max_size=COURSE_BINS), st.floats(0.0, 300.0), st.integers(1, 121))
def test_no_course_breaks_a_forecast(course: str, period: float, ahead: int) -> None:
    assert 0.0 <= period_of(course) <= LONGEST_BINS
    found = in_cycle(course, period, ahead)
    assert found is None or all(math.isfinite(each.level + each.scatter) for each in (found.ahead, found.again))


@pytest.mark.parametrize(
    "forget", [lambda state: watched(state, state.seen - 600.0, 20.0, None), without_costs], ids=["clock", "unit"]
)
def test_a_clock_that_is_set_back_or_another_unit_of_work_ends_it(
    forget: Callable[[ForecastState], ForecastState],
) -> None:
    state = forget(learnt(waves(20.0, 4.0)))
    assert (state.course, state.period) == ("", 0.0)


def test_a_clock_that_lags_by_a_moment_ends_no_cycle() -> None:
    """As that of the next leader's machine may."""
    state = learnt(waves(20.0, 4.0))
    lagging = watched(state, state.seen - 2.0, 20.0, None)
    assert (lagging.course, lagging.period) == (state.course, state.period)
    after = waves(20.0, 4.5)[len(moments(4.0)) :]
    assert foretold(learnt(after, state=lagging)).cycle_seconds == pytest.approx(1200.0, rel=0.02)


def test_it_takes_less_than_5_ms_of_processor_time() -> None:
    """To look for a period in a full course, and to foretell by it."""
    state = learnt(waves(20.0, 5.0))
    begun = process_time()
    for ahead in range(1, 101):
        period_of(state.course)
        in_cycle(state.course, state.period + ahead / 1e6, 1 + ahead % 8)
    assert (process_time() - begun) / 100 < 0.005
