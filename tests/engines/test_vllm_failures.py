"""The line that says why an engine ended, out of logs as vLLM writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.domain.reasons import Explanation, Reason
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
    "no access to AMD's devices": (
        f"{SERVER}RuntimeError: No HIP GPUs are available\n",
        (
            "RuntimeError: No HIP GPUs are available (it sees no GPU: on AMD nodes spec.pod.supplementalGroups may "
            "have to name the group of /dev/kfd and /dev/dri there)"
        ),
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
    "the last of several": (
        "OSError: first\nTraceback (most recent call last):\nhub.errors.GatedRepoError: 401 Client Error.\n",
        "hub.errors.GatedRepoError: 401 Client Error.",
    ),
    "colours": ("\x1b[1;36m(EngineCore pid=7)\x1b[0;0m ValueError: bad\n", "ValueError: bad"),
}


@pytest.mark.parametrize("name", LOGS)
def test_the_root_cause_is_found(name: str) -> None:
    text, expected = LOGS[name]
    assert VLLM.failure(text) == Explanation(Reason.EngineFailed, expected)


# What 0.32.0 wrote when its core was killed by a signal; the process then ends with exit code 0.
KILLED = f"""\
{SERVER}INFO:     127.0.0.1:42944 - "POST /v1/completions HTTP/1.1" 200 OK
(Worker pid=12755) INFO 11-21 08:29:14 [multiproc_executor.py:843] Parent process exited, terminating worker queues
{SERVER}WARNING 11-21 08:29:14 [core_client.py:817] [shutdown] MPClient: engine core exited unexpectedly; \
starting cleanup
{SERVER}INFO 11-21 08:29:14 [core_client.py:777] [shutdown] MPClient: complete
{SERVER}ERROR 11-21 08:29:14 [async_llm.py:906] AsyncLLM output_handler failed.
{SERVER}ERROR 11-21 08:29:14 [async_llm.py:906] Traceback (most recent call last):
{SERVER}ERROR 11-21 08:29:14 [async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an \
issue. See stack trace (above) for the root cause.
INFO:     Finished server process [1]
"""
PEER_RESET = (
    "RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] "
    "Read error [10.80.1.5]:24776: Connection reset by peer."
)
PEER_EXITED = (
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, "
    "remote process exited or there was a network error, NCCL version 2.27.5"
)
GONE = {
    "a killed core": (KILLED, "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup"),
    "a killed worker": (
        (
            f"{CORE}Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.\n"
            f"{SERVER}vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.\n"
        ),
        "Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.",
    ),
    "a core of an earlier version": (
        (
            f"{SERVER}ERROR 11-21 08:29:14 [core_client.py:600] "
            "Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.\n"
        ),
        "Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.",
    ),
    "a core that was killed as it started": (
        (
            f"{SERVER}RuntimeError: Engine core initialization failed. See root cause above. "
            "Failed core proc(s): {'EngineCore_DP0': -9}\n"
        ),
        (
            "RuntimeError: Engine core initialization failed. See root cause above. "
            "Failed core proc(s): {'EngineCore_DP0': -9}"
        ),
    ),
    "a rank of another pod, over Gloo": (
        (
            f"(Worker_TP0 pid=35) ERROR 11-22 22:05:57 [multiproc_executor.py:1063] {PEER_RESET}\n"
            f"(EngineCore pid=21) ERROR 11-22 22:05:57 [core.py:1512] "
            f"RuntimeError: Worker failed with error '{PEER_RESET}'\n"
            f"{SERVER}ERROR 11-22 22:05:57 [async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError: "
            "EngineCore encountered an issue. See stack trace (above) for the root cause.\n"
        ),
        PEER_RESET,
    ),
    "a rank of another pod, over NCCL": (
        f"(Worker_TP0 pid=90) ERROR 11-21 05:00:00 [multiproc_executor.py:559] {PEER_EXITED}\n",
        PEER_EXITED,
    ),
}


@pytest.mark.parametrize("name", GONE)
def test_a_process_that_is_gone_without_a_cause_is_told_as_that(name: str) -> None:
    text, expected = GONE[name]
    assert VLLM.failure(text) == Explanation(Reason.EngineCoreDied, expected)


def test_a_cause_is_worth_more_than_the_word_that_a_process_is_gone() -> None:
    failure = VLLM.failure(f"{CORE}torch.OutOfMemoryError: CUDA out of memory.\n{KILLED}")
    assert failure == Explanation(Reason.EngineFailed, "torch.OutOfMemoryError: CUDA out of memory.")


def test_a_log_without_errors_gives_nothing() -> None:
    assert VLLM.failure("INFO 11-21 05:00:00 [api_server.py:1] Starting\nINFO: 10.0.0.1 GET /health 200 OK\n") is None


@given(st.text(max_size=2000))
def test_any_text_is_read_and_the_answer_is_short(text: str) -> None:
    failure = VLLM.failure(text)
    assert failure is None or 0 < len(failure.message) <= 400
