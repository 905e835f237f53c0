"""Prometheus' text format, as much of it as we asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from weft.observe.history import series_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.observe.history import SeriesKey

HISTOGRAM_PARTS = ("", "_bucket", "_sum", "_count")


def parse(text: str, names: Iterable[str]) -> dict[SeriesKey, float]:
    """Values of the samples of `names` (a histogram's name stands for its buckets, sum and count).

    Lines of other families are skipped before parsing, comments too: an engine exposes hundreds of series. Text that is
    not in the format gives nothing.
    """
    wanted = {f"{name}{part}" for name in names for part in HISTOGRAM_PARTS}
    lines = [line for line in text.splitlines() if _name_of(line) in wanted]
    try:
        families = list(text_string_to_metric_families("\n".join([*lines, ""])))
    except (ValueError, IndexError, KeyError):
        return {}
    return {series_key(s.name, s.labels): float(s.value) for family in families for s in family.samples}


def _name_of(line: str) -> str:
    return line.partition("{")[0].partition(" ")[0]
