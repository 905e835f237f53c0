"""What is expected of a row: values with intervals, or the reason why there are none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.replicas import CATALOG
from tests.perf.rows import LAYOUT, ROW, measured
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.perf.benchmarks.expected import Estimate, Expected, expected

if TYPE_CHECKING:
    from weft.perf.benchmarks.measured import Measurement

DISAGGREGATED = {"model": "DeepSeek-R1", "gpu": "GB200", "tp": "1", "dp": "32", "ep": "32", "note": LAYOUT}


def expect(**columns: str) -> Expected:
    return expected(measured(**columns), CATALOG)


def width(estimate: Estimate) -> float:
    return estimate.high / estimate.low


def value(estimate: Estimate | None) -> float:
    assert estimate is not None
    return estimate.value


@pytest.mark.parametrize(
    ("columns", "crowd"),
    [
        ({}, ""),
        ({"request_rate": "2", "concurrency": ""}, ""),
        ({"request_rate": "1000", "concurrency": ""}, "crowded_"),
        ({"model": "gpt-oss-120b", "precision": "FP4"}, ""),
        ({"engine_version": "0.32.0"}, ""),
        ({"gpu": "MI300X", "concurrency": "5"}, ""),
        ({"gpu": "MI300X", "concurrency": "500"}, "crowded_"),
        (DISAGGREGATED, ""),
    ],
    ids=["closed loop", "open loop", "flood", "experts", "newer release", "never measured", "crowd", "disaggregated"],
)
def test_intervals_hold_their_value_and_end_where_the_catalog_says(columns: dict[str, str], crowd: str) -> None:
    """Those of first tokens are others where prompts wait for each other."""
    at, found = measured(**columns), expect(**columns)
    spread = CATALOG.spread(at.replica.architecture, at.replica.shape, at.replica.accelerator, at.release)
    ends = {
        "ttft": (getattr(spread, f"{crowd}ttft_below"), getattr(spread, f"{crowd}ttft")),
        "tpot": (spread.tpot_below, spread.tpot),
        "output_rate": (spread.output_rate_below, spread.output_rate),
    }
    for name, (below, above) in ends.items():
        estimate = getattr(found, name)
        most = at.rate * at.output_tokens if name == "output_rate" and at.rate else math.inf
        assert 0 < estimate.low < estimate.value <= estimate.high
        assert estimate.value / estimate.low == pytest.approx(below)
        assert estimate.high == pytest.approx(min(most, estimate.value * above))


def test_intervals_are_wider_where_all_requests_come_at_once_which_nothing_was_fitted_to() -> None:
    """In a release that is not newer than the table, or its fast end reached further either way."""
    loop, at_once = expect(engine_version="0.15.0"), expect(engine_version="0.15.0", request_rate="inf")
    for name in ("tpot", "output_rate"):
        assert width(getattr(at_once, name)) == pytest.approx(width(getattr(loop, name)) ** 2)


def test_intervals_widen_from_a_measured_model_to_another_one_and_to_combinations_that_nobody_measured() -> None:
    """A 70B Llama was measured with vLLM in FP8 on Hopper, a 14B Qwen was not, and nobody measured BF16."""
    assert ("Hopper", "VLLM", "BF16") not in CATALOG.uncertainty.measured
    seen, unseen = expect(), expect(model="Qwen3-14B")
    never = expect(model="Qwen3-14B", precision="BF16")
    for name in ("ttft", "tpot", "output_rate"):
        near, far, furthest = (width(getattr(each, name)) for each in (seen, unseen, never))
        assert 1.05 * near < far
        assert 1.05 * far < furthest


def test_a_release_newer_than_any_row_is_predicted_alike_and_may_be_faster() -> None:
    known, newer, unsaid = (expect(engine_version=each) for each in ("0.18.0", "0.26.0", ""))
    assert newer == unsaid
    for name in ("ttft", "tpot"):
        before, after = getattr(known, name), getattr(newer, name)
        assert (before.value, before.high) == (after.value, after.high)
        assert 1.1 * after.low < before.low
    assert value(known.output_rate) == value(newer.output_rate)
    assert known.output_rate is not None
    assert newer.output_rate is not None
    assert known.output_rate.low == newer.output_rate.low
    assert 1.1 * known.output_rate.high < newer.output_rate.high


def test_closed_loops_obey_littles_law() -> None:
    """A time per output token is of those after the first, so that an answer of 500 takes 499 of them."""
    found = expect(concurrency="32")
    inside = value(found.output_rate) / 500 * (value(found.ttft) + 499 * value(found.tpot))
    assert inside == pytest.approx(32)


@pytest.mark.parametrize("users", ["1", "8", "64"])
def test_of_answers_of_one_token_all_users_wait_for_the_first(users: str) -> None:
    found = expect(concurrency=users, isl="4096", osl="1")
    assert found.tpot is None
    assert value(found.output_rate) * value(found.ttft) == pytest.approx(int(users))


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
        assert value(expect(request_rate=str(rate), concurrency="").output_rate) == pytest.approx(500 * rate)


def test_no_more_is_expected_of_an_open_loop_than_was_offered() -> None:
    kept, flooded = (expect(request_rate=rate, concurrency="").output_rate for rate in ("2", "1000"))
    assert kept is not None
    assert flooded is not None
    assert kept.high == kept.value == pytest.approx(1000)
    assert flooded.value < flooded.high < 500_000


def test_a_bound_on_requests_under_way_that_is_never_reached_changes_nothing() -> None:
    """Two a second of some five seconds each are ten under way."""
    assert expect(request_rate="2", concurrency="") == expect(request_rate="2", concurrency="64")


def test_users_wait_for_each_other_where_the_bound_is_reached_before_the_rate() -> None:
    """As a closed loop of so many, however much more is offered: the others wait outside, where nobody measures."""
    closed, bound = expect(concurrency="8"), expect(request_rate="50", concurrency="8")
    assert (closed.ttft, closed.tpot) == (bound.ttft, bound.tpot)
    assert value(closed.output_rate) == value(bound.output_rate) < 50 * 500
    unbound = expect(request_rate="50", concurrency="")
    assert value(bound.ttft) < value(unbound.ttft)


@given(st.floats(0.01, 100.0), st.integers(1, 4000))
def test_a_rate_with_a_bound_gives_no_more_than_either_alone(rate: float, users: int) -> None:
    both = value(expect(request_rate=str(rate), concurrency=str(users)).output_rate)
    offered = rate * 500
    assert both <= offered * (1 + 1e-9)
    closed = value(expect(concurrency=str(users)).output_rate)
    assert both <= max(closed, value(expect(request_rate=str(rate), concurrency="").output_rate)) * (1 + 1e-9)


def test_above_capacity_no_more_comes_out_than_the_seats_give() -> None:
    flood = value(expect(request_rate="1000", concurrency="").output_rate)
    assert flood == pytest.approx(value(expect(request_rate="2000", concurrency="").output_rate))
    assert flood < 1.05 * value(expect(request_rate="inf", concurrency="").output_rate)


def test_weights_larger_than_the_gpus_of_prefill_are_refused_too() -> None:
    with pytest.raises(Invalid, match=r"weights take .* GiB of each GPU"):
        expect(**{**DISAGGREGATED, "note": LAYOUT.replace("(tp1 dp8 ep8)", "(tp1 dp1 ep1)")})


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
            assert 0 < estimate.low < estimate.value <= estimate.high
            assert math.isfinite(estimate.high)


def test_several_replicas_share_the_load_and_add_up() -> None:
    one = expected(measured(tp="8", n_gpus="8", concurrency="16"), CATALOG)
    three = expected(measured(tp="8", n_gpus="24", concurrency="48"), CATALOG)
    assert (three.ttft, three.tpot) == (one.ttft, one.tpot)
    assert one.output_rate is not None
    assert three.output_rate is not None
    assert three.output_rate.value == pytest.approx(3 * one.output_rate.value)


def test_a_split_answers_at_a_rate_as_at_the_concurrency_that_gives_it() -> None:
    closed = expected(apart(users=64), CATALOG)
    assert closed.output_rate is not None
    rate = closed.output_rate.value / float(ROW["osl"])
    opened = expected(apart(rate=rate), CATALOG)
    for at_users, at_rate in ((closed.ttft, opened.ttft), (closed.tpot, opened.tpot)):
        assert at_users is not None
        assert at_rate is not None
        assert at_rate.value == pytest.approx(at_users.value, rel=0.02)
    assert opened.output_rate is not None
    assert opened.output_rate.value == pytest.approx(closed.output_rate.value)
    full = expected(apart(rate=math.inf), CATALOG)
    assert full.ttft is None
    assert full.output_rate is not None
    assert full.output_rate.value > closed.output_rate.value


def apart(users: int | None = None, rate: float | None = None) -> Measurement:
    load = {"concurrency": str(users or ""), "request_rate": str(rate or "")}
    return measured(note="2P1D", tp="8", n_gpus="24", **load)
