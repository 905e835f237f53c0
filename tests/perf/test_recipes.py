"""What published benchmarks did that no column says."""

from __future__ import annotations

import math

import pytest

from tests.perf.replicas import replica
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, Shape
from weft.perf.benchmarks.closed_loop import USUAL_ROUNDS
from weft.perf.benchmarks.recipes import draws_lengths, graph_tokens, rounds_of, steps_between_looks

SGLANG = Shape(EngineName.SGLang, "B200", Precision.NVFP4, tensor_parallel=4)
EIGHT, FOUR = (Shape(EngineName.SGLang, "B200", Precision.FP8, tensor_parallel=each) for each in (8, 4))
INFERENCEX = "InferenceX (table in a planner)"


@pytest.mark.parametrize(
    ("shape", "users", "steps"),
    [(SGLANG, 15, 10), (SGLANG, 16, 30), (EIGHT, 4, 10), (EIGHT, 64, 30), (FOUR, 4, 10), (FOUR, 64, 10)],
)
def test_inferencex_lets_sglang_look_at_requests_seldom_on_a_b200(shape: Shape, users: float, steps: float) -> None:
    assert steps_between_looks(INFERENCEX, shape, users) == steps


@pytest.mark.parametrize(
    ("source", "shape"),
    [
        (None, SGLANG),
        ("measured here", SGLANG),
        (INFERENCEX, Shape(EngineName.SGLang, "H200", Precision.FP8, tensor_parallel=8)),
        (INFERENCEX, Shape(EngineName.VLLM, "B200", Precision.FP8, tensor_parallel=8)),
    ],
)
def test_every_other_engine_looks_at_every_step(source: str | None, shape: Shape) -> None:
    assert steps_between_looks(source, shape, 64) == 1


@pytest.mark.parametrize(
    ("source", "drawn"), [("InferenceMAX v1", True), ("a sweep", False), ("", False), (None, False)]
)
def test_inferencex_draws_lengths(source: str | None, drawn: bool) -> None:  # noqa: FBT001 - a case
    assert draws_lengths(source) is drawn


@pytest.mark.parametrize(
    ("source", "model", "precision", "tokens"),
    [
        (INFERENCEX, "gpt-oss-120b", Precision.MXFP4, 2048),
        (INFERENCEX, "Llama-3.3-70B-Instruct", Precision.FP8, 512),
        (None, "gpt-oss-120b", Precision.MXFP4, 1024),
    ],
)
def test_inferencex_has_vllm_capture_larger_graphs_for_gpt_oss(
    source: str | None, model: str, precision: Precision, tokens: float
) -> None:
    assert graph_tokens(source, replica(model, "H200", precision)) == tokens


@pytest.mark.parametrize(
    ("note", "users", "rounds"),
    [
        (None, 8, USUAL_ROUNDS),
        ("closed loop, aggregated", 8, USUAL_ROUNDS),
        ("measured 2026-03; 400 prompts in all", 64, 6.25),
        ("50 prompts at once", 50, 1.0),
        ("50 prompts in all", 64, 1.0),
        ("once settled", 8, math.inf),
        ("400 prompts in all", 0, USUAL_ROUNDS),
    ],
)
def test_a_note_tells_how_often_each_user_asked(note: str | None, users: float, rounds: float) -> None:
    assert rounds_of(note, users) == rounds
