"""Engines that do not answer are no lack of demand: what the front counts may add replicas, and never takes one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scaling.cases import Pool, seen
from tests.scaling.test_properties import observations, specs
from tests.scaling.test_split import pair, step
from weft.domain.reasons import Reason
from weft.domain.scaling_spec import ScalingMode, ScalingSpec
from weft.domain.snapshot import PodObservation, PoolObservation


def silent(arrivals: float | None, ready: int = 2, *, at_front: bool = True) -> PoolObservation:
    """Ready replicas of which none answers, and what came in during the last ten seconds."""
    return PoolObservation(ready, 0, 2.0, arrivals=arrivals, arrival_seconds=10.0, arrivals_at_front=at_front)


silences = st.builds(
    silent,
    st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.floats(0, 60), st.floats(0, 5000)),
    st.integers(0, 5),
)


def serving(rate: float = 3.0) -> Pool:
    """Two replicas of two requests a second each, seen for a minute."""
    pool = Pool()
    pool.run(seen(rate, 2), 60)
    assert pool.current == 2
    return pool


@pytest.mark.parametrize("ready", [0, 2], ids=["none ready", "none answers"])
def test_demand_at_the_front_adds_replicas_and_says_from_where(ready: int) -> None:
    """A hundred in ten seconds, less half a standard deviation, with a tenth of headroom, at two a second each."""
    pool = serving()
    answer = pool.step(silent(100.0, ready))
    assert answer.desired == 6
    assert answer.changed is not None
    assert answer.changed.reason is Reason.ScaleUp
    assert answer.changed.message.startswith("2 -> 6 replicas: 9.5 requests/s offered (no")
    assert (
        "; only the front counts what arrives), with 10% headroom; one replica serves 2 requests/s"
        in answer.changed.message
    )


def test_a_count_that_is_enough_is_held_with_the_reason() -> None:
    pool = serving()
    pool.run(silent(30.0), 600)
    assert pool.current == 2
    assert pool.answer is not None
    assert pool.answer.explanation.reason is Reason.HoldMetricsMissing
    told = "none of 2 ready replicas answered; only the front counts what arrives: holding 2 replicas"
    assert pool.answer.explanation.message == told


def test_few_arrivals_say_nothing_and_neither_do_those_that_engines_counted() -> None:
    tiny = Pool(capacity=0.1)
    tiny.run(seen(0.1, 2), 60)
    before = tiny.current
    assert tiny.step(silent(9.0)).desired == before
    assert serving().step(silent(1000.0, at_front=False)).desired == 2


def test_old_counts_of_a_front_say_nothing() -> None:
    assert serving().step(replace(silent(100.0), age_seconds=61.0)).desired == 2


def test_engines_that_answer_again_do_not_take_back_at_once_what_the_front_asked_for() -> None:
    pool = serving()
    pool.run(seen(3.0, 2), 600)
    pool.step(silent(100.0))
    assert pool.step(seen(3.0, 2)).desired == 6
    pool.run(seen(3.0, 6), 270)
    assert pool.current == 6
    pool.run(seen(3.0, 6), 120)
    assert pool.current == 2


@pytest.mark.parametrize(("arrivals", "replicas"), [(30.0, 5), (100.0, 6)], ids=["declared", "counted"])
def test_a_pool_without_a_count_starts_as_declared_and_grows_by_what_is_counted(arrivals: float, replicas: int) -> None:
    pool = Pool(declared_rate=8.0)
    assert pool.step(silent(arrivals, 0)).desired == replicas


def test_both_halves_of_a_split_grow_when_both_are_silent() -> None:
    pools = pair(2, 5)
    assert step(pools, (silent(200.0), silent(200.0))) == (6, 10)
    assert pools[0].answer is not None
    assert pools[0].answer.changed is not None
    assert pools[0].answer.changed.message.startswith("2 -> 6 replicas: 19.3 requests/s offered (none of 2 ready")


def test_both_halves_grow_when_one_of_them_is_silent() -> None:
    heard = replace(seen(4.0, 2), arrivals=200.0, arrival_seconds=10.0, arrivals_at_front=True)
    assert step(pair(2, 5), (heard, silent(200.0))) == (6, 10)


@given(
    spec=specs,
    capacity=st.floats(0.5, 5.0),
    rate=st.floats(0.0, 40.0),
    looks=st.lists(st.tuples(silences, st.floats(0, 400)), max_size=12),
)
def test_silence_never_takes_a_replica_away(
    spec: ScalingSpec, capacity: float, rate: float, looks: list[tuple[PoolObservation, float]]
) -> None:
    """S5, in the count and in what is recommended to whoever owns it."""
    for mode in (ScalingMode.Auto, ScalingMode.External):
        replicas = None if mode is ScalingMode.Auto else spec.min_replicas
        pool = Pool(spec=replace(spec, mode=mode, replicas=replicas), capacity=capacity, current=spec.min_replicas)
        pool.run(seen(rate, 2), 30)
        assert pool.answer is not None
        before = pool.answer
        for observation, seconds in looks:
            answer = pool.step(observation, seconds)
            assert answer.desired >= before.desired
            assert answer.recommended >= before.recommended
            before = answer


@pytest.mark.parametrize("gauge", ["waiting", "running"])
def test_a_pool_of_which_one_replica_tells_no_load_keeps_what_it_has(gauge: str) -> None:
    """The queue of that one is in no sum: none of what the others tell is all of it."""
    told = PodObservation("a", 5.0, requests_per_second=0.5, waiting=0.0, running=1.0)
    untold = replace(told, pod="b", **{gauge: None})  # type: ignore[arg-type]
    pool = Pool(current=4)
    pool.run(replace(seen(1.0, 2), pods=(told, untold)), 900)
    assert pool.current == 4
    assert pool.answer is not None
    assert pool.answer.explanation.reason is Reason.HoldMetricsMissing
    pool.run(replace(seen(1.0, 2), pods=(told, replace(told, pod="b"))), 900)
    assert pool.current == 1


@given(looks=st.lists(st.tuples(st.one_of(silences, observations), st.floats(0, 200)), max_size=12))
def test_no_look_without_an_answer_takes_a_replica_of_a_pair_away(
    looks: list[tuple[PoolObservation | None, float]],
) -> None:
    pools = pair(2, 5)
    for observation, seconds in looks:
        before = [pool.current for pool in pools]
        step(pools, (seen(1.0, 2), observation), seconds=seconds)
        if observation is None or observation.answered == 0:
            assert all(pool.current >= least for pool, least in zip(pools, before, strict=True))
