"""Settings of engines and clients in published benchmarks that no column of a table has.

They are known from the benchmarks' scripts, or a row's note says them.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from weft.domain.hardware import Precision
from weft.domain.shape import EngineName
from weft.perf.benchmarks.closed_loop import USUAL_ROUNDS

if TYPE_CHECKING:
    from weft.domain.shape import Shape
    from weft.perf.replica import ReplicaModel

_INFERENCEX = re.compile(r"inferencex|inferencemax", re.IGNORECASE)
_PROMPTS = re.compile(r"\b(\d+) prompts (?:at once|in all)\b", re.IGNORECASE)
_STEP_TOKENS = re.compile(r"\b(\d+) tokens a step\b", re.IGNORECASE)
_TWO_BATCHES = re.compile(r"\btwo-batch overlap\b", re.IGNORECASE)
_SETTLED = re.compile(r"\bonce settled\b", re.IGNORECASE)
_MANY_USERS, _FEW_GPUS = 16, 4
_LOOKS, _RARE_LOOKS = 10.0, 30.0
_WIDE_GRAPHS = 2048.0


def draws_lengths(source: str | None) -> bool:
    """Whether lengths are drawn uniformly from 0.8 to 1 times the nominal one, as InferenceX does."""
    return bool(_INFERENCEX.search(source or ""))


def rounds_of(note: str | None, users: float) -> float:
    """Requests of each of so many `users` that latencies are means over, as a note tells (`400 prompts in all`).

    Infinite for latencies of a loop `once settled`, and as many as usual if the note says nothing.
    """
    told = _PROMPTS.search(note or "")
    if told is not None and users:
        return max(1.0, float(told[1]) / users)
    return math.inf if _SETTLED.search(note or "") else USUAL_ROUNDS


def step_tokens(note: str | None, replica: ReplicaModel) -> float:
    """Tokens of a full step of a rank, as a note tells (`16384 tokens a step`), or else the engine's default."""
    told = _STEP_TOKENS.search(note or "")
    return float(told[1]) if told is not None and float(told[1]) >= 1.0 else replica.efficiency.batched_tokens


def overlaps_batches(note: str | None) -> bool:
    """Whether a note says that steps are two batches, one of which computes while tokens of the other are under way.

    `--enable-two-batch-overlap` of SGLang, `--enable-dbo` of vLLM.
    """
    return bool(_TWO_BATCHES.search(note or ""))


def steps_between_looks(source: str | None, shape: Shape, users: float) -> float:
    """Decode steps between two polls for new requests: 1, unless a benchmark configured more.

    InferenceX gives SGLang on B200 `--scheduler-recv-interval 10`, and 30 from 16 users on but in FP8 on four GPUs
    (`benchmarks/dsr1_fp4_b200.sh` and `dsr1_fp8_b200.sh`), and none on H200 (`dsr1_fp8_h200.sh`).
    """
    asked = draws_lengths(source) and shape.engine is EngineName.SGLang and shape.accelerator == "B200"
    if not asked:
        return 1.0
    seldom = shape.tensor_parallel == _FEW_GPUS and shape.precision is Precision.FP8
    return _LOOKS if users < _MANY_USERS or seldom else _RARE_LOOKS


def graph_tokens(source: str | None, replica: ReplicaModel) -> float:
    """Tokens of the largest step with a captured graph: what the engine does by default, unless a benchmark asked.

    InferenceX has vLLM capture up to 2,048 tokens for gpt-oss on every GPU (`benchmarks/gptoss_fp4_*.sh`), and not for
    Llama (`70b_fp8_*.sh`, `70b_fp4_b200_docker.sh`).
    """
    shape, captured = replica.shape, replica.efficiency.graph_tokens
    asked = draws_lengths(source) and shape.engine is EngineName.VLLM and shape.precision is Precision.MXFP4
    return _WIDE_GRAPHS if asked else captured
