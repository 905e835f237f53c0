"""The line that says why an engine ended, out of logs as SGLang writes them."""

from __future__ import annotations

import pytest

from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import EngineName
from weft.engines import adapter_for

SGLANG = adapter_for(EngineName.SGLang)
TRACE = 'Traceback (most recent call last):\n  File "scheduler.py", line 1, in run\n'
STAMP = "[2026-11-22 10:00:00{}] "
SIGNALLED = (
    f"{STAMP.format('')}Received sigquit from a child process. It usually means the child failed.\n"
    f"{STAMP.format('')}SIGQUIT received. signum=3, frame=None. It usually means one child failed.\n"
)

LOGS = {
    "unknown argument": (
        "usage: launch_server.py [-h]\nlaunch_server.py: error: unrecognized arguments: --no-such-flag\n",
        "launch_server.py: error: unrecognized arguments: --no-such-flag",
    ),
    "out of memory": (
        (
            f"{STAMP.format(' TP1')}Scheduler hit an exception: {TRACE}"
            f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n\n{SIGNALLED}"
        ),
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ),
    "no room for KV": (
        (
            f"{STAMP.format(' DP0 TP0')}Scheduler hit an exception: {TRACE}"
            f"RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n{SIGNALLED}"
            f"{STAMP.format('')}Rank 0 scheduler is dead. Please check if there are relevant logs.\n{TRACE}EOFError\n"
        ),
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    ),
    "no access to AMD's devices": (
        f"{TRACE}RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA, MPS) is available.\n",
        (
            "RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA, MPS) is available. (it sees no GPU: on AMD nodes "
            "spec.pod.supplementalGroups may have to name the group of /dev/kfd and /dev/dri there)"
        ),
    ),
    "network": (
        (
            f"{STAMP.format(' TP3')}Scheduler hit an exception: {TRACE}"
            "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled system error\n"
        ),
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled system error",
    ),
    "a refused combination": (
        f"{TRACE}ValueError: Currently ngram speculative decoding does not support dp attention.\n",
        "ValueError: Currently ngram speculative decoding does not support dp attention.",
    ),
    "a cause before the scheduler that died of it": (
        f"{TRACE}OSError: gated repo\n{TRACE}RuntimeError: Rank 0 scheduler died during initialization.\n",
        "OSError: gated repo",
    ),
}

GONE = {
    "killed as it started": (
        f"{TRACE}RuntimeError: Rank 0 scheduler died during initialization (exit code: -9). See the kernel's log.\n",
        "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9). See the kernel's log.",
    ),
    "killed as it ran": (
        (
            f"{STAMP.format('')}Subprocess scheduler_0 (pid=71) crashed with exit code -9. Triggering SIGQUIT for "
            f"cleanup...\n{SIGNALLED}"
        ),
        "Subprocess scheduler_0 (pid=71) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
    ),
    "an older release": (
        f"{STAMP.format('')}Rank 1 scheduler is dead. Please check if there are relevant logs.\n{TRACE}EOFError\n",
        "Rank 1 scheduler is dead. Please check if there are relevant logs.",
    ),
    "only the signal": (
        SIGNALLED,
        "Received sigquit from a child process. It usually means the child failed.",
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_the_root_cause_is_found(name: str) -> None:
    text, expected = LOGS[name]
    assert SGLANG.failure(text) == Explanation(Reason.EngineFailed, expected)


@pytest.mark.parametrize("name", GONE)
def test_a_process_that_is_gone_without_a_cause_is_told_as_that(name: str) -> None:
    text, expected = GONE[name]
    assert SGLANG.failure(text) == Explanation(Reason.EngineCoreDied, expected)


def test_a_log_without_errors_gives_nothing() -> None:
    assert (
        SGLANG.failure(f"{STAMP.format(' TP0')}Load weight end.\n{STAMP.format('')}The server is fired up!\n") is None
    )
