"""How samples of documents are compared with what is printed, and written anew with `WEFT_GOLDEN=write`."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FIGURE = re.compile(r"\b[0-9][0-9.,]*(?: (?:ms|s|min|h|%))?|\s+")
_LEFT_OUT = "..."


def without_figures(text: str) -> str:
    """Each figure with its unit is a mark, and each space is one."""
    return "".join(
        f"{_FIGURE.sub(lambda found: '#' if found[0].strip() else ' ', line)}\n" for line in text.splitlines()
    )


def pattern_of(shown: str) -> str:
    """What a sample matches: a line of three dots stands for any lines."""
    return "".join(
        r"(?:.*\n)+?" if line.strip() == _LEFT_OUT else re.escape(f"{line}\n") for line in shown.splitlines()
    )


def sample_of(page: Path, command: str, shown: str, printed: str) -> str:
    """The sample as it is shown; with `WEFT_GOLDEN=write` a new one: what is printed, less what dots stand for."""
    if os.environ.get("WEFT_GOLDEN") != "write":
        return shown
    text, now = page.read_text(encoding="utf-8"), _as_left_out(shown, printed)
    before = f"$ weft {command}\n{shown}```"
    assert 1 == text.count(before), command
    page.write_text(text.replace(before, f"$ weft {command}\n{now}```"), encoding="utf-8")
    return now


def _as_left_out(shown: str, printed: str) -> str:
    """What is printed, without the lines that the sample has dots for."""
    parts = re.split(rf"(?m)^ *{re.escape(_LEFT_OUT)}\n", shown)
    if len(parts) == 1:
        return printed
    found = re.fullmatch(
        r"(?:.*\n)+?".join(f"({re.escape(without_figures(part))})" for part in parts), without_figures(printed)
    )
    assert found is not None, printed
    lines, dots = printed.splitlines(keepends=True), re.findall(rf"(?m)^ *{re.escape(_LEFT_OUT)}\n", shown)
    kept = [_lines_of(found, number, lines) for number in range(1, len(parts) + 1)]
    return kept[0] + "".join(dot + part for dot, part in zip(dots, kept[1:], strict=True))


def _lines_of(found: re.Match[str], group: int, lines: list[str]) -> str:
    first, last = (found.string.count("\n", 0, where) for where in found.span(group))
    return "".join(lines[first:last])
