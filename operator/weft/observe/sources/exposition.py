"""Prometheus' text format, limited to the families we asked for."""

from __future__ import annotations

import functools
import math
import re
import sys
from sys import getsizeof
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from weft.observe.samples.history import series_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.observe.samples.history import SeriesKey

HISTOGRAM_PARTS = ("", "_bucket", "_sum", "_count")
# Samples of these families: 72 data-parallel ranks on one page have half as many.
MOST_SAMPLES = 20_000
# Series with parsed labels: those of a scrape recur in the next one, and on each replica of a pool. A page of vLLM has
# 124 of them, and where they do not fit, none is found again. 500 pools have 62,000.
REMEMBERED = 65_536
# Of memory, of the line of one series. Longer ones are of a broken or malicious engine, and not read: the time for one
# grows with the square of its length (four minutes for 4 MiB), and so many remembered ones would fill the memory.
LONGEST_LINE_BYTES = 2048
_NO_COUNT = -1.25e-300
_ONE_LABEL = r'(?!__)[a-zA-Z_][a-zA-Z0-9_]*="[^"\\]*(?:\\.[^"\\]*)*"'
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="([^"\\]*(?:\\.[^"\\]*)*)"')
_SERIES = re.compile(rf"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{(?P<labels>(?:{_ONE_LABEL}(?:,{_ONE_LABEL})*,?)?)\}})?")
_ESCAPED = re.compile(r'\\[\\n"]')
_MEANS = {r"\\": "\\", r"\n": "\n", r"\"": '"'}


def parse(text: str, names: Iterable[str]) -> dict[SeriesKey, float]:
    """Values of the samples of `names` (a histogram's name stands for its buckets, sum and count).

    Lines of other families are skipped before parsing, comments too: an engine exposes hundreds of series. Malformed
    and overlong lines are left out, and so is a last one without an end, whose number may be cut off. A series with two
    values has none. Nothing is read from a page with more than `MOST_SAMPLES`.
    """
    wanted = {f"{name}{part}" for name in names for part in HISTOGRAM_PARTS}
    lines = [line.strip() for line in text[: text.rfind("\n") + 1].split("\n") if line[:1] != "#"]
    lines = [line for line in lines if _name_of(line) in wanted and getsizeof(line) <= LONGEST_LINE_BYTES]
    if len(lines) > MOST_SAMPLES:
        return {}
    values: dict[SeriesKey, float] = {}
    for line in lines:
        for key, value in _told(line):
            values[key] = value if values.get(key, value) == value else math.nan
    return values


def _told(line: str) -> list[tuple[SeriesKey, float]]:
    """The sample of a line as a list, empty if there is none."""
    series, _, value = line.rpartition(" ")
    key = _key(series) if series.endswith("}") or " " not in series else None
    if key is None or "_" in value:  # Python reads 1_0 as 10, and the parser refuses it
        return _samples(line)
    try:
        return [(key, float(value))]
    except ValueError:
        return _samples(line)


@functools.lru_cache(maxsize=REMEMBERED)
def _key(series: str) -> SeriesKey | None:
    """The key of a series as text before a value; None if it is not exactly one series."""
    if (found := _plain(series)) is None:
        samples = _samples(f"{series} {_NO_COUNT}")
        if [value for _, value in samples] != [_NO_COUNT]:
            return None
        found = samples[0][0]
    name, labels = found
    return sys.intern(name), tuple(map(_shared, labels))


def _plain(series: str) -> SeriesKey | None:
    """The key of a series as every client library writes it; None of any other. The parser takes five times as long."""
    found = _SERIES.fullmatch(series)
    if found is None:
        return None
    pairs = _LABEL.findall(found["labels"] or "")
    labels = {name: _ESCAPED.sub(lambda each: _MEANS[each[0]], value) for name, value in pairs}
    return series_key(found["name"], labels) if len(labels) == len(pairs) else None


@functools.lru_cache(maxsize=REMEMBERED)
def _shared(label: tuple[str, str]) -> tuple[str, str]:
    """One object for equal labels: most of those of one page are."""
    name, value = label
    return sys.intern(name), value


def _samples(line: str) -> list[tuple[SeriesKey, float]]:
    """What Prometheus' parser finds in a line; nothing in one that it refuses, or whose number is too large for it."""
    try:
        families = list(text_string_to_metric_families(f"{line}\n"))
        samples = [sample for family in families for sample in family.samples]
        return [(series_key(each.name, each.labels), float(each.value)) for each in samples]
    except (ValueError, IndexError, KeyError, OverflowError):
        return []


def _name_of(line: str) -> str:
    return line.partition("{")[0].partition(" ")[0]
