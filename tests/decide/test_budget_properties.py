"""S4 for budgets that pools share, and fairness: whatever the pools, their sizes and the quota."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.decide.limited import GPUS, PODS, Limited, desired, limited, paired
from tests.decide.world import external, pool, pool_spec

if TYPE_CHECKING:
    from collections.abc import Sequence

BOARDS = 24  # more than anybody wants: the fabric never decides here


@dataclass(frozen=True)
class Wish:
    """Of one pool: so many replicas of so many GPUs, at a priority."""

    gpus: int
    replicas: int
    priority: int


def wishes(sizes: Sequence[int] = (1, 2, 4, 8)) -> st.SearchStrategy[list[Wish]]:
    each = st.builds(Wish, st.sampled_from(sizes), st.integers(1, 5), st.sampled_from([0, 0, 9]))
    return st.lists(each, min_size=1, max_size=4)


QUOTAS = st.integers(0, 100)


def decided(wanted: Sequence[Wish], gpus: int, pods: int = 100, *, backwards: bool = False) -> Limited:
    records = [
        pool(f"p{index}", pool_spec(each.gpus, external(each.replicas)), each.priority)
        for index, each in enumerate(wanted)
    ]
    world = limited(BOARDS, {GPUS: gpus, PODS: pods}, *(reversed(records) if backwards else records))
    world.turn(2)
    return world


def counts(world: Limited, wanted: Sequence[Wish]) -> tuple[int, ...]:
    return desired(world, *(f"p{index}" for index in range(len(wanted))))


@given(wishes(), QUOTAS, st.integers(0, 12))
def test_no_count_and_no_pod_is_ever_beyond_the_quota(wanted: list[Wish], gpus: int, pods: int) -> None:
    world = decided(wanted, gpus, pods)
    got = counts(world, wanted)
    assert sum(each.gpus * count for each, count in zip(wanted, got, strict=True)) <= gpus
    assert sum(got) <= pods
    assert world.used(GPUS) <= gpus
    assert world.used(PODS) <= pods


@given(wishes(), QUOTAS)
def test_the_order_of_a_listing_does_not_matter(wanted: list[Wish], gpus: int) -> None:
    assert counts(decided(wanted, gpus), wanted) == counts(decided(wanted, gpus, backwards=True), wanted)


@given(st.sampled_from([1, 2, 4, 8]).flatmap(lambda size: wishes((size,))), QUOTAS, st.integers(0, 40))
def test_a_larger_quota_gives_nobody_fewer(wanted: list[Wish], gpus: int, more: int) -> None:
    """Of replicas of one size. With several what is too little for large ones goes to small ones, until it is not."""
    less, larger = (counts(decided(wanted, each), wanted) for each in (gpus, gpus + more))
    assert all(before <= after for before, after in zip(less, larger, strict=True))


@given(wishes(), QUOTAS)
def test_nobody_could_have_one_more_but_from_those_who_have_relatively_less(wanted: list[Wish], gpus: int) -> None:
    """What is left is too little for anybody, even with one replica of a pool that stands lower or has more."""
    got = dict(zip(wanted, counts(decided(wanted, gpus), wanted), strict=True)) if len({*wanted}) == len(wanted) else {}
    left = gpus - sum(each.gpus * count for each, count in got.items())
    for short, count in got.items():
        if count < short.replicas:
            assert left < short.gpus
            for other, others in got.items():
                lower = other.priority < short.priority
                has_more = other.priority == short.priority and others - 1 > count / short.replicas * other.replicas
                if others > 0 and (lower or has_more):
                    assert left + other.gpus < short.gpus


@given(st.integers(0, 100), st.integers(1, 6), st.integers(1, 6))
def test_what_pays_for_a_pair_keeps_its_ratio(gpus: int, prefill: int, decode: int) -> None:
    """Both halves or none, neither ahead of the other by more than one replica, and nothing left that pays for one."""
    world = paired(BOARDS, gpus, prefill, decode)
    world.turn(2)
    first, second = desired(world, "pair-prefill", "pair-decode")
    assert (first == 0) == (second == 0)
    assert abs(first / prefill - second / decode) <= max(1 / prefill, 1 / decode) + 1e-9
    assert (first, second) == (prefill, decode) or gpus - 8 * (first + second) < (8 if first else 16)
