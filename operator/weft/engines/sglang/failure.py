"""Find in SGLang's log why it ended; the patterns are from the releases 0.5.3, 0.5.10 and 0.5.23."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from weft.engines.pods.failures import LogForm

if TYPE_CHECKING:
    from weft.domain.reasons import Explanation

# `[2026-11-22 10:00:00 TP0] words`; the process that serves HTTP names no rank.
_PREFIX = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?P<process>(?: [A-Z]+\d+)*)\]\s?")


def sglang_failure(text: str) -> Explanation | None:
    """The most telling line of SGLang's log; None if none says why it ended."""
    return _FORM.failure(text)


def _cleaned(line: str) -> tuple[str, str]:
    """The ranks that a line names and the line without its log prefix. Traceback lines have no prefix."""
    match = _PREFIX.match(line)
    return (match.group("process").strip(), line[match.end() :]) if match else ("", line)


_FORM = LogForm(
    cleaned=_cleaned,
    depth=lambda _process: 0,  # tracebacks, which hold the cause, name no process
    gone=(
        r"Rank \d+ scheduler died during initialization",
        r"Subprocess \S+ \(pid=\d+\) crashed",
        r"Rank \d+ scheduler is dead",
        r"SIGQUIT received|Received sigquit from a child process",
        r"Initialization failed\. Please see the error messages above",
    ),
    wrappers=(r"^EOFError",),
)
