"""docs/rules.md says what each rule and each class of failure means that tests, comments and decision records name."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEFINED = set(re.findall(r"^\| ([SLF]\d+) \|", (ROOT / "docs" / "rules.md").read_text(), flags=re.MULTILINE))
DOCSTRING = re.compile(r'"""(?:[^"]|"(?!""))*"""')
NAME = re.compile(r"(?<![\w.-])(?:[SF]\d{1,2}|L[1-5])(?![\w-])")


def named() -> set[str]:
    """Names of rules in docstrings of tests and in decision records."""
    docstrings = [text for path in (ROOT / "tests").rglob("*.py") for text in DOCSTRING.findall(path.read_text())]
    records = [path.read_text() for path in (ROOT / "docs" / "adr").glob("*.md")]
    return {name for text in (*docstrings, *records) for name in NAME.findall(text)}


def test_whatever_rule_is_named_is_explained_and_no_class_of_failure_is_listed_for_nothing() -> None:
    assert named() <= DEFINED
    assert {each for each in DEFINED if each.startswith("F")} <= named()
