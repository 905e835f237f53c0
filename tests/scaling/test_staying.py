"""What comes counts for as long as it stays: answers of minutes run beside those of quieter minutes before."""

from __future__ import annotations

import math

import pytest

from tests.scaling.cases import Pool, seen
from tests.scaling.test_at_front import at_front
from weft.domain.workload import Role
from weft.scaling import RatioGuard, scale_split
from weft.scaling.reading import LoadReading
from weft.scaling.staying import MOST_STAY_SECONDS, lasting, stay_seconds

USUAL, MORE = 20.0, 23.5  # requests/s; chance alone may make the one of the other in 10 s


def reading(rate: float, running: float) -> LoadReading:
    return LoadReading(rate, 0.0, running, answered=4, whole=True)


def test_short_answers_count_as_the_last_minute_had_them() -> None:
    assert lasting(20.0, 1.0, 30.0, reading(20.0, running=400.0)) == 30.0


def test_long_answers_forget_by_e_in_the_time_beyond_the_minutes_own_age() -> None:
    two_minutes = reading(30.0, running=3600.0)
    value = 20.0
    for _ in range(90):
        value = lasting(value, 1.0, 30.0, two_minutes)
    assert value == pytest.approx(30.0 - 10.0 / math.e, rel=1e-6)
    assert lasting(20.0, 90.0, 30.0, two_minutes) == pytest.approx(value, rel=1e-6)


def test_engines_that_hang_do_not_keep_a_rate_for_ever() -> None:
    hanging = reading(0.01, running=1000.0)
    assert stay_seconds(hanging, coming=0.02) == MOST_STAY_SECONDS
    assert lasting(1.0, 600.0, 30.0, hanging) > 25.0


def test_answers_that_lag_behind_a_ramp_make_no_stay_longer() -> None:
    """From nothing to 20/s: 1,200 are inside after a minute, and few of them were answered."""
    assert stay_seconds(reading(1.0, running=1200.0), coming=20.0) == 60.0


@pytest.mark.parametrize("broken", [1e12, 1e308, math.inf])
def test_a_figure_that_was_no_number_of_requests_is_forgotten_in_minutes(broken: float) -> None:
    pool = steady(120.0 * USUAL, 200)
    pool.run(at_front(seen(USUAL, 200, running=120.0 * USUAL), broken), 60)
    answer = pool.run(at_front(seen(USUAL, 200, running=120.0 * USUAL), USUAL), 1800)
    assert answer.memory.lasting == pytest.approx(USUAL, rel=0.2)
    assert answer.memory.forecast is not None
    assert math.isfinite(answer.memory.forecast.level)


def test_replicas_that_are_exchanged_are_no_reason_to_shrink() -> None:
    """Without a front, what those that leave still answer is seen nowhere."""
    pool = Pool(capacity=20.0).configured(max_replicas=40, headroom=0.0, risk=0.5, scale_down_delay_seconds=60.0)
    pool.current = 20
    pool.run(seen(400.0, 20, running=48_000.0), 600)
    before = pool.current
    for index in range(12):
        pool.run(seen(330.0, 20 + index % 2, running=40_000.0), 50)
    pool.run(seen(400.0, 20, running=48_000.0), 120)
    assert min(pool.history[-72:]) >= before


def test_the_busiest_look_is_forgotten_while_replicas_are_added() -> None:
    """Without a front; a pool that grows for minutes would end with what its noisiest look asked for."""
    pool = Pool(capacity=20.0).configured(max_replicas=40, headroom=0.0, risk=0.5)
    pool.current = 10
    pool.run(seen(180.0, 10, running=180.0), 300)
    pool.run(seen(240.0, 11, running=240.0), 5)
    for replicas in range(12, 15):
        pool.run(seen(180.0, replicas, running=180.0), 50)
    answer = pool.run(seen(180.0, 15, running=180.0), 50)
    assert answer.memory.lasting == pytest.approx(180.0, rel=0.1)


def steady(running: float, replicas: int) -> Pool:
    pool = Pool(capacity=0.1).configured(max_replicas=400, headroom=0.0, risk=0.5)
    pool.current = replicas
    pool.run(at_front(seen(USUAL, replicas, running=running), USUAL), 900)
    return pool


def test_a_minute_of_more_counts_by_how_long_requests_stay() -> None:
    """A sixth more for a minute: answers of a second meet all of it, of two minutes a part."""

    def more_for_a_minute(running: float) -> int:
        pool = steady(running, 200)
        before = pool.current
        pool.run(at_front(seen(USUAL, 200, running=running), MORE), 60)
        return max(pool.history[-6:]) - before

    brief, long = more_for_a_minute(USUAL), more_for_a_minute(120.0 * USUAL)
    assert brief >= 25
    assert 0 < long <= brief / 2


def test_more_that_stays_more_counts_in_full_all_the_same() -> None:
    pool = steady(120.0 * USUAL, 200)
    pool.run(at_front(seen(MORE, 200, running=120.0 * MORE), MORE), 600)
    assert pool.current >= 10 * MORE - 1


def test_a_backlog_makes_no_answers_long() -> None:
    """Engines that are full answer slowly: what comes counts as it comes."""

    def with_waiting(waiting: float) -> int:
        pool = steady(120.0 * USUAL, 200)
        pool.run(at_front(seen(USUAL, 200, waiting=waiting, running=120.0 * USUAL), MORE), 60)
        return max(pool.history[-6:])

    assert with_waiting(201.0) > with_waiting(0.0) + 10


def test_each_half_of_a_split_averages_over_its_own_stay() -> None:
    """Prompts are computed in a second, answers take two minutes."""
    prefill, decode = (Pool(capacity=0.1, role=role) for role in (Role.Prefill, Role.Decode))
    for pool, running in ((prefill, USUAL), (decode, 120.0 * USUAL)):
        pool.configured(max_replicas=400, headroom=0.0, risk=0.5).current = 200
        pool.now += running
    decode.now = prefill.now
    for rate, seconds in ((USUAL, 900), (MORE, 60)):
        for _ in range(seconds // 10):
            halves = []
            for pool, running in ((prefill, USUAL), (decode, 120.0 * USUAL)):
                pool.now += 10.0
                halves.append(pool.request(at_front(seen(USUAL, 200, running=running), rate)))
            answers = scale_split(halves[0], halves[1], RatioGuard())
            prefill.accept(answers[0])
            decode.accept(answers[1])
    assert prefill.current - 200 >= 25
    assert decode.current - 200 <= (prefill.current - 200) / 2


def test_the_other_half_is_believed_where_no_front_counts() -> None:
    """Decode answers slowly what prefill took in already."""
    prefill, decode = (
        Pool(capacity=1.0, role=role).configured(max_replicas=40) for role in (Role.Prefill, Role.Decode)
    )
    prefill.current = decode.current = 2
    fast, slow = seen(USUAL, 2, running=2.0), seen(2.0, 2, running=300.0)
    answers = scale_split(prefill.request(fast), decode.request(slow), RatioGuard())
    assert answers[1].desired >= USUAL
    fronted = scale_split(prefill.request(at_front(fast, 2.0)), decode.request(at_front(slow, 2.0)), RatioGuard())
    assert fronted[1].desired < answers[1].desired
    assert fronted[1].memory.lasting == pytest.approx(2.0, rel=0.5)
