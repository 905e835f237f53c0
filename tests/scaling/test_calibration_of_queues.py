"""Replicas behind one front wait less than one with a random share, and no slow one passes for fast for that."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest

from tests.scaling.learning import SUBJECT, look, quiet
from weft.domain.pool_memory import CalibrationMemory
from weft.domain.shape import Calibration
from weft.domain.workload import Role
from weft.scaling.calibrating.calibration import Means, learnt

COMPUTING, LONE_WAIT, POOLED_WAIT = 0.2, 0.2, 0.02  # seconds of a prompt that takes as long as predicted


def lone(factors: Calibration) -> Means:
    return Means((COMPUTING + LONE_WAIT) * factors.prefill, 0.02)


def pooled(factors: Calibration) -> Means:
    return Means((COMPUTING + POOLED_WAIT) * factors.prefill, 0.02)


def after(ttfts: list[float], memory: CalibrationMemory | None = None) -> CalibrationMemory:
    memory = memory or CalibrationMemory(SUBJECT, Calibration())
    for ttft in ttfts:
        memory = learnt(memory, look(observation=quiet(ttft, None), role=Role.Prefill), lone, pooled)
    return memory


@pytest.mark.parametrize("wait", [POOLED_WAIT, 0.1, LONE_WAIT])
def test_a_factor_stays_where_the_wait_may_explain_what_was_measured(wait: float) -> None:
    memory = after([COMPUTING + wait] * 20)
    assert memory.factors.prefill == pytest.approx(1.0)
    assert memory.factors.prompt_points == 20


def test_who_is_slower_than_any_wait_explains_is_found_as_soon_as_a_lone_replica() -> None:
    slow = 1.5 * (COMPUTING + LONE_WAIT)
    seen, alone = look(observation=quiet(slow, None), role=Role.Prefill), CalibrationMemory(SUBJECT, Calibration())
    memory = alone
    for _ in range(30):
        memory, alone = learnt(memory, seen, lone, pooled), learnt(alone, seen, lone)
        assert memory.factors == alone.factors
    assert memory.factors.prefill == pytest.approx(1.5, rel=0.02)


def test_who_is_faster_than_without_a_wait_is_found_as_far_as_that_is_sure() -> None:
    memory = after([0.7 * (COMPUTING + POOLED_WAIT)] * 40)
    assert memory.factors.prefill == pytest.approx(0.7, rel=0.02)


def test_a_slow_engine_never_passes_for_fast_because_its_requests_hardly_wait() -> None:
    """A fifth slower, and nobody waits: that would be a factor of 0.6 if all of a lone replica's wait was expected."""
    memory = after([1.2 * COMPUTING] * 40)
    assert memory.factors.prefill == pytest.approx(1.0)
    assert after([1.2 * COMPUTING] * 40, replace(memory, factors=Calibration(1.15))).factors.prefill > 1.08


def test_chance_does_not_bring_a_factor_down_window_by_window() -> None:
    """Windows that scatter by a tenth around one queue's wait: as many are below it as above."""
    random = Random(1)
    ttfts = [(COMPUTING + POOLED_WAIT) * math.exp(random.gauss(0.0, 0.1)) for _ in range(300)]
    assert after(ttfts).factors.prefill > 0.95


def test_an_engine_that_was_made_faster_is_followed_after_a_long_time_in_which_it_was_not() -> None:
    memory = after([COMPUTING + 0.1] * 100)
    assert after([0.7 * (COMPUTING + POOLED_WAIT)] * 40, memory).factors.prefill == pytest.approx(0.7, rel=0.03)
