"""docs/reasons.md and the code name the same reasons."""

from __future__ import annotations

import re
from pathlib import Path

from weft.domain.reasons import Reason

PAGE = Path(__file__).parents[2] / "docs" / "reasons.md"


def documented_reasons() -> set[str]:
    """First cells of the page's tables, split at commas."""
    cells = re.findall(r"^\| ([A-Za-z, ]+?) \|", PAGE.read_text(), flags=re.MULTILINE)
    return {name.strip() for cell in cells for name in cell.split(",")} - {"reason"}


def test_every_reason_is_explained_and_no_other() -> None:
    """A reader finds any reason that a condition shows, and none that cannot occur."""
    assert {reason.value for reason in Reason} == documented_reasons()
