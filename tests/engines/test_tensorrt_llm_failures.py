"""How TensorRT-LLM ends, in the words of its own log."""

from __future__ import annotations

import pytest

from weft.domain.reasons import Reason
from weft.engines.tensorrt_llm.failure import tensorrt_llm_failure

_PREFIX = "[11/22/2026-21:24:19] [TRT-LLM] [RANK 2] [E] "


@pytest.mark.parametrize(
    ("text", "reason", "words"),
    [
        (
            (
                "Usage: trtllm-serve serve [OPTIONS] MODEL\nTry 'trtllm-serve serve --help' for help.\n\n"
                "Error: No such option: --max_sequences\n"
            ),
            Reason.EngineFailed,
            "Error: No such option: --max_sequences",
        ),
        (
            (
                "Traceback (most recent call last):\n"
                '  File "/usr/local/lib/python3.12/tensorrt_llm/executor/worker.py", line 9, in worker_main\n'
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.00 MiB.\n"
                f"{_PREFIX}Executor worker initialization error: Traceback (most recent call last):\n"
                "RuntimeError: Executor worker returned error\n"
            ),
            Reason.EngineFailed,
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.00 MiB.",
        ),
        (
            (
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for TorchLlmArgs\n"
                "enable_what\n  Extra inputs are not permitted [type=extra_forbidden]\n"
            ),
            Reason.EngineFailed,
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for TorchLlmArgs: enable_what",
        ),
        (
            "[TensorRT-LLM][ERROR] Assertion failed: no NIXL agent\nRuntimeError: Executor worker returned error\n",
            Reason.EngineFailed,
            "Assertion failed: no NIXL agent",
        ),
        (
            (
                f"{_PREFIX}Executor worker died during initialization.\n"
                "RuntimeError: Executor worker died during initialization\n"
            ),
            Reason.EngineCoreDied,
            "Executor worker died during initialization.",
        ),
        (
            "-----\nORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[1,0],0] on node c3a44\n",
            Reason.EngineCoreDied,
            "ORTE has lost communication with a remote daemon.",
        ),
        (
            "mpirun noticed that process rank 5 with PID 7 on node rank-1 exited on signal 9 (Killed).\n",
            Reason.EngineCoreDied,
            "mpirun noticed that process rank 5 with PID 7 on node rank-1 exited on signal 9 (Killed).",
        ),
        (
            "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\n",
            Reason.EngineCoreDied,
            "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD",
        ),
        (
            "RuntimeError: Executor worker returned error\n",
            Reason.EngineFailed,
            "RuntimeError: Executor worker returned error",
        ),
    ],
    ids=["argument", "memory", "setting", "logged", "died", "pod-gone", "rank-gone", "aborted", "wrapper-alone"],
)
def test_the_end_of_a_server_is_told_by_its_most_telling_line(text: str, reason: Reason, words: str) -> None:
    found = tensorrt_llm_failure(f"[11/22/2026-21:24:00] [TRT-LLM] [I] Using LLM with PyTorch backend\n{text}")
    assert found is not None
    assert (found.reason, found.message) == (reason, words)


def test_a_log_without_an_error_says_nothing() -> None:
    assert tensorrt_llm_failure("[11/22/2026-21:24:00] [TRT-LLM] [I] Using LLM with PyTorch backend\n") is None
