"""S4 and S5: counts stay within bounds and never shrink on missing metrics, whatever is scraped; L1."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench.fluid import Fluid
from tests.scaling.cases import Pool, seen
from tests.scaling.scrapes import COUNTERS, GAUGES, SCRAPES, Line, observed, scraped
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.snapshot import PoolObservation

numbers = st.one_of(
    st.none(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(0, 50),
    st.sampled_from([0.0, -1.0, 1e308]),
)
observations = st.one_of(
    st.none(),
    st.builds(
        PoolObservation,
        expected=st.integers(0, 5),
        answered=st.integers(0, 5),
        age_seconds=st.one_of(st.floats(0, 90), st.floats(allow_nan=True)),
        requests_per_second=numbers,
        waiting=numbers,
        running=numbers,
        kv_usage=numbers,
    ),
    scraped,
)
specs = st.builds(
    ScalingSpec,
    min_replicas=st.integers(1, 4),
    max_replicas=st.integers(4, 12),
    max_gpus=st.one_of(st.none(), st.integers(1, 100)),
    max_step=st.one_of(st.none(), st.integers(1, 3)),
    scale_down_delay_seconds=st.sampled_from([0.5, 30.0, 300.0]),
    headroom=st.floats(0, 1),
)
capacities = st.one_of(st.floats(0, 20), st.sampled_from([0.0, 1e-300, 1e300]))


@given(spec=specs, capacity=capacities, looks=st.lists(st.tuples(observations, st.floats(0, 200)), max_size=12))
def test_counts_stay_within_bounds_and_steps(
    spec: ScalingSpec, capacity: float, looks: list[tuple[PoolObservation | None, float]]
) -> None:
    pool = Pool(spec=spec, capacity=capacity)
    for observation, seconds in looks:
        before = pool.current
        answer = pool.step(observation, seconds)
        budget = 10_000 if spec.max_gpus is None else spec.max_gpus
        assert min(spec.min_replicas, budget // pool.gpus) <= pool.current <= spec.max_replicas
        assert pool.current * pool.gpus <= budget
        assert (answer.shortfall is not None) == (budget < spec.min_replicas * pool.gpus)
        assert not before or abs(pool.current - before) <= (spec.max_step or 100)


@given(spec=specs, looks=st.lists(st.tuples(observations, st.floats(0, 200)), max_size=12))
def test_an_incomplete_look_never_shrinks_a_pool(
    spec: ScalingSpec, looks: list[tuple[PoolObservation | None, float]]
) -> None:
    pool = Pool(spec=spec)
    for observation, seconds in looks:
        before = pool.current
        pool.step(observation, seconds)
        if observation is None or not observation.complete:
            assert pool.current >= before


@given(spec=specs, capacity=capacities, looks=st.lists(st.tuples(observations, st.floats(0, 200)), max_size=6))
def test_a_second_look_at_the_same_time_changes_nothing(
    spec: ScalingSpec, capacity: float, looks: list[tuple[PoolObservation | None, float]]
) -> None:
    pool = Pool(spec=spec, capacity=capacity)
    for observation, seconds in looks:
        first = pool.step(observation, seconds)
        second = pool.step(observation, 0.0)
        assert (second.desired, second.explanation, second.memory) == (first.desired, first.explanation, first.memory)
        assert second.changed is None


@given(growth=st.floats(0, 500), at=st.integers(0, SCRAPES - 1), capacity=st.floats(0.1, 20))
@example(growth=46.0, at=1, capacity=1.0)
def test_engines_that_restart_buy_no_replicas_and_count_as_no_collapse(growth: float, at: int, capacity: float) -> None:
    """What a counter lost by its restart is at most what it counted since the scrape before."""
    steady: Line = [growth] * SCRAPES
    restarted: Line = [*steady[:at], "restarts", *steady[at + 1 :]]
    counts = []
    for counter in (steady, restarted):
        pool = Pool(capacity=capacity)
        idle: Line = [0.0] * SCRAPES
        pool.step(observed([{**dict.fromkeys(GAUGES, idle), **dict.fromkeys(COUNTERS, counter)}]))
        counts.append(pool.current)
    most, found = counts
    assert most * (SCRAPES - 3) / (SCRAPES - 1) - 1 <= found <= most


@settings(max_examples=50, deadline=None)
@given(gaps=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 60)), min_size=1, max_size=6))
def test_no_order_in_which_replicas_miss_scrapes_shrinks_a_pool(gaps: list[tuple[int, int]]) -> None:
    """So many of five are silent in so many looks, with what they answered; then others, or nobody."""
    pool = Pool(declared_rate=8.0)
    pool.run(seen(8.0, 5), 600)
    before = pool.current
    for silent, looks in gaps:
        answered = 5 - silent
        pool.run(seen(8.0 * answered / 5 if answered else None, 5, answered=answered), looks * 10.0)
        assert min(pool.history) >= before


@pytest.mark.parametrize("replicas_worth", [0.0, 0.01, 0.5, 0.999, 1.0, 1.001, 1.5, 2.0, 2.5, 9.99, 10.0, 10.01, 33.3])
@pytest.mark.parametrize("startup_seconds", [20.0, 120.0, 600.0])
def test_a_constant_load_on_either_side_of_a_whole_replica_settles(
    replicas_worth: float, startup_seconds: float
) -> None:
    """A grid where rounding could go both ways: it grows, perhaps shrinks, and stays after an hour."""
    pool = Fluid(capacity=3.0, declared_rate=3.0, startup_seconds=startup_seconds)
    pool.run([3.0 * replicas_worth] * 720)
    assert len(set(pool.counts[360:])) == 1
    assert pool.counts[-1] >= replicas_worth
    steps = [later - earlier for earlier, later in pairwise(pool.counts) if later != earlier]
    assert steps == sorted(steps, key=lambda step: step < 0)
