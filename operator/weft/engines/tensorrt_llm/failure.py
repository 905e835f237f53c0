"""Find in the log of `trtllm-serve` why it ended."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.engines.pods.failures import LONGEST_LINE, LogForm

if TYPE_CHECKING:
    from collections.abc import Iterable

# `[11/22/2026-21:24:19] [TRT-LLM] [RANK 2] [E] words` from Python, `[TensorRT-LLM][ERROR] words` from C++.
_LOGGED = re.compile(r"^(?:\[[\d/:-]+\] )?(?:\[TRT-LLM\](?: \[[^\]]*\])* ?\[E\]|\[TensorRT-LLM\]\[ERROR\])\s*")
_USAGE_ERROR = re.compile(r"^Error: \S")  # click's message about an argument
_GONE = (
    r"Executor worker died",
    r"MPI_ABORT was invoked on rank",
    r"BrokenExecutor|BrokenProcessPool",
    r"exited on signal \d+",
    r"has lost communication with a remote daemon",  # Open MPI's message: a pod of the replica is gone
    r"peer process has unexpectedly disconnected",
)
_WRAPPERS = (r"Executor worker returned error", r"Executor worker initialization error")
_ONLY_REPORTS = re.compile("|".join((*_GONE, *_WRAPPERS)))


def tensorrt_llm_failure(text: str) -> Explanation | None:
    """The most telling line: a refused argument, else the last exception, else the last logged error, else a lost rank.

    All ranks write into one log, and the exception that a rank ends with comes before what other ranks say of it.
    """
    lines = text.splitlines()
    refused = [line for line in lines if _USAGE_ERROR.match(line)]
    if refused:
        return _failed(refused)
    found = _FORM.failure(text)
    if found is not None and found.reason is Reason.EngineFailed and not _ONLY_REPORTS.search(found.message):
        return found
    logged = [_words(line) for line in lines if _LOGGED.match(line) and not _ONLY_REPORTS.search(line)]
    return _failed(logged) if logged else found


def _failed(lines: Iterable[str]) -> Explanation:
    *_, last = lines
    return Explanation(Reason.EngineFailed, last.strip()[:LONGEST_LINE])


def _words(line: str) -> str:
    return _LOGGED.sub("", line)


_FORM = LogForm(cleaned=lambda line: ("", _words(line)), depth=lambda _process: 0, gone=_GONE, wrappers=_WRAPPERS)
