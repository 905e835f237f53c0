"""The ratio between the halves of a split, kept in whole replicas."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.scaling import RatioGuard

bounds = st.one_of(st.none(), st.sampled_from([0.1, 0.25, 0.5, 1.0, 1.4, 3.0, 5.0]))


def _is_possible(guard: RatioGuard) -> bool:
    return (guard.least or 0) <= (guard.most or 9)


guards = st.builds(RatioGuard, bounds, bounds).filter(_is_possible)
ranges = st.tuples(st.integers(1, 6), st.integers(0, 6)).map(lambda pair: range(pair[0], pair[0] + pair[1] + 1))


@given(guards, st.tuples(st.integers(1, 12), st.integers(1, 12)), ranges, ranges)
def test_the_nearest_counts_keep_to_the_ratio_and_exist_where_any_do(
    guard: RatioGuard, wanted: tuple[int, int], prefill: range, decode: range
) -> None:
    possible = {(p, d) for p in prefill for d in decode if guard.holds(p, d)}
    nearest = guard.nearest(wanted, prefill, decode)
    assert (nearest is None) == (not possible)
    assert nearest is None or nearest in possible
    assert wanted not in possible or nearest == wanted
    enough = {pair for pair in possible if pair[0] >= wanted[0] and pair[1] >= wanted[1]}
    assert not enough or nearest == min(enough, key=lambda pair: (sum(pair), pair))


@given(st.integers(1, 1000), st.sampled_from([0.1, 0.3, 0.7]))
def test_rounding_never_costs_a_replica(tens: int, least: float) -> None:
    assert RatioGuard(least).holds(round(tens * 10 * least), tens * 10)
