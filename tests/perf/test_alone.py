"""Rows that measure one half alone: decode without prompts, prompts without answers."""

from __future__ import annotations

import pytest

from tests.perf.replicas import CATALOG
from tests.perf.rows import measured, row
from weft.domain.errors import Invalid
from weft.perf.benchmarks.alone import MeasuredHalf, alone_in
from weft.perf.benchmarks.expected import Expected, expected
from weft.perf.benchmarks.measured import measurement
from weft.perf.steps import stepper

TWO = "; two-batch overlap"
DEEPSEEK = {"model": "DeepSeek-V3", "gpu": "H100", "engine": "sglang", "tp": "1", "n_gpus": "", "kv_precision": ""}


def found(**columns: str) -> Expected:
    return expected(measurement(row(**columns), CATALOG), CATALOG)


def rate(answer: Expected) -> float:
    assert answer.output_rate is not None
    return answer.output_rate.value


def per_token(answer: Expected) -> float:
    assert answer.tpot is not None
    return answer.tpot.value


@pytest.mark.parametrize(
    ("note", "half"),
    [
        ("decode-only, EP72", MeasuredHalf.Decode),
        ("Prefill only: natural routing", MeasuredHalf.Prefill),
        ("disaggregated, decode-only", MeasuredHalf.Decode),
        ("closed loop", None),
        ("prefill-onlyish", None),
        ("", None),
    ],
)
def test_a_note_says_which_half_was_measured_alone(note: str, half: MeasuredHalf | None) -> None:
    assert alone_in(note) is half


def test_decode_alone_has_no_first_token_and_no_prompt_between_its_steps() -> None:
    alone, both = found(note="decode-only"), found()
    assert alone.ttft is None
    assert per_token(alone) < per_token(both)
    assert rate(alone) == pytest.approx(16 / per_token(alone))


def test_decode_alone_is_as_fast_as_the_decode_half_of_a_split_whose_prompts_never_wait() -> None:
    halves = found(note="P:D = 64 x (tp2 dp1 ep1) : 1 x (tp2 dp1 ep1)")
    assert per_token(found(note="decode-only")) == pytest.approx(per_token(halves))


def test_users_without_a_seat_do_not_make_decode_faster_or_its_tokens_slower() -> None:
    full, more = (found(note="decode-only", isl="30000", concurrency=users) for users in ("5000", "10000"))
    assert per_token(full) == per_token(more)
    assert rate(full) == rate(more)


def test_decode_alone_at_a_rate_answers_that_rate() -> None:
    at_rate = found(note="decode-only", concurrency="", request_rate="2")
    assert rate(at_rate) == pytest.approx(2 * 500, rel=1e-3)
    assert per_token(at_rate) < per_token(found(note="decode-only", concurrency="64"))


def test_prompts_alone_are_answers_of_one_token_and_never_more_than_can_be_computed() -> None:
    """In a loop with answers, a part of the users' prompts comes together; here all of their time is prompts."""
    rates = [rate(found(note="prefill-only", concurrency=str(users))) for users in (1, 2, 4, 8, 64, 512)]
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(rates[-2])
    assert found(note="prefill-only").tpot is None
    assert measured(note="prefill-only").output_tokens == 1


@pytest.mark.parametrize(
    ("columns", "per_second"),
    [
        # DeepSeek on nodes of eight H100 (LMSYS, 2025-05-05): 22,300 tokens per second of each decode node, 52,300 of
        # each prefill node at 2,000 tokens; on 48 GB200 (2025-09-25) and two nodes of H20 (2025-09-26). The numbers of
        # sequences in decode are assumed.
        ({"dp": "72", "ep": "72", "isl": "2000", "osl": "100", "concurrency": "18432", "note": "decode-only"}, 200_700),
        ({"dp": "32", "ep": "32", "isl": "2000", "osl": "1", "concurrency": "256", "note": "prefill-only"}, 104.6),
        (
            {"gpu": "GB200", "dp": "48", "ep": "48", "isl": "2000", "osl": "2000", "concurrency": "36864"}
            | {"note": "decode-only"},
            436_176,
        ),
        (
            {"gpu": "H20", "dp": "16", "ep": "16", "isl": "4096", "osl": "1536", "concurrency": "512"}
            | {"note": "decode-only"},
            11_400,
        ),
    ],
)
def test_published_rates_of_large_expert_groups_are_met_within_two_thirds(
    columns: dict[str, str], per_second: float
) -> None:
    """No fit has seen them; counted as loops of both halves they were off by factors of 3 to 20."""
    assert per_second * 0.6 < rate(found(**DEEPSEEK | columns)) < per_second * 1.5


def test_a_half_alone_that_has_no_load_is_refused() -> None:
    with pytest.raises(Invalid, match="concurrency"):
        found(note="decode-only", concurrency="")


PREFILL = {**DEEPSEEK, "dp": "32", "ep": "32", "isl": "2000", "osl": "1", "concurrency": "256"}


def test_two_batches_hide_the_shorter_of_computing_and_exchanging_with_experts() -> None:
    model = measurement(row(**PREFILL, note="prefill-only"), CATALOG).replica
    prompt = stepper(model).prefill(2000, 0, 2 * 2000 / model.efficiency.batched_tokens)  # of batches of half a step
    overlapped = found(**PREFILL, note="prefill-only; two-batch overlap")
    assert rate(overlapped) == pytest.approx(32 / (prompt.seconds - prompt.parts.exchanges))
    assert rate(overlapped) > 1.2 * rate(found(**PREFILL, note="prefill-only"))


def test_without_experts_on_other_gpus_two_batches_only_cost_launches() -> None:
    one, two = (found(note=f"prefill-only{more}", isl="1000", osl="1", concurrency="64") for more in ("", TWO))
    assert rate(two) < rate(one)


def test_fuller_steps_launch_a_prompt_less_often() -> None:
    usual, named, fuller = (
        rate(found(**PREFILL, note=f"prefill-only; {each} tokens a step")) for each in ("some", 8192, 16384)
    )
    assert usual == named < fuller
