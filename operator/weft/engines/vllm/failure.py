"""Find in vLLM's log why it ended."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from weft.engines.pods.failures import LogForm

if TYPE_CHECKING:
    from weft.domain.reasons import Explanation

_PROCESS = re.compile(r"^\((?P<process>\S+)(?: \S+)*? pid=\d+\)\s?")
_LOG_PREFIX = re.compile(r"^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \[[^\]]*\]\s?")


def vllm_failure(text: str) -> Explanation | None:
    """The most telling line of vLLM's log; None if none says why it ended."""
    return _FORM.failure(text)


def _cleaned(line: str) -> tuple[str, str]:
    """The process that wrote a line (empty if it does not say) and the line without its log prefix."""
    match = _PROCESS.match(line)
    process = match.group("process") if match else ""
    return process, _LOG_PREFIX.sub("", line[match.end() :] if match else line)


def _depth(process: str) -> int:
    """How near a process is to the cause: workers 2, the engine core 1, those that only report 0."""
    if process.startswith(("Worker", "VllmWorker")):
        return 2
    return 1 if process.startswith("EngineCore") else 0


_FORM = LogForm(
    cleaned=_cleaned,
    depth=_depth,
    gone=(
        r"Worker proc \S+ died unexpectedly",
        r"Process \S+ \(PID: \d+\) died with exit code",
        r"Engine core proc(?:ess)? \S+ died unexpectedly",
        r"gloo/transport/.*Connection (?:reset|closed) by peer|remote process exit(?:ed|ing)",
        r"engine core exited unexpectedly",
        r"Failed core proc|Engine core initialization failed",
        r"Worker failed with error|WorkerProc initialization failed|Executor failed",
        r"EngineDeadError",
    ),
    wrappers=(r"See (?:root cause|stack trace)", r"cancelled$"),
)
