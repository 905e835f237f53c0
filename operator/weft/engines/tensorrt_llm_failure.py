"""Find the line of a `trtllm-serve` log that says why it ended, or at least that a rank of it did."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_LINE = 400

# `[11/22/2026-21:24:19] [TRT-LLM] [RANK 2] [E] ` of Python, `[TensorRT-LLM][ERROR] ` of C++.
_LOGGED = re.compile(r"^(?:\[[\d/:-]+\] )?(?:\[TRT-LLM\](?: \[[^\]]*\])* ?\[E\]|\[TensorRT-LLM\]\[ERROR\])\s*")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_USAGE_ERROR = re.compile(r"^Error: \S")  # click's, of an argument
_EXCEPTION = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Failure|Timeout|Exit)\b(?:: .*\S|$)")
_NCCL = re.compile(r"NCCL (?:WARN|error|Error|ERROR)\b.*\S")
# A rank that was killed leaves no line of its own, only what the others say of it.
_GONE = re.compile(
    r"Executor worker died|MPI_ABORT was invoked on rank|BrokenExecutor|BrokenProcessPool|"
    r"(?:process|rank) \S+ .*(?:exited on signal|killed by signal) \d+"
)
# These only say that something else failed.
_WRAPPERS = re.compile(
    rf"{_GONE.pattern}|Executor worker returned error|Failed to initialize executor|^SystemExit|^KeyboardInterrupt"
)
_CAUSE_FOLLOWS = re.compile(r"\d+ validation errors? for \S+$")


def tensorrt_llm_failure(text: str) -> Explanation | None:
    """The most telling line: a refused argument, else the last exception, else the last logged error, else who is gone.

    All ranks write into one log, and a wrapper's exception follows the one that it is about.
    """
    lines = [_ANSI.sub("", line).rstrip() for line in text.splitlines()]
    for is_one in (_USAGE_ERROR.match, _is_exception, _LOGGED.match):
        causes = [_with_its_cause(lines, at) for at, line in enumerate(lines) if _tells(line, is_one)]
        if causes:
            return Explanation(Reason.EngineFailed, causes[-1][:LONGEST_LINE])
    gone = next((line for line in lines if _GONE.search(line)), None)
    if gone is not None:
        return Explanation(Reason.EngineCoreDied, _words(gone)[:LONGEST_LINE])
    wrapper = next((line for line in reversed(lines) if _WRAPPERS.search(line)), None)
    return None if wrapper is None else Explanation(Reason.EngineFailed, _words(wrapper)[:LONGEST_LINE])


def _tells(line: str, is_one: Callable[[str], object]) -> bool:
    return bool(is_one(line)) and not _WRAPPERS.search(line)


def _is_exception(line: str) -> bool:
    words = _words(line)
    return bool(_EXCEPTION.match(words) or _NCCL.search(words))


def _words(line: str) -> str:
    return _LOGGED.sub("", line).strip()


def _with_its_cause(lines: list[str], at: int) -> str:
    """A validation error says what was wrong on its next lines: the field, then the sentence."""
    words = _words(lines[at])
    if not _CAUSE_FOLLOWS.search(words):
        return words
    return ": ".join((words, *(line.strip() for line in lines[at + 1 : at + 3])))
