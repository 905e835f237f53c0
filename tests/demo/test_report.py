"""The report is one file that needs nothing else: it can be mailed, and opened years later without a network."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from e2e.demo.figures import Figures
from tests.demo.looks import NAMES, timeline

if TYPE_CHECKING:
    from pathlib import Path

    from e2e.demo.timeline import Timeline

SVG = "http://www.w3.org/2000/svg"  # the name of a kind of element: nothing is fetched from there


class Page(HTMLParser):
    """Elements of a page, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag == "script":
            self._in_script = True
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_script = self._in_script and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts[-1] += data

    @property
    def data(self) -> dict[str, Any]:
        """What its script draws."""
        found: dict[str, Any] = json.loads(self.scripts[0])
        return found


def page(run: Timeline, folder: Path) -> Page:
    """Write the report, and read it."""
    path = folder / "report.html"
    run.write(path)
    assert [path] == list(folder.iterdir())
    return Page(path.read_text(encoding="utf-8"))


def test_nothing_is_fetched_to_open_it(tmp_path: Path) -> None:
    report = page(timeline(1.0), tmp_path)
    assert {SVG} == set(re.findall(r"\w+://[^\s\"'<>)]+", report.text))
    assert {"src", "href", "srcset", "poster", "action"}.isdisjoint(name for name, _ in report.attributes)
    assert re.search(r"url\(|@import|\bimport\b|fetch\(|XMLHttpRequest|<link|[\"'(]//", report.text) is None


def test_it_opens_with_the_reasons_and_the_series_of_every_pool(tmp_path: Path) -> None:
    data = page(timeline(1.0, 2.0), tmp_path).data
    assert NAMES == [pool["name"] for pool in data["pools"]]
    assert NAMES == [event["what"] for event in data["events"]]
    assert all(event["reason"] and event["message"] for event in data["events"])
    assert [1.0, 2.0] == [sample["t"] for sample in data["samples"]]
    for sample in data["samples"]:
        assert NAMES == list(sample["pools"])


def test_what_its_script_asks_for_is_in_the_page(tmp_path: Path) -> None:
    """A name that is spelt otherwise would leave a card empty."""
    report = page(timeline(1.0), tmp_path)
    script = report.scripts[1]
    places = set(re.findall(r'getElementById\("([\w-]+)"\)', script))
    series = set(re.findall(r'series\(pool\.name, "(\w+)"\)', script))
    assert places >= {"data", "events", "pools"}
    assert places <= {value for name, value in report.attributes if name == "id"}
    assert set(re.findall(r"\brun\.(\w+)", script)) <= set(report.data)
    assert series >= {"rate", "desired", "ready", "ttft", "tpot"}
    assert series <= set(report.data["samples"][0]["pools"]["chat"])


def test_every_mark_has_a_legend_and_every_picture_a_name(tmp_path: Path) -> None:
    """A failed tray is framed, the fault crosses every chart, and who cannot see a chart hears what it shows."""
    script = page(timeline(1.0), tmp_path).scripts[1]
    for words in ("free", "node that does not answer", "GPUs that work", "tray fails, tray returns"):
        assert f'["{words}", ' in script
    assert '"aria-label": label' in script
    assert script.count("chart({label: ") == script.count("append(chart(") + script.count(", chart(")


def test_tiles_are_a_figure_and_a_sentence_and_only_a_whole_share_has_no_decimal() -> None:
    shares = {"chat": 0.885, "assistant": 1.0, "reasoner": 0.9999, "idle": None}
    tiles = Figures(273.0, 25.2, 9.1, 164_000_000, shares).tiles()
    assert ["88.5%", "100%", "100.0%", "-", "25 s", "164 MB"] == [value for value, _ in tiles]
    assert "of the seconds with traffic, chat met its SLO" == tiles[0][1]


@pytest.mark.parametrize("words", ["</script><script src='x.js'>", "<!-- <script>", "__DATA__", "§ \u2028 ■"])
def test_words_of_others_stay_data(words: str, tmp_path: Path) -> None:
    """Messages of events come from the scheduler, from engines and from admission."""
    run = timeline(1.0)
    run.events[0]["message"] = words
    report = page(run, tmp_path)
    assert len(report.scripts) == 2
    assert words == report.data["events"][0]["message"]
