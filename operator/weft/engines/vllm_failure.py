"""Find the line of a vLLM log that says why the engine ended."""

from __future__ import annotations

import re

LONGEST_LINE = 400

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PROCESS = re.compile(r"^\((?P<process>\S+)(?: \S+)*? pid=\d+\)\s?")
_LOG_PREFIX = re.compile(r"^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \[[^\]]*\]\s?")
_USAGE_ERROR = re.compile(r"^\S.*: error: \S")
_EXCEPTION = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Failure|Timeout|Exit)\b(?:: .*\S|$)")
_NCCL = re.compile(r"NCCL (?:WARN|error|Error|ERROR)\b.*\S")
# These only say that something else failed; the cause stands in another process's lines.
_WRAPPERS = re.compile(
    r"Engine core initialization failed|Failed core proc|See (?:root cause|stack trace)|EngineDeadError"
    r"|Worker failed with error|WorkerProc initialization failed|^SystemExit|^KeyboardInterrupt"
    r"|Executor failed|cancelled$"
)
_CAUSE_FOLLOWS = re.compile(r"\d+ validation errors? for \S+$")


def vllm_failure_line(text: str) -> str | None:
    """The most telling line: a refused argument, else the last error of the deepest process, else the last wrapper."""
    lines = [_cleaned(line) for line in text.splitlines()]
    refused = [words for _, words in lines if _USAGE_ERROR.match(words)]
    if refused:
        return refused[-1][:LONGEST_LINE]
    errors = [
        (_depth(process), _with_its_cause(lines, at)) for at, (process, words) in enumerate(lines) if _is_error(words)
    ]
    causes = [(depth, words) for depth, words in errors if not _WRAPPERS.search(words)]
    chosen = causes or errors
    if not chosen:
        return None
    deepest = max(depth for depth, _ in chosen)
    return [words for depth, words in chosen if depth == deepest][-1][:LONGEST_LINE]


def _cleaned(line: str) -> tuple[str, str]:
    """The process that wrote a line (empty if it does not say) and the line without colours and log prefix."""
    plain = _ANSI.sub("", line).rstrip()
    match = _PROCESS.match(plain)
    process = match.group("process") if match else ""
    return process, _LOG_PREFIX.sub("", plain[match.end() :] if match else plain)


def _depth(process: str) -> int:
    """How near a process is to the cause: workers, then the engine core, then whoever only reports."""
    if process.startswith(("Worker", "VllmWorker")):
        return 2
    return 1 if process.startswith("EngineCore") else 0


def _is_error(words: str) -> bool:
    return bool(_EXCEPTION.match(words) or _NCCL.search(words))


def _with_its_cause(lines: list[tuple[str, str]], at: int) -> str:
    """A validation error says what was wrong on its next line."""
    words = lines[at][1].strip()
    if _CAUSE_FOLLOWS.search(words) and at + 1 < len(lines):
        return f"{words}: {lines[at + 1][1].strip()}"
    return words
