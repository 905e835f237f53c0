"""Who is slower than its siblings at no higher load, and what a pool does without it."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scaling.cases import Pool, seen
from weft.domain.pool_memory import Outlier, Outliers
from weft.domain.reasons import Reason
from weft.domain.snapshot import PodObservation, PoolObservation
from weft.domain.workload import Role
from weft.scaling.underperforming.outliers import watched
from weft.scaling.underperforming.slowness import is_whole, stands_out, times_slower, without_outliers

FAST = PodObservation(
    "chat-0", 2.0, requests_per_second=2.0, input_tokens=1000.0, output_tokens=200.0, ttft_mean=0.2, tpot_mean=0.02
)
NOW = 1_000_000.0


def pods(*others: PodObservation, fast: int = 3) -> dict[int, PodObservation]:
    every = (*[FAST] * fast, *others)
    return {index: replace(each, pod=f"chat-{index}") for index, each in enumerate(every)}


def slow(**changes: float | None) -> PodObservation:
    return replace(FAST, tpot_mean=0.04, **changes)  # type: ignore[arg-type]


def test_it_stands_out_against_the_median_of_the_others() -> None:
    assert times_slower(pods(slow()), Role.Aggregated) == {3: pytest.approx(2.0)}
    assert times_slower(pods(replace(FAST, tpot_mean=0.029)), Role.Aggregated) == {}


def test_each_role_is_compared_by_what_it_does() -> None:
    prompts = replace(FAST, ttft_mean=0.5)
    assert times_slower(pods(prompts), Role.Prefill) == {3: pytest.approx(2.5)}
    assert times_slower(pods(prompts), Role.Aggregated) == {3: pytest.approx(2.5)}
    assert times_slower(pods(prompts), Role.Decode) == {}
    assert times_slower(pods(slow()), Role.Prefill) == {}


@pytest.mark.parametrize(
    "busier",
    [
        slow(requests_per_second=2.3),
        slow(input_tokens=1200.0),
        slow(computed_input_tokens=1200.0),
        slow(output_tokens=230.0),
        slow(output_tokens=None),
        slow(requests_per_second=0.2),
        replace(FAST, tpot_mean=float("nan")),
    ],
)
def test_a_higher_load_explains_it_and_so_does_what_nobody_knows(busier: PodObservation) -> None:
    assert times_slower(pods(busier), Role.Aggregated) == {}


def test_two_siblings_are_too_few_and_so_are_idle_ones() -> None:
    assert times_slower(pods(slow(), fast=2), Role.Aggregated) == {}
    idle = {**pods(slow(), fast=2), 9: replace(FAST, pod="chat-9", requests_per_second=0.1)}
    assert times_slower(idle, Role.Aggregated) == {}


def test_more_than_a_quarter_have_something_else_in_common() -> None:
    assert times_slower(pods(slow(), slow(), fast=6), Role.Aggregated).keys() == {6, 7}
    assert times_slower(pods(slow(), slow(), fast=5), Role.Aggregated) == {}


@given(st.lists(st.floats(0.001, 10.0), min_size=1, max_size=12))
def test_times_are_over_the_median_of_the_others_and_the_cheap_look_misses_nothing(tpots: list[float]) -> None:
    every = pods(*(replace(FAST, tpot_mean=tpot) for tpot in tpots), fast=0)
    found = times_slower(every, Role.Decode)
    for replica, times in found.items():
        others = [tpot for index, tpot in enumerate(tpots) if index != replica]
        assert times == pytest.approx(tpots[replica] / median(others))
        assert times >= 1.5
    assert not found or stands_out(tuple(every.values()), Role.Decode)


def test_a_clock_that_was_set_back_makes_nobody_slow_for_longer() -> None:
    memory = watched(None, pods(slow()), range(4), Role.Decode, NOW)
    memory = watched(memory, pods(slow()), range(4), Role.Decode, NOW - 3600)
    assert memory is not None
    assert [(each.replica, each.since, each.named) for each in memory.found] == [(3, NOW - 3600, None)]


def test_a_look_is_whole_when_every_replica_tells_everything() -> None:
    whole = PoolObservation(4, 4, 2.0, requests_per_second=8.0)
    assert is_whole(whole)
    partial = (replace(whole, answered=3), replace(whole, missing=("x",)), replace(whole, age_seconds=61.0), None)
    assert not any(is_whole(each) for each in partial)


NAMED = Outliers(NOW, (Outlier(3, "chat-3", NOW - 200, 2.0, NOW),))


def test_a_pool_without_its_slow_replica_does_what_the_others_do() -> None:
    every = tuple(pods(slow(requests_per_second=1.0, input_tokens=900.0)).values())
    whole = PoolObservation(4, 4, 2.0, requests_per_second=7.0, tpot_mean=0.0229, input_tokens=986.0, pods=every)
    found = without_outliers(whole, NAMED)
    assert found is not None
    assert (found.expected, found.answered, found.requests_per_second) == (3, 3, 6.0)
    assert found.tpot_mean == pytest.approx(0.02)
    assert found.input_tokens == pytest.approx(1000.0)
    assert without_outliers(whole, replace(NAMED, found=(replace(NAMED.found[0], named=None),))) is whole
    assert without_outliers(whole, None) is whole


def test_replicas_that_fail_to_fetch_kv_as_all_do_are_what_a_pool_does() -> None:
    """Left out, the one that happens to fetch would be taken for all, and the pool would buy too little."""
    whole = PoolObservation(4, 4, 2.0, requests_per_second=7.0, pods=tuple(pods(slow()).values()))
    failing = tuple(replace(NAMED.found[0], replica=at, pod=f"chat-{at}", why=Reason.TransfersFail) for at in range(3))
    cut_off = tuple(replace(each, why=Reason.CutOffFromPrefill) for each in failing)

    assert without_outliers(whole, replace(NAMED, found=failing)) is whole
    assert without_outliers(whole, replace(NAMED, found=cut_off)) is not whole


def test_the_capacity_that_a_saturated_pool_shows_is_that_of_the_others() -> None:
    """Four saturated replicas answer 1.0, 1.0, 1.0 and 0.2 a second: one that is as fast as most serves 1.0."""
    rates = [1.0, 1.0, 1.0, 0.2]
    every = tuple(replace(FAST, pod=f"chat-{i}", requests_per_second=rate) for i, rate in enumerate(rates))
    counts = []
    for outliers in (None, NAMED):
        pool = Pool(capacity=2.0, current=4).configured(max_replicas=100)
        pool.step(seen(3.2, 4, waiting=40.0))
        assert pool.answer is not None
        pool.answer = replace(pool.answer, memory=replace(pool.answer.memory, outliers=outliers))
        pool.current = 4
        saturated = replace(seen(3.2, 4, waiting=40.0), pods=every)
        pool.configured(max_replicas=4).run(saturated, 60)
        pool.configured(max_replicas=100).step(saturated)
        counts.append(pool.current)
    assert counts == [5, 4], "3.8 requests/s with the margin of a new forecast, over 0.8 and over 1.0"
