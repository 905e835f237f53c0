"""Means of lengths over as many requests as it takes to know them."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scaling.cases import seen
from weft.domain.pool_memory import LoadSample
from weft.domain.workload import Workload
from weft.perf.lengths import lengths
from weft.scaling import lengths_after, live_workload
from weft.scaling.traffic.lengths_seen import MOST_SECONDS, Mean, apart, over_enough

if TYPE_CHECKING:
    from weft.domain.pool_memory import LengthSample
    from weft.domain.snapshot import PoolObservation

LONG_TAILED = Workload(8.0, input_tokens=2000, output_tokens=200, input_tokens_p95=7000, output_tokens_p95=600)


def look(inputs: float | None, rate: float, p95: float | None = None) -> PoolObservation:
    return replace(seen(rate, 1), input_tokens=inputs, input_tokens_p95=p95, output_tokens=200.0)


def minutes(*means: float | None, rate: float = 8.0) -> tuple[LengthSample, ...]:
    """What is remembered after a look every 20 s; each minute's mean is a look's."""
    known: tuple[LengthSample, ...] = ()
    for index in range(3 * len(means)):
        known = lengths_after(known, look(means[index // 3], rate), 20.0 * index)
    return known


def test_samples_are_a_minute_apart_and_go_after_ten() -> None:
    known = minutes(*range(1000, 1020))
    assert known[-1].at - known[0].at <= MOST_SECONDS
    assert len(known) < 15
    times = [each.at for each in apart(known)]
    assert times[0] == known[-1].at
    assert all(later - earlier >= 60.0 for later, earlier in pairwise(times))


def counted(ended: float, waiting: float = 0.0) -> PoolObservation:
    """Long prompts with short answers end at this rate, of 16 requests/s that come."""
    found = replace(look(6600.0, ended), output_tokens=56.0, waiting=waiting)
    return replace(found, arrivals=80.0, arrival_seconds=5.0)


def test_the_first_answers_to_end_are_no_sign_of_what_comes() -> None:
    """A pool of long prompts and of long answers saw the former alone at first, and ordered 200 replicas for 40."""
    assert lengths_after((), counted(ended=9.0), 30.0) == ()
    assert live_workload(LONG_TAILED, counted(ended=9.0), None) is LONG_TAILED
    known = lengths_after((), counted(ended=15.0), 80.0)
    assert [6600.0] == [each.inputs for each in known]
    assert len(lengths_after(known, counted(ended=9.0), 140.0)) == 2


def loads(begin: float, end: float) -> tuple[LoadSample, ...]:
    """Requests inside, over the last minute."""
    return LoadSample(20.0, 0.0, begin, 1), LoadSample(80.0, 0.0, end, 1)


def test_those_that_end_tell_lengths_once_no_others_are_on_their_way() -> None:
    """A front counts what engines refuse, too: a gap that lasts while nothing piles up is no sign of long answers."""
    assert lengths_after((), counted(ended=9.0), 80.0, loads(100.0, 400.0)) == ()
    assert lengths_after((), counted(ended=9.0), 50.0, loads(100.0, 100.0)[:1]) == ()
    assert len(lengths_after((), counted(ended=9.0), 80.0, loads(100.0, 110.0))) == 1


def test_those_that_end_tell_lengths_where_requests_wait() -> None:
    """A saturated pool ends fewer than come for as long as it lasts, which wrong lengths may be the reason for."""
    assert len(lengths_after((), counted(ended=9.0, waiting=5.0), 30.0)) == 1


def left_over(ended: float = 0.35, came: float = 0.0, waiting: float = 0.0) -> PoolObservation:
    """Long answers end at this rate, after a front that counted so many requests in a quarter of a minute."""
    found = replace(look(800.0, ended), output_tokens=7200.0, waiting=waiting)
    return replace(found, arrivals=came, arrival_seconds=15.0)


def test_the_last_answers_to_end_are_no_sign_of_what_comes() -> None:
    """Traffic stopped, long answers were left over, and a pool of 11 replicas grew to 32 for them."""
    known = minutes(800.0, 800.0, rate=20.0)
    assert lengths_after(known, left_over(), 180.0, loads(150.0, 30.0)) == known
    assert lengths_after(known, left_over(ended=0.15), 180.0, loads(18.0, 9.0)) == known, "to the last few"
    in_force = live_workload(LONG_TAILED, look(800.0, 20.0), None, known)
    assert live_workload(LONG_TAILED, left_over(), in_force, known) == in_force


def test_lengths_that_stay_are_told_by_the_last_answers_too() -> None:
    """Between bursts of equal lengths as many samples are known as of steady traffic."""
    known = minutes(800.0, 800.0, rate=20.0)
    found = replace(left_over(), output_tokens=220.0)
    assert lengths_after(known, found, 180.0, loads(150.0, 30.0))[-1].outputs == 220.0


def test_after_a_restart_those_that_are_left_over_tell_no_lengths_either() -> None:
    assert lengths_after((), left_over(), 180.0) == ()
    assert live_workload(LONG_TAILED, left_over(), None) is LONG_TAILED
    assert lengths_after((), left_over(), 180.0, loads(150.0, 30.0)) == ()


@pytest.mark.parametrize(
    ("found", "inside"),
    [
        (left_over(ended=20.0, came=290.0), loads(150.0, 300.0)),  # lengths rise at a rate that stays
        (left_over(ended=12.0, came=300.0), loads(150.0, 400.0)),  # or at one that rises
        (left_over(ended=20.0, came=150.0), loads(150.0, 160.0)),  # or fast enough that no fewer are inside
        (left_over(ended=20.0, came=0.0, waiting=5.0), loads(300.0, 150.0)),  # some wait
        (left_over(ended=20.0, came=30.0), loads(150.0, 145.0)),  # a front sees a tenth of the traffic
    ],
)
def test_longer_answers_tell_lengths_wherever_traffic_does_not_stop(
    found: PoolObservation, inside: tuple[LoadSample, ...]
) -> None:
    known = minutes(800.0, 800.0, rate=20.0)
    assert lengths_after(known, found, 180.0, inside)[-1].outputs == 7200.0


def test_a_queue_that_was_worked_off_is_no_stop() -> None:
    """Of 400 inside 300 waited: those that ran are as many as before."""
    inside = LoadSample(20.0, 300.0, 400.0, 1), LoadSample(80.0, 0.0, 100.0, 1)
    known = minutes(800.0, 800.0, rate=20.0)
    assert lengths_after(known, left_over(ended=20.0, came=150.0), 180.0, inside)[-1].outputs == 7200.0


def test_looks_that_tell_nothing_are_not_remembered() -> None:
    known = minutes(1000)
    assert lengths_after(known, None, 100.0) == known
    assert lengths_after(known, look(1000.0, 0.01), 100.0) == known


@pytest.mark.parametrize(
    ("rate", "taken"),
    [
        (1000.0, 2400.0),  # a minute of a busy pool stands for itself
        (8.0, 2100.0),  # one of 480 requests with long tails does not
    ],
)
def test_a_mean_goes_back_as_far_as_it_has_to(rate: float, taken: float) -> None:
    samples = [(60.0 * rate, tokens) for tokens in (2400.0, 2100.0, 1800.0)]
    found = over_enough(samples, lengths(2000.0, 7000.0))
    assert found is not None
    assert found.tokens == pytest.approx(taken)


def test_what_was_before_a_jump_is_left_out() -> None:
    """Prompts of three times the length are no chance: the last minute stands for itself, however few it had."""
    found = over_enough([(480.0, 6000.0), (480.0, 2000.0), (480.0, 2000.0)], lengths(2000.0, 7000.0))
    assert found is not None
    assert (found.tokens, found.requests) == (6000.0, 480.0)


def test_minutes_that_differ_more_than_strangers_would_are_averaged_for_longer() -> None:
    """Prompts that come in families: each minute of a busy pool is a third off, and none of it lasts."""
    samples = [(2000.0, 2000.0 * factor) for factor in (1.5, 0.7, 1.4, 0.8, 1.3, 0.7, 1.0, 0.6)]
    strangers = over_enough(samples[:2], lengths(2000.0, 4000.0))
    found = over_enough(samples, lengths(2000.0, 4000.0))
    assert strangers is not None
    assert found is not None
    assert strangers.tokens == 3000.0
    assert found.tokens == pytest.approx(2000.0)
    assert found.error > 2.0 * Mean(2000.0, found.requests, strangers.scatter).error, "and known less well for it"


def test_a_ramp_is_no_scatter() -> None:
    """Prompts that grow by a seventh every minute: the last minute stands for itself."""
    ramp = [(2000.0, 2000.0 * 1.15**-ago) for ago in range(8)]
    found = over_enough(ramp, lengths(2000.0, 4000.0))
    assert found is not None
    assert found.tokens == 2000.0


def test_one_jump_among_even_minutes_is_still_no_chance() -> None:
    samples = [(480.0, 6000.0), *((480.0, 2000.0 + tokens) for tokens in (0.0, 50.0, 10.0, 80.0, 20.0, 60.0))]
    found = over_enough(samples, lengths(2000.0, 7000.0))
    assert found is not None
    assert found.tokens == 6000.0


def test_without_a_mean_in_the_last_minute_nothing_is_said() -> None:
    usual = lengths(2000.0, 7000.0)
    assert over_enough([(480.0, None), (480.0, 2000.0)], usual) is None
    found = over_enough([(480.0, 2000.0), (480.0, None), (480.0, 2200.0)], usual)
    assert found is not None
    assert found.tokens == pytest.approx(2100.0)


def test_long_tails_move_a_small_pool_less_than_its_minutes_do() -> None:
    """An hour of log-normal prompts that never change: what is in force varies by less than a quarter."""
    random, usual = Random(7), lengths(2000.0, 7000.0)
    known: tuple[LengthSample, ...] = ()
    in_force, minute_means, forces = LONG_TAILED, [], []
    for minute in range(60):
        mean = fmean(usual.median * random.lognormvariate(0.0, usual.deviation) for _ in range(120))
        observation = look(mean, 2.0)
        known = lengths_after(known, observation, 60.0 * minute)
        in_force = live_workload(LONG_TAILED, observation, in_force, known)
        minute_means.append(mean)
        forces.append(in_force.input_tokens)
    assert max(minute_means) / min(minute_means) > 1.4
    assert max(forces[10:]) / min(forces[10:]) < 1.25


def taken_over(true: float, minutes: int, rate: float, in_force: Workload, seed: int = 3) -> list[float]:
    """The means in force of prompts whose mean is `true`, with a look every 20 s at what ended in the last minute."""
    random, usual = Random(seed), lengths(2000.0, 4000.0)
    error = math.sqrt(math.expm1(usual.deviation**2) / (20.0 * rate))
    thirds = [true * (1.0 + random.gauss(0.0, error)) for _ in range(3 * minutes + 2)]
    known: tuple[LengthSample, ...] = ()
    forces = []
    for index in range(3 * minutes):
        observation = look(fmean(thirds[index : index + 3]), rate)
        known = lengths_after(known, observation, 20.0 * index)
        in_force = live_workload(in_force, observation, in_force, known)
        forces.append(in_force.input_tokens)
    return forces


MIDDLING = Workload(8.0, input_tokens=2400, output_tokens=200, input_tokens_p95=4800, output_tokens_p95=600)


@pytest.mark.parametrize("true", [2350.0, 2380.0, 2400.0, 2420.0, 2450.0])
def test_chance_moves_no_mean_all_day(true: float) -> None:
    """8 requests/s of lengths that stay: each minute is 2 % off, and twice an hour more than two standard errors."""
    forces = taken_over(true, 24 * 60, 8.0, MIDDLING)
    assert sum(before != after for before, after in pairwise(forces[180:])) <= 1


def test_a_mean_that_stays_a_little_higher_is_followed_within_minutes() -> None:
    assert taken_over(2400.0 * 1.08, 10, 8.0, MIDDLING)[-1] == pytest.approx(2400.0 * 1.08, rel=0.03)
    assert taken_over(2400.0 * 1.15, 2, 8.0, MIDDLING)[-1] == pytest.approx(2400.0 * 1.15, rel=0.06), "this at once"


def long_ones(times: float, rate: float, looks: int = 30, mean: float = 2000.0) -> float:
    """How many times the mean the 95th percentile in force is, after as many looks with such prompts, 20 s apart."""
    known: tuple[LengthSample, ...] = ()
    in_force = LONG_TAILED
    for index in range(looks):
        observation = look(mean, rate, times * mean)
        known = lengths_after(known, observation, 20.0 * index)
        in_force = live_workload(LONG_TAILED, observation, in_force, known)
    return in_force.input_tokens_p95 / in_force.input_tokens


@pytest.mark.parametrize("times", [1.0, 1.4, 2.0, 2.6])
def test_how_long_the_longest_are_is_measured(times: float) -> None:
    """3.5 times the mean is declared; of a busy pool it is known after ten minutes."""
    assert long_ones(times, rate=20.0) == pytest.approx(times, rel=0.026)


def test_how_long_the_longest_are_moves_by_more_than_chance_explains() -> None:
    assert long_ones(3.0, rate=0.5) == pytest.approx(3.5), "300 prompts: it is known to a quarter"
    assert long_ones(3.0, rate=20.0) < 3.1
    assert long_ones(1.4, rate=0.5) < 1.5, "and so far away is no chance"


def test_a_minute_of_few_requests_tells_nothing_of_the_longest() -> None:
    assert long_ones(1.0, rate=0.3) == pytest.approx(3.5)


def test_where_nobody_tells_the_longest_keep_their_distance_from_the_mean() -> None:
    observation = look(4000.0, 20.0)
    in_force = live_workload(LONG_TAILED, observation, None, lengths_after((), observation, 0.0))
    assert (in_force.input_tokens, in_force.input_tokens_p95) == (4000.0, 14000.0)


def test_a_95th_percentile_below_the_mean_is_no_sign_of_lengths_that_are_all_alike() -> None:
    """One prompt in thirty is a hundred times as long as the others: what was declared stays."""
    assert long_ones(0.4, rate=20.0) == pytest.approx(3.5)


def test_within_a_minute_nothing_new_is_known_of_the_longest() -> None:
    known = lengths_after((), look(2000.0, 20.0, 7000.0), 0.0)
    in_force = live_workload(LONG_TAILED, look(2000.0, 20.0, 7000.0), LONG_TAILED, known)
    for seconds in (80.0, 100.0, 120.0):
        observation = look(2000.0, 20.0, 2400.0 if seconds > 80.0 else 7000.0)
        known = lengths_after(known, observation, seconds)
        in_force = live_workload(LONG_TAILED, observation, in_force, known)
    assert in_force == LONG_TAILED


def test_longest_ones_beyond_any_log_normal_are_no_news_to_each_other() -> None:
    """7 times the mean is as long as 5 times for whoever takes lengths for log-normal."""
    known: tuple[LengthSample, ...] = ()
    declared = replace(LONG_TAILED, input_tokens_p95=10_000.0)
    for index in range(30):
        known = lengths_after(known, look(2000.0, 20.0, 14_000.0), 20.0 * index)
    assert live_workload(declared, look(2000.0, 20.0, 14_000.0), None, known).input_tokens_p95 == 10_000.0


@given(st.lists(st.tuples(*[st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))] * 2), max_size=12))
def test_whatever_is_told_of_lengths_what_is_in_force_are_lengths(
    told: list[tuple[float | None, float | None]],
) -> None:
    known: tuple[LengthSample, ...] = ()
    in_force = LONG_TAILED
    for index, (mean, p95) in enumerate(told):
        observation = look(mean, 20.0, p95)
        known = lengths_after(known, observation, 60.0 * index)
        in_force = live_workload(LONG_TAILED, observation, in_force, known)
        assert 0.0 < in_force.input_tokens <= in_force.input_tokens_p95 < math.inf
