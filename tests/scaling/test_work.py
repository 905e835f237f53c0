"""Forecasts are of work: lengths that grow are foretold like requests that become more."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean

import pytest

from tests.scaling.cases import AUTO, Pool, seen
from weft.domain.workload import Role
from weft.scaling import RatioGuard, scale_split

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
