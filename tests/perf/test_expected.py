"""What is expected of a row: values with intervals, or the reason why there are none."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.replicas import CATALOG
from tests.perf.rows import LAYOUT, measured
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.perf.expected import Estimate, Expected, expected

DISAGGREGATED = {"model": "DeepSeek-R1", "gpu": "GB200", "tp": "1", "dp": "32", "ep": "32", "note": LAYOUT}


def expect(**columns: str) -> Expected:
    return expected(measured(**columns), CATALOG)


def width(estimate: Estimate) -> float:
    return estimate.high / estimate.low


def value(estimate: Estimate | None) -> float:
    assert estimate is not None
    return estimate.value


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"request_rate": "2", "concurrency": ""},
        {"model": "gpt-oss-120b", "precision": "FP4"},
        {"gpu": "MI300X", "concurrency": "500"},
        DISAGGREGATED,
    ],
    ids=["closed loop", "open loop", "experts", "never measured", "disaggregated"],
)
def test_intervals_hold_their_value_and_end_where_the_catalog_says(columns: dict[str, str]) -> None:
    at, found = measured(**columns), expect(**columns)
    spread = CATALOG.spread(at.replica.architecture, at.replica.shape, at.replica.accelerator)
    ends = {
        "ttft": (spread.ttft_below, spread.ttft),
        "tpot": (spread.tpot_below, spread.tpot),
        "output_rate": (spread.output_rate_below, spread.output_rate),
    }
    for name, (below, above) in ends.items():
        estimate = getattr(found, name)
        assert 0 < estimate.low < estimate.value < estimate.high
        assert estimate.value / estimate.low == pytest.approx(below)
        assert estimate.high / estimate.value == pytest.approx(above)


def test_intervals_widen_from_a_measured_model_to_another_one_and_to_combinations_that_nobody_measured() -> None:
    """A 70B Llama was measured with vLLM in FP8 on Hopper, a 14B Qwen was not, and nobody measured BF16."""
    assert ("Hopper", "VLLM", "BF16") not in CATALOG.uncertainty.measured
    seen, unseen = expect(), expect(model="Qwen3-14B")
    never = expect(model="Qwen3-14B", precision="BF16")
    for name in ("ttft", "tpot", "output_rate"):
        near, far, furthest = (width(getattr(each, name)) for each in (seen, unseen, never))
        assert 1.05 * near < far
        assert 1.05 * far < furthest


def test_closed_loops_obey_littles_law() -> None:
    found = expect(concurrency="32")
    inside = value(found.output_rate) / 500 * (value(found.ttft) + 500 * value(found.tpot))
    assert inside == pytest.approx(32)


def test_disaggregated_replicas_are_expected_together() -> None:
    """Three decoders share the users: a token takes less than on one with all of them."""
    found = expect(**DISAGGREGATED, concurrency="1200")
    alone = expect(**{**DISAGGREGATED, "note": ""}, concurrency="1200")
    assert value(found.tpot) < value(alone.tpot)


def test_a_batch_that_is_queued_at_once_has_no_first_token_to_wait_for() -> None:
    few, all_seats = expect(request_rate="inf"), expect(request_rate="inf", concurrency="")
    assert few.ttft is None
    assert all_seats.ttft is None
    assert value(few.output_rate) == pytest.approx(16 / value(few.tpot))
    assert value(all_seats.output_rate) > value(few.output_rate)


def test_a_rate_that_can_be_kept_up_comes_out_as_it_went_in() -> None:
    for rate in (0.001, 1.0, 3.0):
        assert value(expect(request_rate=str(rate)).output_rate) == pytest.approx(500 * rate)


def test_above_capacity_no_more_comes_out_than_the_seats_give() -> None:
    flood = value(expect(request_rate="1000").output_rate)
    assert flood == pytest.approx(value(expect(request_rate="2000").output_rate))
    assert flood < 1.05 * value(expect(request_rate="inf", concurrency="").output_rate)


def test_weights_larger_than_the_gpu_are_refused_with_both_sizes() -> None:
    with pytest.raises(Invalid, match=r"weights take 131\.\d GiB of each GPU, which has 79\.\d GiB") as refused:
        expect(gpu="H100", tp="1", precision="BF16")
    assert refused.value.reason is Reason.OutOfMemory
    assert value(expect(gpu="H100", tp="2", precision="BF16").tpot) > 0


MODELS = st.sampled_from(
    [model.model_id for model in CATALOG.models if model.model_id.rpartition("/")[2].startswith(("L", "g", "D", "N"))]
)
NAMES = st.sampled_from([accelerator.name for accelerator in CATALOG.accelerators])
LOADS = st.tuples(st.integers(1, 10**7), st.sampled_from(["", "inf"]) | st.floats(1e-9, 1e7).map(str))
LENGTHS = st.tuples(st.floats(1, 1e8), st.floats(1, 1e8))
SIZES = st.tuples(st.integers(1, 4096), st.integers(1, 4096), st.integers(1, 4096))


@given(MODELS, NAMES, st.sampled_from(["vllm", "sglang", "trtllm"]), st.tuples(LOADS, LENGTHS, SIZES))
def test_whatever_is_asked_the_answer_is_finite_or_refused(
    model: str,
    gpu: str,
    engine: str,
    asked: tuple[tuple[int, str], tuple[float, float], tuple[int, int, int]],
) -> None:
    (users, rate), (input_tokens, output_tokens), (tensor, pipeline, data) = asked
    sizes = {"tp": str(tensor), "pp": str(pipeline), "dp": str(data)}
    load = {"concurrency": str(users), "request_rate": rate, "isl": str(input_tokens), "osl": str(output_tokens)}
    try:
        found = expect(model=model, gpu=gpu, engine=engine, precision="BF16", **sizes, **load)
    except Invalid:
        return
    for estimate in (found.ttft, found.tpot, found.output_rate):
        if estimate is not None:
            assert 0 < estimate.low < estimate.value < estimate.high
            assert math.isfinite(estimate.high)
