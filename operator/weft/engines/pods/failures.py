"""Find the line of an engine's log that says why it ended, or at least that one of its processes did."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_LINE = 400

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_USAGE_ERROR = re.compile(r"^\S.*: error: \S")
_EXCEPTION = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Failure|Timeout|Exit)\b(?:: .*\S|$)")
# PyTorch's words on ROCm, and those of vLLM and SGLang where they find no device of any kind
_SEES_NO_GPU = re.compile(r"No HIP GPUs are available|Failed to infer device type|No accelerator \(.* is available")
GROUP_OF_DEVICES = (
    "it sees no GPU: on AMD nodes spec.pod.supplementalGroups may have to name the group of /dev/kfd and /dev/dri there"
)
_NCCL = re.compile(r"NCCL (?:WARN|error|Error|ERROR)\b.*\S")
# Tried once for each row of digits: once for each digit, a line of 16 KiB of them took three seconds of every decision.
_CAUSE_FOLLOWS = re.compile(r"(?<!\d)\d+ validation errors? for \S+$")


@dataclass(frozen=True)
class LogForm:
    """How an engine writes its log. `cleaned` splits a line into the process that wrote it, if named, and the message.

    `depth` is how near a process is to the cause; 0 is one that only reports. `gone` are patterns of what the engine
    logs when one of its processes is gone, the most telling first: a killed process leaves no other line, and one that
    failed by itself has logged its cause, which is better than any of these. `wrappers` only say that something else
    failed.
    """

    cleaned: Callable[[str], tuple[str, str]]
    depth: Callable[[str], int]
    gone: tuple[str, ...]
    wrappers: tuple[str, ...]

    @cached_property
    def _only_reports(self) -> re.Pattern[str]:
        return re.compile("|".join([*self.gone, *self.wrappers, r"^SystemExit|^KeyboardInterrupt"]))

    def failure(self, text: str) -> Explanation | None:
        """The most telling line: a refused argument, else the deepest process' last error, else a lost process."""
        lines = [self.cleaned(_ANSI.sub("", line).rstrip()) for line in text.splitlines()]
        refused = [words for _, words in lines if _USAGE_ERROR.match(words)]
        if refused:
            return Explanation(Reason.EngineFailed, refused[-1][:LONGEST_LINE])
        errors = [
            (self.depth(process), _with_its_cause(lines, at))
            for at, (process, words) in enumerate(lines)
            if _is_error(words)
        ]
        causes = [(depth, words) for depth, words in errors if not self._only_reports.search(words)]
        if not causes and (gone := self._gone(lines)) is not None:
            return Explanation(Reason.EngineCoreDied, gone[:LONGEST_LINE])
        chosen = causes or errors
        if not chosen:
            return None
        deepest = max(depth for depth, _ in chosen)
        last = [words for depth, words in chosen if depth == deepest][-1]
        return Explanation(Reason.EngineFailed, _with_what_helps(last[:LONGEST_LINE]))

    def _gone(self, lines: list[tuple[str, str]]) -> str | None:
        """The most telling line about a process that is gone; None if there is no such line."""
        patterns = (re.compile(words) for words in self.gone)
        said = (words.strip() for pattern in patterns for _, words in lines if pattern.search(words))
        return next(said, None)


def _is_error(words: str) -> bool:
    return bool(_EXCEPTION.match(words) or _NCCL.search(words))


def _with_what_helps(words: str) -> str:
    """An error message, and what a user may do about it where its words do not say so."""
    return f"{words} ({GROUP_OF_DEVICES})" if _SEES_NO_GPU.search(words) else words


def _with_its_cause(lines: list[tuple[str, str]], at: int) -> str:
    """An error message; a validation error says what was wrong on its next line, which is joined."""
    words = lines[at][1].strip()
    if _CAUSE_FOLLOWS.search(words) and at + 1 < len(lines):
        return f"{words}: {lines[at + 1][1].strip()}"
    return words
