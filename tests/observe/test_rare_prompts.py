"""Buckets of lengths tell of a few prompts that are far longer than all others."""

from __future__ import annotations

import math
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.observe.samples.arithmetic import few_far_longer
from weft.twin.engine.counts import TOKEN_BUCKETS

BOUNDS = (*map(float, TOKEN_BUCKETS), math.inf)


def buckets(lengths: dict[float, float]) -> tuple[tuple[float, float], ...]:
    """Cumulative counts of so many prompts of each length."""
    ends = [next(bound for bound in BOUNDS if tokens <= bound) for tokens in lengths]
    counts = [sum(count for end, count in zip(ends, lengths.values(), strict=True) if end == bound) for bound in BOUNDS]
    return tuple(zip(BOUNDS, accumulate(counts), strict=True))


def mean_of(lengths: dict[float, float]) -> float:
    return sum(tokens * count for tokens, count in lengths.items()) / sum(lengths.values())


@pytest.mark.parametrize(
    "lengths",
    [{100: 980, 100_000: 20}, {100: 995, 100_000: 5}, {300: 980, 30_000: 20}, {200: 500, 400: 480, 80_000: 20}],
)
def test_the_second_moment_is_near_the_true_one(lengths: dict[float, float]) -> None:
    """To a factor of two, as buckets double: a log-normal length of these means has less than a sixth of it."""
    mean = mean_of(lengths)
    found = few_far_longer(buckets(lengths), mean)
    assert found is not None
    part, times = found
    true = sum(tokens**2 * count for tokens, count in lengths.items()) / sum(lengths.values()) / mean**2
    assert true / 2.0 <= part * times**2 <= true * 2.0
    assert max(lengths) / 2.0 <= times * mean <= max(lengths) * 2.0


@pytest.mark.parametrize(
    "lengths",
    [{1000: 100}, {400: 40, 900: 40, 3000: 20}, {100: 900, 10_000: 100}, {4000: 970, 100: 30}],
)
def test_lengths_of_which_many_are_beyond_the_mean_have_no_rare_ones(lengths: dict[float, float]) -> None:
    assert few_far_longer(buckets(lengths), mean_of(lengths)) is None


def test_nothing_is_told_without_a_mean_or_without_prompts() -> None:
    assert few_far_longer(buckets({100: 98, 100_000: 2}), None) is None
    assert few_far_longer(buckets({100: 0}), 100.0) is None
    assert few_far_longer((), 100.0) is None
    assert few_far_longer(((math.inf, 100.0),), 100.0) is None


@given(
    st.lists(st.floats(0, 1e6), min_size=len(BOUNDS), max_size=len(BOUNDS)),
    st.one_of(st.none(), st.floats(1e-3, 1e9)),
)
def test_whatever_is_counted_what_is_told_is_a_distribution(counts: list[float], mean: float | None) -> None:
    """Also where mean and buckets are not of the same requests."""
    found = few_far_longer(tuple(zip(BOUNDS, accumulate(counts), strict=True)), mean)
    if found is not None:
        part, times = found
        assert 0.0 < part < 1.0
        assert 1.0 <= times < math.inf
        assert part * times <= 1.0 + 1e-9
