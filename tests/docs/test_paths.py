"""What the pages point at is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[2]
PACKAGES = REPOSITORY / "operator" / "weft"
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
FOLDERS = "operator|crds|manifests|charts|tests|e2e|docs|examples|bench|requirements|.ci"
IN_THE_REPOSITORY = re.compile(rf"(?<![\w./:-])((?:{FOLDERS.replace('.', '[.]')})/[\w./-]*[\w/])")
NOT_YET = REPOSITORY / "docs" / "roadmap.md"  # names files that are to come
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
RULE = re.compile(r"`((?:[a-z_]+/)+[a-z_]+[.]py)(?::(\w+))?`")  # `placement/victims.py:choose_victims`


def named_paths(page: Path) -> set[Path]:
    """Folders and files of this repository that a page names, by link or in its text."""
    text = page.read_text(encoding="utf-8")
    linked = {page.parent / link for link in LINK.findall(text)}
    return linked if page == NOT_YET else linked | {REPOSITORY / path for path in IN_THE_REPOSITORY.findall(text)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_path_that_a_page_names_is_there(page: Path) -> None:
    assert [] == sorted(str(path) for path in named_paths(page) if not path.exists())


def test_paths_are_found_in_words_commands_and_links(tmp_path: Path) -> None:
    """Else the test above would hold for any page."""
    page = tmp_path / "page.md"
    page.write_text("see `manifests/base/rbac.yaml`, run `kubectl apply -k manifests/router`; [more](more.md#part)")
    named = {REPOSITORY / "manifests/base/rbac.yaml", REPOSITORY / "manifests/router", tmp_path / "more.md"}
    assert named == named_paths(page)


def named_rules(page: Path) -> set[tuple[Path, str]]:
    """Modules of our packages that a page names by their path there, each with the function or class that it names."""
    found = RULE.findall(page.read_text(encoding="utf-8"))
    return {(PACKAGES / path, name) for path, name in found if (PACKAGES / path.split("/")[0]).is_dir()}


def is_there(path: Path, name: str) -> bool:
    """Whether there is such a module, with a function, a class or a constant of that name if any is given."""
    return path.exists() and (not name or name in set(defined_in(path)))


def defined_in(path: Path) -> Iterator[str]:
    """Names that a module defines."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_rule_that_a_page_names_is_there(page: Path) -> None:
    assert [] == sorted(f"{path}:{name}" for path, name in named_rules(page) if not is_there(path, name))


def test_rules_are_found_with_and_without_a_name(tmp_path: Path) -> None:
    """Else the test above would hold for any page; modules of others are no rules of ours."""
    page = tmp_path / "page.md"
    page.write_text("see `scaling/bounds.py`, `scaling/ratio.py:RatioGuard`, `llmapi/disagg_utils.py`")
    bounds, ratio = PACKAGES / "scaling" / "bounds.py", PACKAGES / "scaling" / "ratio.py"
    assert {(bounds, ""), (ratio, "RatioGuard")} == named_rules(page)
    assert is_there(bounds, "")
    assert is_there(ratio, "RatioGuard")
    assert not is_there(ratio, "Guard")
    assert not is_there(PACKAGES / "scaling" / "guards.py", "")
