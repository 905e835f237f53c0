"""The line that says why an engine ended, out of logs as vLLM writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.domain.shape import EngineName
from weft.engines import adapter_for

VLLM = adapter_for(EngineName.VLLM)
CORE = "(EngineCore_DP0 pid=71) ERROR 11-21 05:00:01 [core.py:712] "
SERVER = "(APIServer pid=1) "

LOGS = {
    "unknown argument": (
        "usage: vllm serve [model_tag] [options]\nvllm serve: error: unrecognized arguments: --no-such-flag 3\n",
        "vllm serve: error: unrecognized arguments: --no-such-flag 3",
    ),
    "out of memory": (
        (
            f'{CORE}Traceback (most recent call last):\n{CORE}  File "core.py", line 1, in run\n'
            f"{CORE}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
            f"{SERVER}Traceback (most recent call last):\n"
            f"{SERVER}RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): 1\n"
        ),
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ),
    "no room for KV": (
        (
            f"{CORE}ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.\n"
            f"{SERVER}RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): 1\n"
        ),
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.",
    ),
    "a worker's cause before the core's": (
        (
            "(Worker_TP1 pid=90) ERROR 11-21 05:00:00 [multiproc_executor.py:559] "
            "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled system error\n"
            f"{CORE}Exception: WorkerProc initialization failed due to an exception in a background process.\n"
            f"{SERVER}RuntimeError: Engine core initialization failed. See root cause above.\n"
        ),
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled system error",
    ),
    "validation": (
        (
            f"{SERVER}Traceback (most recent call last):\n"
            f"{SERVER}pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
            f"{SERVER}  Value error, User-specified max_model_len (9999) is greater than the derived max_model_len\n"
            f"{SERVER}    For further information visit a page\n"
        ),
        (
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig: "
            "Value error, User-specified max_model_len (9999) is greater than the derived max_model_len"
        ),
    ),
    "only a wrapper": (
        f"{SERVER}RuntimeError: Engine core initialization failed. See root cause above.\n",
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ),
    "the last of several": (
        "OSError: first\nTraceback (most recent call last):\nhub.errors.GatedRepoError: 401 Client Error.\n",
        "hub.errors.GatedRepoError: 401 Client Error.",
    ),
    "colours": ("\x1b[1;36m(EngineCore pid=7)\x1b[0;0m ValueError: bad\n", "ValueError: bad"),
}


@pytest.mark.parametrize("name", LOGS)
def test_the_root_cause_is_found(name: str) -> None:
    text, expected = LOGS[name]
    assert VLLM.failure_line(text) == expected


def test_a_log_without_errors_gives_nothing() -> None:
    assert (
        VLLM.failure_line("INFO 11-21 05:00:00 [api_server.py:1] Starting\nINFO: 10.0.0.1 GET /health 200 OK\n") is None
    )


@given(st.text(max_size=2000))
def test_any_text_is_read_and_the_answer_is_short(text: str) -> None:
    line = VLLM.failure_line(text)
    assert line is None or 0 < len(line) <= 400
