"""A half that may have no more replicas: the other one is sized for what it carries, and not for all that comes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.scaling.cases import seen
from tests.scaling.test_split import FREE, pair, step
from weft.domain.capacity import Capacity
from weft.domain.reasons import Explanation, Reason
from weft.scaling import Ceiling, scale_split

if TYPE_CHECKING:
    from tests.scaling.cases import Pool
    from weft.domain.snapshot import PoolObservation

COME = 20.0  # requests a second, of which one of prefill takes 4 and one of decode 1: six and 22 with headroom
WAITING = 100.0  # far more requests than replicas


def held(prefill: int = 0, decode: int = 0, **bounds: Any) -> tuple[Pool, Pool]:  # noqa: ANN401 - any field
    """A pair whose prefill half has these bounds, and to which 20 requests a second are declared to come."""
    pools = pair(prefill, decode)
    pools[0].configured(**bounds)
    pools[1].configured(max_replicas=30)
    for pool in pools:
        pool.declared_rate = COME
    return pools


def busy(pools: tuple[Pool, Pool], prefill: float, decode: float, waiting: float = WAITING) -> list[PoolObservation]:
    """Twenty come at the front, each half answers so many, and others wait for prefill."""
    answered = seen(prefill, pools[0].current, waiting=waiting), seen(decode, pools[1].current)
    return [replace(each, arrivals=10.0 * COME, arrival_seconds=10.0, arrivals_at_front=True) for each in answered]


def under_load(pools: tuple[Pool, Pool], seconds: float = 120.0, **answered: float) -> tuple[int, int]:
    """The counts after a while of that."""
    for _ in range(int(seconds / 10.0)):
        first, second = busy(pools, **{"prefill": 7.9, "decode": 7.9, **answered})
        step(pools, (first, second))
    return pools[0].current, pools[1].current


@pytest.mark.parametrize("bounds", [{"max_replicas": 2}, {"max_gpus": 16}], ids=["maxReplicas", "maxGPUs"])
def test_decode_grows_for_what_prefill_carries_at_its_bound(bounds: dict[str, int]) -> None:
    """Twenty come and wait for prefill, of which two carry eight: nine with headroom, where 22 were bought."""
    assert under_load(held(2, 5, **bounds)) == (2, 9)


def test_prefill_grows_for_what_decode_carries_at_its_bound() -> None:
    """Four of decode carry four a second, and its memory is full: two of prefill, where six were bought."""
    pools = held(1, 4)
    pools[1].configured(max_replicas=4)
    for _ in range(30):
        first, second = busy(pools, 4.0, 4.0)
        step(pools, (first, replace(second, waiting=WAITING, running=400.0, kv_usage=0.95)))
    assert (pools[0].current, pools[1].current) == (2, 4), "two answer less than they can, as decode takes no more"


def test_a_count_says_which_half_holds_it_and_what_the_pair_carries() -> None:
    pools = held(2, 5, max_replicas=2)
    told = "the prefill pool may have no more than 2 replicas"
    first, second = busy(pools, 7.9, 7.9)
    step(pools, (first, second))
    prefill, decode = (pool.answer for pool in pools)
    assert prefill is not None
    assert decode is not None
    assert decode.changed is not None
    assert decode.changed.message.startswith("5 -> 9 replicas: ")
    assert decode.changed.message.endswith(f"; {told}, and 8 requests/s is what the split carries")
    assert decode.explanation == Explanation(Reason.Steady, f"{told}, and what those carry needs 9 replicas")
    assert prefill.explanation.reason is Reason.AtMaximum


@pytest.mark.parametrize(("least", "left"), [(1, 9), (12, 12)])
def test_what_runs_stays_until_the_window_is_over(least: int, left: int) -> None:
    """A bound that is lowered takes nothing away at once, and `minReplicas` holds as well."""
    pools = held(2, 22, max_replicas=2)
    pools[1].configured(min_replicas=least)
    assert under_load(pools, seconds=300.0) == (2, 22)
    assert pools[1].answer is not None
    assert pools[1].answer.explanation.reason in {Reason.HoldAfterStart, Reason.HoldStabilizing}
    assert under_load(pools, seconds=310.0) == (2, left)


def test_a_half_that_leaves_nobody_waiting_carries_all_that_comes() -> None:
    """Its capacity is an estimate: two that were to carry eight, and carry twenty, hold nobody back."""
    assert under_load(held(2, 5, max_replicas=2), prefill=20.0, decode=20.0, waiting=0.0) == (2, 22)


def test_a_half_that_carries_more_than_was_foretold_is_believed() -> None:
    """Twelve a second by either count, where eight were foretold."""
    assert under_load(held(2, 5, max_replicas=2), prefill=12.0) == (2, 14)
    assert under_load(held(2, 5, max_replicas=2), decode=12.0) == (2, 14)


def test_before_anything_is_measured_no_half_is_held_by_an_estimate_of_the_other() -> None:
    """Nor while engines are silent and the front counts what comes."""
    pools = held(max_replicas=2)
    assert step(pools, (None, None)) == (2, 22)
    pools = held(2, 5, max_replicas=2)
    unseen = [replace(each, answered=0) for each in busy(pools, 0.0, 0.0)]
    assert step(pools, (unseen[0], unseen[1])) == (2, 22)


def test_where_the_network_is_what_requests_wait_for_the_bound_counts_as_well() -> None:
    """Nobody counts as waiting then, which is no sign that prefill carries all."""
    pools = held(2, 5, max_replicas=2)
    first, second = busy(pools, 7.9, 7.9)
    bound = [replace(pool.request(each), network_bound=True) for pool, each in zip(pools, (first, second), strict=True)]
    assert [each.desired for each in scale_split(bound[0], bound[1], FREE)] == [2, 9]


def test_a_budget_that_pools_share_is_not_shared_out_twice() -> None:
    """It keeps halves in balance by itself: what it holds back in one half is no reason for the other."""
    pools = held(2, 5)
    first, second = busy(pools, 7.9, 7.9)
    lent = Ceiling(2, Explanation(Reason.BudgetExhausted, "a quota"))
    requests = replace(pools[0].request(first), ceiling=lent), pools[1].request(second)
    assert [each.desired for each in scale_split(*requests, FREE)] == [2, 22]


def test_a_half_of_which_nothing_is_known_limits_nothing() -> None:
    pools = held(2, 5, max_replicas=2)
    first, second = busy(pools, 7.9, 7.9)
    unknown = replace(pools[0].request(first), capacity=Capacity(0.0))
    assert [each.desired for each in scale_split(unknown, pools[1].request(second), FREE)] == [2, 22]
