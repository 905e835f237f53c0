"""Forecasts are of work: lengths that grow are foretold like requests that become more."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean

import pytest

from tests.scaling.cases import AUTO, Pool, seen
from tests.scaling.learning import SUBJECT
from weft.domain.calibration import Calibrated
from weft.domain.shape import Calibration
from weft.domain.workload import Role
from weft.scaling import RatioGuard, scale_split
from weft.scaling.forecasting.course import highest_of, shifted
from weft.scaling.forecasting.forecast import forecast
from weft.scaling.forecasting.risk import margin_now
from weft.scaling.forecasting.units import in_units

MINUTES = 6  # looks, ten seconds apart
SPEC = replace(AUTO, max_replicas=400, headroom=0.0)


def longer_and_longer(declared_capacity: float) -> list[int]:
    """Counts of a pool whose 20 requests/s become 2 % more work each minute, for an hour."""
    pool = Pool(SPEC, capacity=2.0, declared_rate=20.0, declared_capacity=declared_capacity)
    pool.run(seen(20.0, 20), 1800)
    for look in range(60 * MINUTES):
        pool.capacity = 2.0 * math.exp(-0.02 * look / MINUTES)
        pool.step(replace(seen(20.0, 20), startup_seconds=600.0))
    return pool.history


def test_answers_that_grow_are_ordered_ahead() -> None:
    """A start takes ten minutes, in which work grows by a fifth; a margin is smaller the dearer it gets."""
    now, ahead = longer_and_longer(0.0)[-1], longer_and_longer(2.0)[-1]
    assert now >= 10.0 * math.exp(0.02 * 60)
    assert 1.03 * now <= ahead <= 1.5 * now


@pytest.mark.parametrize("swing", [0.7, 1.5])
def test_twice_the_work_counts_as_twice_the_requests(swing: float) -> None:
    """A wave of lengths at a constant rate, and a wave of requests of constant lengths, need like counts."""
    lengths = Pool(SPEC, capacity=2.0, declared_rate=20.0, declared_capacity=2.0)
    requests = Pool(SPEC, capacity=2.0, declared_rate=20.0, declared_capacity=2.0)
    for look in range(4 * 60 * MINUTES):
        wave = math.exp(math.log(swing) * math.sin(2.0 * math.pi * look / (30 * MINUTES)))
        lengths.capacity = 2.0 / wave
        lengths.step(seen(20.0, 20))
        requests.step(seen(20.0 * wave, 20))
    pairs = list(zip(lengths.history, requests.history, strict=True))[60 * MINUTES :]
    assert fmean(abs(one - other) for one, other in pairs) <= 1.0
    assert max(abs(one - other) for one, other in pairs) <= 3


MEASURED = Calibrated(SUBJECT, Calibration(0.8, 0.8, 1, 1), 1_000_000.0)


@pytest.mark.parametrize(("declared", "calibration"), [(2.4, ()), (4.0, (MEASURED,))])
def test_the_same_requests_in_another_unit_are_no_other_load(
    declared: float, calibration: tuple[Calibrated, ...]
) -> None:
    """Replicas turn out to serve 2.4 requests/s in place of 2, and of declared lengths 2.4 or 4 in place of 4."""
    pool = Pool(SPEC, capacity=2.0, declared_rate=20.0, declared_capacity=4.0)
    pool.run(seen(20.0, 10), 170)
    pool.capacity, pool.declared_capacity, pool.calibration = 2.4, declared, calibration
    answer = pool.step(seen(20.0, 10))
    assert answer.needed == 10, "20 requests/s with the margin of a new pool, at 2.4 each"
    assert answer.memory.forecast is not None
    assert math.exp(answer.memory.forecast.level) == pytest.approx(20.0 * declared / 2.4, rel=0.01)
    pool.run(seen(20.0, 10), 1800)
    assert max(pool.history[18:]) <= max(pool.history[:18])


def test_lengths_that_change_are_still_traffic() -> None:
    pool = Pool(SPEC, capacity=2.0, declared_rate=20.0, declared_capacity=4.0)
    pool.run(seen(20.0, 10), 1800)
    pool.capacity = 1.0
    answer = pool.step(seen(20.0, 10))
    assert answer.memory.forecast is not None
    assert math.exp(answer.memory.forecast.level) == pytest.approx(40.0, rel=0.01), "not 80 before a bin has told so"
    pool.run(seen(20.0, 10), 120)
    assert pool.answer is not None
    assert pool.answer.memory.forecast is not None
    assert math.exp(pool.answer.memory.forecast.level) == pytest.approx(80.0, rel=0.1)


def test_a_forecast_is_the_same_in_any_unit() -> None:
    """With its margin, its highest rate and its course, after two hours of a wave of lengths."""
    pool = Pool(SPEC, capacity=2.0, declared_rate=20.0, declared_capacity=2.0)
    for look in range(2 * 60 * MINUTES):
        pool.capacity = 2.0 / math.exp(0.3 * math.sin(2.0 * math.pi * look / (20 * MINUTES)))
        pool.step(seen(20.0, 20))
    assert pool.answer is not None
    state = pool.answer.memory.forecast
    assert state is not None
    other = in_units(state, math.exp(1.0))
    pairs = []
    for each, work in ((state, 1.0), (other, math.exp(1.0))):
        ahead = forecast(each, each.seen)
        assert ahead is not None
        pairs.append((ahead.over(work).quantile(0.5), margin_now(0.1, each, ahead, work).on(ahead.over(work))))
    assert pairs[0] == pytest.approx(pairs[1])
    assert highest_of(other.course, 100) == pytest.approx(highest_of(state.course, 100) + 1.0)
    assert shifted("  ", 1.0) == "  ", "what nobody saw stays unseen"
    back = in_units(other, math.exp(-1.0))
    assert back.course == state.course
    assert (back.level, back.count, *back.costs) == pytest.approx((state.level, state.count, *state.costs))


def test_a_half_whose_work_swings_keeps_a_margin_that_the_other_does_not_need() -> None:
    """Prompts of one length, and answers that are up to half as long again, at a constant rate."""
    halves = [Pool(SPEC, 2.0, 20.0, role, declared_capacity=2.0) for role in (Role.Prefill, Role.Decode)]
    for look in range(6 * 60 * MINUTES):
        halves[1].capacity = 2.0 / (1.5 if look // (3 * MINUTES) % 7 in {2, 5} else 1.0)
        for half in halves:
            half.now += 10.0
        prefill, decode = (half.request(replace(seen(20.0, 20), input_tokens=1.0)) for half in halves)
        for half, answer in zip(halves, scale_split(prefill, decode, RatioGuard()), strict=True):
            half.accept(answer)
    assert max(halves[0].history[-60 * MINUTES :]) <= 12
    assert min(halves[1].history[-60 * MINUTES :]) >= 15
