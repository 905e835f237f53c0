"""What forecasts make of the count, over whole trajectories of a pool whose replicas take minutes to start."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fluid import Fluid
from tests.scaling.cases import Pool, seen
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.workload import Role
from weft.scaling import RatioGuard, scale_pool, scale_split

MINUTE, HOUR, DAY = 6, 360, 8640  # in steps of 10 s


def at_random(rate: float, steps: int, seed: int = 3) -> list[float]:
    found: list[float] = (np.random.default_rng(seed).poisson(rate * 10.0, steps) / 10.0).tolist()
    return found


def changes(counts: list[int]) -> int:
    return sum(one != other for one, other in pairwise(counts))


@pytest.mark.parametrize("quiet", [10 * MINUTE, 4 * HOUR])
def test_a_step_from_nothing_is_ordered_within_half_a_minute(quiet: int) -> None:
    """0 to 20 requests/s, starts of 110 s, one replica serves 1: in few decisions and for nearly all of the need."""
    pool = Fluid(startup_seconds=110.0).run([0.0] * quiet)
    assert pool.counts[-1] == 1
    pool.run(at_random(20.0, 3))
    assert pool.counts[-1] >= 0.95 * 20.0
    pool.run(at_random(20.0, 12))
    assert 20 <= pool.counts[-1] <= 40
    pool.run(at_random(20.0, HOUR))
    assert 20 <= pool.counts[-1] <= 26
    assert changes(pool.counts) <= 12


@pytest.mark.parametrize("rate", [20.0, 100.0])
def test_a_constant_load_does_not_change_the_count_after_an_hour(rate: float) -> None:
    """Over a day. Where requests come at random, the busiest minute of the day may add one replica, for good."""
    for series, most in (([rate] * DAY, 0), (at_random(rate, DAY), 1)):
        pool = Fluid(capacity=rate / 10.0, declared_rate=rate).run(series)
        assert changes(pool.counts[HOUR:]) <= most
        assert pool.counts[HOUR] <= pool.counts[-1] <= pool.counts[HOUR] + 1
        assert pool.attained > 0.99


@pytest.mark.parametrize(("rate", "replicas", "most"), [(3.0, 10, 1), (0.3, 5, 6)])
def test_a_small_rate_at_random_changes_the_count_next_to_never_after_an_hour(
    rate: float, replicas: int, most: int
) -> None:
    """Over half a day: 18 requests a minute are 40 in one of them."""
    for seed in (3, 4):
        pool = Fluid(capacity=rate / replicas, declared_rate=rate).run(at_random(rate, 12 * HOUR, seed))
        assert changes(pool.counts[HOUR:]) <= most
        assert np.mean(pool.counts[HOUR:]) <= 2.5 * replicas


@settings(max_examples=12, deadline=None)
@given(rate=st.floats(0.0, 200.0), capacity=st.floats(0.5, 20.0))
def test_no_constant_load_makes_a_pool_oscillate(rate: float, capacity: float) -> None:
    """Without randomness the count settles, and never goes up again once it went down."""
    pool = Fluid(capacity=capacity, declared_rate=rate).run([rate] * HOUR * 2)
    assert len(set(pool.counts[HOUR:])) == 1
    steps = [later - earlier for earlier, later in pairwise(pool.counts[5 * MINUTE :]) if later != earlier]
    assert all(step < 0 for step in steps[1:])


@settings(max_examples=40, deadline=None)
@given(less=st.floats(0, 80), more=st.floats(0, 80), past=st.lists(st.floats(0, 40), max_size=30))
def test_more_demand_never_means_fewer_replicas(less: float, more: float, past: list[float]) -> None:
    less, more = min(less, more), max(less, more)
    counts = []
    for rate in (less, more):
        pool = Fluid().run([*past, *[10.0] * 30])
        pool.run([rate] * 2)
        counts.append(pool.counts[-1])
    assert counts[0] <= counts[1]


@settings(max_examples=20, deadline=None)
@given(order=st.permutations([True] * 20 + [False] * 20))
def test_no_order_of_missing_scrapes_shrinks_a_pool_under_its_load(order: list[bool]) -> None:
    pool = Pool(declared_rate=8.0)
    pool.run(seen(8.0, 5), 600)
    before = pool.current
    for is_seen in order:
        pool.step(seen(8.0, 5) if is_seen else None, 20.0)
        assert pool.current >= before


def test_a_slow_start_is_learnt_and_a_ramp_is_ordered_further_ahead() -> None:
    """2 more requests/s each minute: who starts for five minutes has to order more than who starts for one."""
    counts = []
    for startup in (60.0, 300.0):
        pool = Pool(capacity=1.0).configured(max_replicas=400, headroom=0.0)
        pool.current = 20
        pool.run(replace(seen(20.0, 20), startup_seconds=startup), 600)
        for step in range(180):
            pool.step(replace(seen(20.0 + step / 3.0, 20), startup_seconds=startup))
        counts.append(pool.current)
    assert counts[0] + 4 <= counts[1] <= 120


def test_the_risk_that_a_user_chooses_is_what_bursts_are_bought_ahead_for() -> None:
    """Three of about twelve minutes, by no clock, bring half as much again: the fewest of the last hour, by risk."""
    fewest, begins = [], np.cumsum(np.random.default_rng(1).integers(7, 18, 20))
    busy = {int(begin) + minute for begin in begins for minute in range(3)}
    for risk in (0.02, 0.5):
        pool = Pool(capacity=1.0).configured(max_replicas=100, headroom=0.0, risk=risk)
        pool.current = 20
        for minute in range(4 * 60):
            pool.run(seen(30.0 if minute in busy else 20.0, 20), 60)
        fewest.append(min(pool.history[-60 * 6 :]))
    assert fewest[0] >= 28
    assert fewest[1] <= 24


def test_an_event_names_forecast_horizon_and_margin_and_nothing_that_is_kept_does() -> None:
    pool = Pool(capacity=1.0, declared_rate=5.0).configured(max_replicas=100)
    pool.run(seen(5.0, 5), 600)
    answers = [pool.step(seen(5.0 + step / 10.0, 5)) for step in range(60)]
    told = [answer.changed.message for answer in answers if answer.changed is not None]
    assert " forecast for the 120 s that a start takes (estimated), " in told[-1]
    assert " of it as a margin for forecast errors" in told[-1]
    assert not any(sign in answers[-1].explanation.message for sign in (".", "forecast"))


def test_an_event_leaves_out_a_forecast_that_asks_for_no_more_than_what_comes() -> None:
    pool = Pool(capacity=1.0, declared_rate=5.0).configured(max_replicas=100)
    pool.run(seen(5.0, 5), 600)
    answer = pool.step(seen(9.0, 5))
    assert answer.changed is not None
    offered = "9 requests/s offered (9 answered, 0 waiting), with 10% headroom"
    assert answer.changed.message == f"6 -> 10 replicas: {offered}; one replica serves 1 request/s"


def test_an_event_says_what_a_pool_that_shrinks_keeps_more_for() -> None:
    """As many as the window needed, or all that `maxStep` lets go at a time."""
    for step, why in (
        (None, "; as many as were needed within the last 60 s"),
        (2, "; maxStep 2 allows 2 replicas a minute"),
    ):
        pool = Pool(capacity=1.0).configured(max_replicas=100, max_step=step, scale_down_delay_seconds=60.0)
        pool.current = 30
        told = []
        for load in (20.0, 5.0):
            for _ in range(12):
                answer = pool.step(seen(load, pool.current))
                told += [] if answer.changed is None else [answer.changed.message]
        assert any(message.endswith(why) for message in told), told


def test_each_half_of_a_split_keeps_the_margin_for_its_own_work_and_both_follow_who_sees_more() -> None:
    """Only prefill sees bursts, by no clock: decode is sized for them while they last, and wants no margin after."""
    first, second = Pool(capacity=1.0, role=Role.Prefill), Pool(capacity=1.0, role=Role.Decode)
    for pool in (first, second):
        pool.configured(max_replicas=100, headroom=0.0)
        pool.current = 20
    counts, begins = [], (0, 60, 96, 171, 204, 282, 330)
    for step in range(2 * HOUR):
        burst = 40.0 if any(begin <= step < begin + 6 for begin in begins) else 20.0
        for pool in (first, second):
            pool.now += 10.0
        answers = scale_split(first.request(seen(burst, 20)), second.request(seen(20.0, 20)), RatioGuard())
        counts.append((first.accept(answers[0]).desired, second.accept(answers[1]).desired))
    assert min(decode for _, decode in counts[60:66]) >= 40
    assert counts[-1][0] > counts[-1][1] >= 20


def test_a_backlog_is_worked_off_in_the_stated_time_and_by_the_headroom_too() -> None:
    """3000 requests in 300 s beside the 20 requests/s that come: neither headroom nor a margin is bought for it."""
    pool = Pool(capacity=1.0).configured(max_replicas=100, headroom=0.2)
    pool.current = 20
    told = pool.step(seen(20.0, 20, waiting=3000.0)).changed
    assert told is not None
    assert "(20 answered, 3000 waiting, to be worked off within 300 s)" in told.message
    pool.run(seen(20.0, 20, waiting=3000.0), 300)
    assert pool.current == 20 + math.floor(3000.0 / 300.0)


def test_bounds_hold_with_a_forecast_as_without() -> None:
    pool = Fluid(spec=ScalingSpec(min_replicas=2, max_replicas=7)).run([*[0.0] * HOUR, *[500.0] * HOUR])
    assert {2, 7} <= set(pool.counts)
    assert all(2 <= count <= 7 for count in pool.counts)


@pytest.mark.parametrize(("bound", "left"), [(True, 5), (False, 1)])
def test_while_requests_wait_for_the_network_what_there_is_stays(bound: bool, left: int) -> None:  # noqa: FBT001
    """No GPU more would help, and one less would be missed once the network is well."""
    pool = Pool()
    pool.current = 5
    for _ in range(60):
        pool.now += 10.0
        pool.accept(scale_pool(replace(pool.request(seen(1.0, pool.current)), network_bound=bound)))
    assert pool.current == left
