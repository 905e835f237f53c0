"""What the pages point at is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
FOLDERS = "operator|crds|manifests|charts|tests|e2e|docs|examples|bench|requirements|.ci"
IN_THE_REPOSITORY = re.compile(rf"(?<![\w./:-])((?:{FOLDERS.replace('.', '[.]')})/[\w./-]*[\w/])")
NOT_YET = REPOSITORY / "docs" / "roadmap.md"  # names files that are to come
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


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
