"""How many replicas carry a rate where each carries more in company."""

from __future__ import annotations

import math
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from weft.domain.scaling_spec import Gains, ScalingSpec, carrying, of_one

GAINS = (1.0, 1.25, 1.5)
SOME = st.lists(st.floats(1.0, 3.0), max_size=8).map(lambda each: tuple(accumulate(each, max)))
RATES, CAPACITIES = st.floats(0.0, 1e4), st.floats(1e-2, 1e3)


def test_the_fewest_replicas_carry_the_rate_together() -> None:
    """Two at 2.5 requests/s each carry 5, three at 3 carry 9, and any more carry 3 each."""
    counts = {rate: carrying(rate, 2.0, GAINS) for rate in (0.0, 2.0, 2.1, 5.0, 5.1, 9.0, 9.1, 12.0, 12.1)}
    assert counts == {0.0: 1, 2.0: 1, 2.1: 2, 5.0: 2, 5.1: 3, 9.0: 3, 9.1: 4, 12.0: 4, 12.1: 5}


def test_headroom_comes_first() -> None:
    assert ScalingSpec(headroom=0.1).needed(5.0, 2.0, GAINS) == 3
    assert ScalingSpec(headroom=0.0).needed(5.0, 2.0, GAINS) == 2


def test_a_broken_rate_needs_what_it_needs_without_gains() -> None:
    assert carrying(math.inf, 2.0, GAINS) == carrying(math.inf, 2.0)


@given(less=RATES, more=RATES, capacity=CAPACITIES, gains=SOME)
def test_more_demand_never_means_fewer_replicas(less: float, more: float, capacity: float, gains: Gains) -> None:
    assert carrying(min(less, more), capacity, gains) <= carrying(max(less, more), capacity, gains)


@given(rate=RATES, capacity=CAPACITIES, gains=SOME)
def test_the_count_carries_the_rate_one_fewer_does_not_and_company_never_costs(
    rate: float, capacity: float, gains: Gains
) -> None:
    found = carrying(rate, capacity, gains)
    assert found * of_one(gains, found) * capacity >= rate * (1.0 - 1e-6)
    assert found == 1 or (found - 1) * of_one(gains, found - 1) * capacity < rate
    assert found <= carrying(rate, capacity)
