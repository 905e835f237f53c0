"""Time per token of short answers, whose few steps are nearly all beside prompts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.percentiles import busy_case
from tests.perf.replicas import replica
from weft.domain.hardware import Precision
from weft.domain.workload import Role, Workload
from weft.perf.answers import followed
from weft.perf.lengths import lengths
from weft.perf.service import Service, service
from weft.perf.sharing import for_one_more, prompts_of_a_step

H200 = replica("Llama-3.3-70B-Instruct", "H200", Precision.FP8, 2)
FEW_WORDS = (1000, 2000, 3, 6)


def _server(sizes: tuple[int, int, int, int]) -> Service:
    inputs, long_inputs, outputs, long_outputs = sizes
    return service(H200, Workload(1.0, inputs, outputs, long_inputs, long_outputs), Role.Aggregated)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("sizes", [FEW_WORDS, (1000, 1000, 5, 5), (4000, 8000, 5, 10)])
@pytest.mark.parametrize("busy", [0.85, 0.95])
def test_short_answers_near_capacity_take_as_long_as_a_simulation_says(
    sizes: tuple[int, int, int, int], busy: float
) -> None:
    """Tails of up to 46 times the simulated ones were predicted, as if all prompts that queue came before an answer."""
    assert all(0.8 < each < 1.3 for each in busy_case(H200, sizes, busy).off().tpot[1:])


@given(st.floats(0.001, 0.98), st.sampled_from([FEW_WORDS, (200, 200, 2, 2), (4000, 8000, 5, 10)]))
def test_no_token_takes_longer_than_a_step_that_prompts_fill(part: float, sizes: tuple[int, int, int, int]) -> None:
    server = _server(sizes)
    point = server.at_batch(part * server.seats)
    assert point.decode is not None
    costs = server.prompts
    full = costs.per_step * sum(kind.weight * kind.shared for kind in costs.kinds)
    longest = max(point.tpot.mean, point.decode.seconds + max(full, costs.host - point.decode.seconds))
    assert all(point.tpot.at(percentile) <= longest * (1 + 1e-9) for percentile in (50, 90, 95, 99))


@given(st.floats(0.01, 0.95), st.integers(1, 60))
def test_what_follows_from_a_step_is_met_as_far_as_the_answer_lasts(grows: float, steps: int) -> None:
    met = sum((1 - grows**left) ** 2 for left in range(1, steps + 1)) / steps
    assert followed(grows, float(steps)) == pytest.approx(met, rel=1e-6, abs=1e-9)


@given(st.floats(1e-3, 20.0))
def test_one_more_prompt_adds_what_the_costs_of_a_step_grow_by(came: float) -> None:
    """A step that has any prompts costs a second: each of those that come bears its part, one more adds less."""
    little = 1e-5 * came
    low, high = ((came + by) / prompts_of_a_step(came + by, 1e9) for by in (-little, little))
    assert for_one_more(came) / prompts_of_a_step(came, 1e9) == pytest.approx((high - low) / (2 * little), rel=1e-3)


def test_an_answer_has_a_time_less_between_its_tokens_than_tokens() -> None:
    assert lengths(10, 10).gaps == pytest.approx((9.0, 1.0))
    mean, shortness = lengths(3, 6).gaps
    assert 2.0 < mean < 2.3  # answers of one token have no time between any: they count as of two
    assert 1.1 < shortness < 1.6
