"""How many replicas carry a rate where each carries more in company."""

from __future__ import annotations

import math
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.domain.capacity import Capacity, Gains
from weft.domain.scaling_spec import ScalingSpec

TOGETHER = Capacity(2.0, (1.0, 1.25, 1.5))
SOME = st.lists(st.floats(1.0, 3.0), max_size=8).map(lambda each: tuple(accumulate(each, max)))
RATES, CAPACITIES = st.floats(0.0, 1e4), st.floats(1e-2, 1e3)


def test_the_fewest_replicas_carry_the_rate_together() -> None:
    """Two at 2.5 requests/s each carry 5, three at 3 carry 9, and any more carry 3 each."""
    counts = {rate: TOGETHER.needed(rate) for rate in (0.0, 2.0, 2.1, 5.0, 5.1, 9.0, 9.1, 12.0, 12.1)}
    assert counts == {0.0: 1, 2.0: 1, 2.1: 2, 5.0: 2, 5.1: 3, 9.0: 3, 9.1: 4, 12.0: 4, 12.1: 5}


def test_headroom_comes_first() -> None:
    assert ScalingSpec(headroom=0.1).needed(5.0, TOGETHER) == 3
    assert ScalingSpec(headroom=0.0).needed(5.0, TOGETHER) == 2


def test_a_broken_rate_needs_what_it_needs_without_gains() -> None:
    assert TOGETHER.needed(math.inf) == TOGETHER.lone().needed(math.inf)


@given(less=RATES, more=RATES, capacity=CAPACITIES, gains=SOME)
def test_more_demand_never_means_fewer_replicas(less: float, more: float, capacity: float, gains: Gains) -> None:
    found = Capacity(capacity, gains)
    assert found.needed(min(less, more)) <= found.needed(max(less, more))
    assert found.exactly(min(less, more)) <= found.exactly(max(less, more)) + 1e-6


@given(rate=RATES, capacity=CAPACITIES, gains=SOME)
def test_the_count_carries_the_rate_one_fewer_does_not_and_company_never_costs(
    rate: float, capacity: float, gains: Gains
) -> None:
    together = Capacity(capacity, gains)
    found = together.needed(rate)
    assert together.of(found) >= rate * (1.0 - 1e-6)
    assert found == 1 or together.of(found - 1) < rate
    assert found <= together.lone().needed(rate)


@given(replicas=st.integers(0, 1000), capacity=CAPACITIES, gains=SOME)
def test_what_so_many_serve_takes_exactly_so_many(replicas: int, capacity: float, gains: Gains) -> None:
    found = Capacity(capacity, gains)
    assert found.exactly(found.of(replicas)) == pytest.approx(replicas)
    assert found.of(replicas) == pytest.approx(replicas * found.each(replicas))


@given(replicas=st.integers(0, 1000), capacity=CAPACITIES, gains=SOME)
def test_a_shape_that_serves_the_same_takes_as_many_replicas(replicas: int, capacity: float, gains: Gains) -> None:
    """15 replicas of 0.7 requests/s serve 10.5, which is a little more than 15 of them in binary fractions."""
    assert Capacity(capacity, gains).instead_of(replicas, Capacity(capacity, gains)) == replicas
    assert Capacity(2.0 * capacity).instead_of(replicas, Capacity(capacity)) == (replicas + 1) // 2


def test_between_two_counts_the_part_is_of_what_one_more_adds() -> None:
    """Two at 2.5 requests/s each serve 5, three at 3 serve 9: one at 2 and half of the next 3, then half of 4."""
    assert [1.5, 2.5, 4.5] == [TOGETHER.exactly(rate) for rate in (3.5, 7.0, 13.5)]


def test_replicas_that_share_no_queue_serve_as_much_as_so_many_alone() -> None:
    assert [0.0, 2.0, 8.0] == [TOGETHER.lone().of(replicas) for replicas in (0, 1, 4)]
