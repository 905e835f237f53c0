"""Samples of documents written anew: what is printed now, and still without what dots stand for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.docs.samples import pattern_of, sample_of

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = "simulate -f pool.yaml"
SHOWN = "served  1,000\n  ...\nwithin the SLO  98 %\n"
PRINTED = "served  2,500\n  at noon  7\n  at night  1\nwithin the SLO  99.5 %\n"
ANEW = "served  2,500\n  ...\nwithin the SLO  99.5 %\n"
OTHER = "```\n$ weft fabric\nserved  1,000\n```\n"


@pytest.fixture
def writing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `WEFT_GOLDEN=write pytest`."""
    monkeypatch.setenv("WEFT_GOLDEN", "write")


def page_with(folder: Path, *samples: str) -> Path:
    """A page with words around these samples of the command, and one of another command."""
    page = folder / "page.md"
    page.write_text(f"Before – it.\n{OTHER}" + "".join(map(block, samples)) + "After it.\n", encoding="utf-8")
    return page


def block(shown: str) -> str:
    return f"```\n$ weft {COMMAND}\n{shown}```\n"


@pytest.mark.parametrize("wish", [None, "read"])
def test_a_page_stays_as_it_is_while_nobody_wants_it_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wish: str | None
) -> None:
    monkeypatch.delenv("WEFT_GOLDEN", raising=False)
    if wish is not None:
        monkeypatch.setenv("WEFT_GOLDEN", wish)
    page = page_with(tmp_path, SHOWN)
    before = page.read_bytes()
    assert SHOWN == sample_of(page, COMMAND, SHOWN, PRINTED)
    assert before == page.read_bytes()


@pytest.mark.usefixtures("writing")
@pytest.mark.parametrize(
    ("shown", "anew"),
    [
        ("served  1,000\nwithin the SLO  98 %\n", PRINTED),
        (SHOWN, ANEW),
        ("...\nwithin the SLO  98 %\n", "...\nwithin the SLO  99.5 %\n"),
        ("served  1,000\n  at noon  6\n...\n", "served  2,500\n  at noon  7\n...\n"),
        ("...\n  at noon  12\n  ...\nwithin the SLO  1 %\n", "...\n  at noon  7\n  ...\nwithin the SLO  99.5 %\n"),
        ("served  0\n...\n", "served  2,500\n...\n"),
    ],
    ids=["whole", "middle", "beginning", "end", "twice", "all but one line"],
)
def test_what_is_printed_now_takes_the_place_of_the_sample_and_of_nothing_else(
    tmp_path: Path, shown: str, anew: str
) -> None:
    """Lines that the sample shows have their new figures, and those that it left out stay left out."""
    page = page_with(tmp_path, shown)
    assert anew == sample_of(page, COMMAND, shown, PRINTED)
    written = page.read_bytes()
    assert page_with(tmp_path, anew).read_bytes() == written


@pytest.mark.usefixtures("writing")
def test_a_sample_that_was_written_matches_what_is_printed_and_stays_as_it_is(tmp_path: Path) -> None:
    page = page_with(tmp_path, SHOWN)
    first = sample_of(page, COMMAND, SHOWN, PRINTED)
    written = page.read_bytes()
    assert re.fullmatch(pattern_of(first), PRINTED)
    assert first == sample_of(page, COMMAND, first, PRINTED)
    assert written == page.read_bytes()


@pytest.mark.usefixtures("writing")
@pytest.mark.parametrize("samples", [(), (SHOWN, SHOWN)], ids=["absent", "twice"])
def test_a_page_that_does_not_have_the_sample_once_is_not_written(tmp_path: Path, samples: tuple[str, ...]) -> None:
    page = page_with(tmp_path, *samples)
    before = page.read_bytes()
    with pytest.raises(AssertionError, match=re.escape(COMMAND)):
        sample_of(page, COMMAND, SHOWN, PRINTED)
    assert before == page.read_bytes()


@pytest.mark.usefixtures("writing")
@pytest.mark.parametrize(
    "printed",
    [PRINTED.replace("served", "lost"), "served  2,500\nwithin the SLO  99.5 %\n"],
    ids=["other words", "nothing in between"],
)
def test_where_nobody_can_tell_what_dots_stand_for_the_page_stays_as_it_is(tmp_path: Path, printed: str) -> None:
    """They stand for one line at least, as where samples are compared."""
    page = page_with(tmp_path, SHOWN)
    before = page.read_bytes()
    with pytest.raises(AssertionError, match="2,500"):
        sample_of(page, COMMAND, SHOWN, printed)
    assert before == page.read_bytes()
