"""docs/reasons.md and the code name the same reasons."""

from __future__ import annotations

import re
from pathlib import Path

from weft.domain.reasons import Reason

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reasons.md"
CODE = ROOT / "operator" / "weft"


def documented_reasons() -> set[str]:
    """First cells of the page's tables, split at commas."""
    cells = re.findall(r"^\| ([A-Za-z, ]+?) \|", PAGE.read_text(), flags=re.MULTILINE)
    return {name.strip() for cell in cells for name in cell.split(",")} - {"reason"}


def test_every_reason_is_explained_and_no_other() -> None:
    """A reader finds any reason that a condition shows, and none that cannot occur."""
    assert {reason.value for reason in Reason} == documented_reasons()


def test_every_reason_is_given_somewhere() -> None:
    """A reason that no code gives is a promise that nobody keeps."""
    texts = [path.read_text() for path in CODE.rglob("*.py") if path != CODE / "domain" / "reasons.py"]
    given = {name for text in texts for name in re.findall(r"\bReason\.(\w+)", text)}
    assert given == {reason.value for reason in Reason}
