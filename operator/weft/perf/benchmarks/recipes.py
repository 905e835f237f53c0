"""Engine settings of published benchmarks that no column of a table has; known from their scripts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from weft.domain.hardware import Precision
from weft.domain.shape import EngineName

if TYPE_CHECKING:
    from weft.domain.shape import Shape
    from weft.perf.replica import ReplicaModel

_INFERENCEX = re.compile(r"inferencex|inferencemax", re.IGNORECASE)
_MANY_USERS, _FEW_GPUS = 16, 4
_LOOKS, _RARE_LOOKS = 10.0, 30.0
_WIDE_GRAPHS = 2048.0


def draws_lengths(source: str | None) -> bool:
    """Whether lengths are drawn uniformly from 0.8 to 1 times the nominal one, as InferenceX does."""
    return bool(_INFERENCEX.search(source or ""))


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
