"""Find the line of a vLLM log that says why the engine ended, or at least that a process of it did."""

from __future__ import annotations

import re

from weft.domain.reasons import Explanation, Reason

LONGEST_LINE = 400

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PROCESS = re.compile(r"^\((?P<process>\S+)(?: \S+)*? pid=\d+\)\s?")
_LOG_PREFIX = re.compile(r"^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \[[^\]]*\]\s?")
_USAGE_ERROR = re.compile(r"^\S.*: error: \S")
_EXCEPTION = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Failure|Timeout|Exit)\b(?:: .*\S|$)")
_NCCL = re.compile(r"NCCL (?:WARN|error|Error|ERROR)\b.*\S")
# What vLLM says when one of its processes is gone, the most telling first. A process that was killed leaves no other
# line; one that failed by itself has left its cause, which is better than any of these. A process of another pod is
# gone when a collective loses its peer (Gloo on the CPU, NCCL on GPUs).
_GONE = tuple(
    re.compile(words)
    for words in (
        r"Worker proc \S+ died unexpectedly",
        r"Process \S+ \(PID: \d+\) died with exit code",
        r"Engine core proc(?:ess)? \S+ died unexpectedly",
        r"gloo/transport/.*Connection (?:reset|closed) by peer|remote process exit(?:ed|ing)",
        r"engine core exited unexpectedly",
        r"Failed core proc|Engine core initialization failed",
        r"Worker failed with error|WorkerProc initialization failed|Executor failed",
        r"EngineDeadError",
    )
)
# These only say that something else failed; the cause stands in another process's lines.
_WRAPPERS = re.compile(
    "|".join([*(gone.pattern for gone in _GONE), r"See (?:root cause|stack trace)", r"^SystemExit|^KeyboardInterrupt"])
    + r"|cancelled$"
)
_CAUSE_FOLLOWS = re.compile(r"\d+ validation errors? for \S+$")


def vllm_failure(text: str) -> Explanation | None:
    """The most telling line: a refused argument, else the last error of the deepest process, else who is gone."""
    lines = [_cleaned(line) for line in text.splitlines()]
    refused = [words for _, words in lines if _USAGE_ERROR.match(words)]
    if refused:
        return Explanation(Reason.EngineFailed, refused[-1][:LONGEST_LINE])
    errors = [
        (_depth(process), _with_its_cause(lines, at)) for at, (process, words) in enumerate(lines) if _is_error(words)
    ]
    causes = [(depth, words) for depth, words in errors if not _WRAPPERS.search(words)]
    if not causes and (gone := _gone(lines)) is not None:
        return Explanation(Reason.EngineCoreDied, gone[:LONGEST_LINE])
    chosen = causes or errors
    if not chosen:
        return None
    deepest = max(depth for depth, _ in chosen)
    return Explanation(Reason.EngineFailed, [words for depth, words in chosen if depth == deepest][-1][:LONGEST_LINE])


def _gone(lines: list[tuple[str, str]]) -> str | None:
    """The most telling line about a process that is gone."""
    said = (words.strip() for pattern in _GONE for _, words in lines if pattern.search(words))
    return next(said, None)


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
