"""What a shape costs is what runs: with headroom, from the fewest replicas to the most that are allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shaping.cases import CATALOG, GB200, H100, LLAMA_8B, LLAMA_70B, Wish
from weft.domain.capacity import Capacity
from weft.domain.scaling_spec import MOST_NODES, ScalingSpec
from weft.domain.spec import ShapePins
from weft.shaping.choice import answer

BY_RATE = Wish(LLAMA_8B, (H100,))


def replicas(wish: Wish) -> int:
    return answer(wish.request(), CATALOG).scored.replicas


def test_headroom_is_paid_for() -> None:
    """At a rate that three replicas serve exactly, any headroom takes a fourth."""
    capacity = BY_RATE.plan().prediction.capacity
    full = replace(BY_RATE, rate=3 * capacity)
    assert replicas(replace(full, scaling=ScalingSpec(headroom=0.0))) == 3
    assert replicas(replace(full, scaling=ScalingSpec(headroom=0.01))) == 4
    assert replicas(replace(full, scaling=ScalingSpec(headroom=1.0))) == 6


def test_the_fewest_replicas_are_paid_for_whatever_the_rate() -> None:
    assert replicas(replace(BY_RATE, rate=0.1, scaling=ScalingSpec(min_replicas=5))) == 5


def test_two_replicas_that_have_to_run_make_small_ones_cheaper() -> None:
    """One large replica would serve the rate, and two of them cost twice as much as two small ones."""
    wish = Wish(LLAMA_8B, (H100,), rate=30, scaling=ScalingSpec(min_replicas=4))
    chosen = answer(wish.request(), CATALOG).scored
    assert (chosen.shape.gpus, chosen.replicas, chosen.cost) == (1, 4, 4.0)


def test_replicas_of_many_pods_are_bounded_by_the_nodes_that_a_pool_may_hold() -> None:
    """A rate beyond them is said to be served in part."""
    wish = Wish(
        LLAMA_70B, (GB200,), rate=1e5, pins=ShapePins(tensor_parallel=16), scaling=ScalingSpec(max_replicas=1000)
    )
    chosen = answer(wish.request(), CATALOG)
    shape = chosen.scored.shape
    assert shape.pods > 2
    assert chosen.scored.replicas == MOST_NODES // shape.pods
    served = MOST_NODES // shape.pods * chosen.plan.prediction.capacity / 1e5
    assert chosen.scored.served == pytest.approx(served)
    assert f"as many as are allowed serve {served:.0%} of it" in chosen.plan.verdict.message


BOUNDS = st.builds(
    lambda least, more, gpus: ScalingSpec(min_replicas=least, max_replicas=least + more, max_gpus=gpus),
    st.integers(1, 50),
    st.integers(0, 100),
    st.none() | st.integers(0, 5000),
)


@given(BOUNDS, st.floats(0.01, 1e9), st.floats(0.0, 100.0), st.integers(1, 72), st.integers(1, 18))
def test_what_runs_is_within_the_bounds_and_enough_unless_they_bind(
    spec: ScalingSpec, rate: float, capacity: float, gpus: int, pods: int
) -> None:
    allowed, runs = spec.affordable(gpus, pods), spec.running(rate, Capacity(capacity), gpus, pods)
    assert 1 <= runs <= max(1, allowed)
    assert runs >= min(spec.min_replicas, allowed)
    if capacity > 0 and runs < allowed:
        assert runs * capacity * (1 + 1e-9) >= rate * (1 + spec.headroom) * (1 - 1e-6)
