"""Both pools of a split are sized together from the same requests."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.scaling.cases import Pool, seen
from weft.domain.capacity import Capacity
from weft.domain.reasons import Reason
from weft.domain.workload import Role
from weft.scaling import RatioGuard, scale_split
from weft.scaling.split import sharing_risk

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolObservation

FREE = RatioGuard()


def pair(prefill: int = 0, decode: int = 0) -> tuple[Pool, Pool]:
    """One prefill replica takes 4 requests/s, one decode replica 1."""
    first = Pool(capacity=4.0, declared_rate=4.0, role=Role.Prefill)
    second = Pool(capacity=1.0, declared_rate=4.0, role=Role.Decode)
    first.current, second.current = prefill, decode
    return first, second


def step(
    pools: tuple[Pool, Pool],
    seen_by: tuple[PoolObservation | None, PoolObservation | None],
    guard: RatioGuard = FREE,
    seconds: float = 10.0,
) -> tuple[int, int]:
    for pool in pools:
        pool.now += seconds
    answers = scale_split(pools[0].request(seen_by[0]), pools[1].request(seen_by[1]), guard)
    return pools[0].accept(answers[0]).desired, pools[1].accept(answers[1]).desired


def test_a_new_pair_starts_as_declared() -> None:
    assert step(pair(), (None, None)) == (2, 5)


def test_one_rate_sizes_both_pools_in_one_decision() -> None:
    """Decode still answers slowly what prefill already takes in: the larger rate counts for both."""
    assert step(pair(1, 1), (seen(7.0, 1), seen(1.0, 1))) == (2, 8)


@pytest.mark.parametrize("blind", [0, 1])
def test_both_hold_when_either_half_does_not_report(blind: int) -> None:
    pools = pair(2, 5)
    both = [seen(0.5, 2), seen(0.5, 5)]
    both[blind] = seen(math.nan, 2)
    for _ in range(100):
        assert step(pools, (both[0], both[1])) == (2, 5)
    assert {pool.answer.explanation.reason for pool in pools if pool.answer} == {Reason.HoldMetricsMissing}


def test_the_half_that_costs_little_takes_little_of_the_risk() -> None:
    """By the GPUs that a request needs in each: one prefill replica takes 4 requests/s, one decode replica 1."""
    prefill, decode = (pool.request(None) for pool in pair(1, 9))
    risk = prefill.spec.risk
    shared = sharing_risk(prefill, decode)
    assert [each.spec.risk for each in shared] == pytest.approx([0.2 * risk, 0.8 * risk])
    larger = sharing_risk(replace(prefill, gpus=4 * prefill.gpus), decode)
    assert [each.spec.risk for each in larger] == pytest.approx([0.5 * risk, 0.5 * risk])
    grown = sharing_risk(replace(prefill, current=7), replace(decode, current=2))
    assert [each.spec.risk for each in grown] == [each.spec.risk for each in shared], "counts do not feed back"


@pytest.mark.parametrize("capacity", [0.0, math.inf, math.nan])
def test_while_costs_are_unknown_the_risk_is_halved(capacity: float) -> None:
    prefill, decode = (pool.request(None) for pool in pair(1, 9))
    shared = sharing_risk(replace(prefill, capacity=Capacity(capacity)), decode)
    assert [each.spec.risk for each in shared] == [0.5 * prefill.spec.risk] * 2


def test_both_shrink_together_after_the_window() -> None:
    pools = pair(2, 8)
    for _ in range(39):
        step(pools, (seen(1.0, 2), seen(1.0, 8)))
    assert step(pools, (seen(1.0, 2), seen(1.0, 8))) == (1, 2)


def test_the_ratio_guard_raises_the_smaller_half() -> None:
    assert step(pair(1, 1), (seen(7.0, 1), seen(7.0, 1)), RatioGuard(least=0.5)) == (4, 8)
    assert step(pair(1, 1), (seen(7.0, 1), seen(7.0, 1)), RatioGuard(most=0.2)) == (2, 10)


def test_a_guard_that_meets_a_bound_lowers_the_other_half() -> None:
    pools = pair(1, 1)
    pools[0].configured(max_replicas=2)
    assert step(pools, (seen(7.0, 1), seen(7.0, 1)), RatioGuard(least=0.5)) == (2, 4)


def test_a_pair_is_never_left_outside_of_a_ratio_that_its_bounds_allow() -> None:
    """Lowering one half never lowers it below its own least: the nearest counts that keep to everything."""
    pools = pair(1, 1)
    pools[0].configured(max_replicas=6)
    pools[1].configured(min_replicas=1)
    assert step(pools, (seen(7.0, 1), seen(7.0, 1)), RatioGuard(least=5)) == (5, 1)
    assert step(pair(1, 1), (seen(7.0, 1), seen(7.0, 1)), RatioGuard(least=0.75, most=0.8)) == (6, 8)


def test_a_pair_outside_of_its_ratio_says_so() -> None:
    """The window of the half that must shrink is not cut short; the ratio waits for it."""
    pools = pair(2, 8)
    guard = RatioGuard(least=1.0)
    pools[0].configured(max_replicas=4)
    counts = step(pools, (seen(7.0, 2), seen(7.0, 8)), guard)
    assert counts == (4, 8)
    told = [pool.answer.explanation.message for pool in pools if pool.answer]
    assert all(message.endswith("; not yet within ratio.min 1") for message in told)
    assert step(pools, (None, None), guard) == counts
    assert [message.count("not yet") for message in told] == [1, 1]


def test_while_traffic_rises_no_half_lets_go_of_a_replica_because_of_the_ratio() -> None:
    """The ratio is waited for, as where the window of one half holds it."""
    pools, guard, before = pair(1, 1), RatioGuard(least=0.6), (6, 9)
    for _ in range(60):
        assert step(pools, (seen(8.0, 6), seen(8.0, 9)), guard) == before
    last = pools
    while step(pools, (seen(2.0, 6), seen(2.0, 9)), guard) == before:
        last = replace(pools[0]), replace(pools[1])
    rising = replace(seen(2.0, 6), arrivals=50.0, arrival_seconds=10.0)
    assert step(last, (rising, replace(rising, expected=9, answered=9)), guard) == before
    assert {pool.answer.explanation.reason for pool in last if pool.answer} == {Reason.Steady}


def test_the_same_question_twice_has_the_same_answer() -> None:
    pools = pair()
    guard = RatioGuard(least=0.5, most=2.0)
    for seen_by in ((None, None), (seen(9.0, 2), seen(4.0, 4)), (None, seen(1.0, 4))):
        first = step(pools, seen_by, guard)
        explanations = [pool.answer.explanation for pool in pools if pool.answer]
        assert step(pools, seen_by, guard, seconds=0.0) == first
        assert [pool.answer.explanation for pool in pools if pool.answer] == explanations
