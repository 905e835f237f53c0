"""Requests that come more regularly than at random, as a front before several replicas goes by load or in turn."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.replicas import replica
from weft.domain.hardware import Precision
from weft.domain.workload import Role, Slo, Workload
from weft.perf import ASTRAY, Coming, Question, assess, at_engine, dispersion
from weft.perf.regular import fewer, spread
from weft.perf.service import service

L40S = replica("Llama-3.1-8B-Instruct", "L40S", Precision.BF16, 1)
LONG, MIDDLE = Workload(1.0, 5_000, 60, 11_000, 160), Workload(1.0, 1_000, 200, 2_700, 540)
COUNTS = (1, 2, 3, 4, 8, 25)
PERCENTILES = (50, 90, 95, 99)


def in_turn(replicas: int, seconds: float) -> tuple[float, float]:
    """Mean and variance of how many come to a replica in a time, from one that comes on; one a second on average."""
    random = np.random.default_rng(1)
    gaps = random.gamma(replicas, 1.0 / replicas, (200_000, 30))
    came = (np.cumsum(gaps, axis=1) <= seconds).sum(axis=1)
    return float(came.mean()), float(came.var())


@pytest.mark.parametrize("replicas", [2, 4, 9])
@pytest.mark.parametrize("seconds", [0.3, 1.0, 3.0, 10.0])
def test_no_more_are_left_out_than_come_later_where_replicas_take_turns(replicas: int, seconds: float) -> None:
    mean, variance = in_turn(replicas, seconds)
    part = fewer(dispersion(replicas), seconds)
    assert mean <= 1.02 * seconds * part
    assert seconds * part <= mean + 0.35 * min(1.0, seconds)
    assert variance <= 1.02 * seconds * part * spread(dispersion(replicas), seconds)


def test_at_random_as_many_come_as_ever() -> None:
    assert dispersion(1) == 1.0
    assert dispersion(5, astray=1.0) == 1.0
    assert fewer(1.0, 0.5, 0.2) == 1.0
    assert spread(1.0, 0.5) == 1.0


@given(st.floats(0.0, 1.0), st.floats(0.0, 50.0), st.floats(0.0, 5.0))
def test_some_come_and_no_more_than_at_random(part: float, met: float, before: float) -> None:
    assert part - 1e-9 <= fewer(part, met, before) <= 1.0
    assert part - 1e-9 <= spread(part, met) <= 1.0


@pytest.mark.parametrize("workload", [LONG, MIDDLE])
@pytest.mark.parametrize("load", [0.1, 0.3, 0.6])
def test_the_more_regular_requests_come_the_sooner_do_tokens(workload: Workload, load: float) -> None:
    server = service(L40S, workload, Role.Aggregated)
    rate = load * server.at_batch(float(server.seats)).rate
    found = [replace(server, dispersion=dispersion(each, ASTRAY)).at_rate(rate) for each in COUNTS]
    for more, fewer_of_them in pairwise(found):
        assert more is not None
        assert fewer_of_them is not None
        assert fewer_of_them.tpot.mean <= more.tpot.mean
        assert all(fewer_of_them.tpot.at(each) <= more.tpot.at(each) for each in (90, 95, 99))
        assert fewer_of_them.ttft == more.ttft
        assert fewer_of_them.decode is not None
        assert fewer_of_them.tpot.mean >= fewer_of_them.decode.seconds


def test_a_lone_replica_is_predicted_as_ever() -> None:
    server = service(L40S, LONG, Role.Aggregated)
    assert replace(server, dispersion=dispersion(1, ASTRAY)).at_rate(0.5) == server.at_rate(0.5)


def test_in_company_a_replica_carries_more_where_prompts_hold_answers_up() -> None:
    slo = Slo(tpot=((95, 0.05),))
    found = [
        [assess(L40S, Question(each, slo, Role.Aggregated, in_company=n)).prediction.capacity for n in COUNTS]
        for each in (LONG, MIDDLE)
    ]
    for capacities in found:
        assert all(before < after for before, after in pairwise(capacities))
    assert 1.2 < found[0][-1] / found[0][0] < 1.5
    assert 1.03 < found[1][-1] / found[1][0] < 1.1


def test_what_an_engine_is_expected_to_count_is_told_by_how_requests_come() -> None:
    load = replace(LONG, requests_per_second=0.4)
    random, regular = (at_engine(L40S, load, Role.Aggregated, each) for each in (Coming(), Coming(dispersion=0.3)))
    assert random is not None
    assert regular is not None
    assert regular[0] == random[0]
    assert regular[1].mean < 0.95 * random[1].mean
