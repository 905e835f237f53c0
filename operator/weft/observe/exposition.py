"""Prometheus' text format, as much of it as we asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from weft.observe.history import series_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.samples import Sample

    from weft.observe.history import SeriesKey

HISTOGRAM_PARTS = ("", "_bucket", "_sum", "_count")


def parse(text: str, names: Iterable[str]) -> dict[SeriesKey, float]:
    """Values of the samples of `names` (a histogram's name stands for its buckets, sum and count).

    Lines of other families are skipped before parsing, comments too: an engine exposes hundreds of series. Lines that
    are not in the format are left out.
    """
    wanted = {f"{name}{part}" for name in names for part in HISTOGRAM_PARTS}
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if _name_of(line) in wanted]
    samples = _samples(lines)
    if samples is None:
        samples = [sample for line in lines for sample in _samples([line]) or ()]
    return {series_key(s.name, s.labels): float(s.value) for s in samples}


def _samples(lines: list[str]) -> list[Sample] | None:
    """All samples of these lines, or None where one of them is not in the format."""
    try:
        families = list(text_string_to_metric_families("\n".join([*lines, ""])))
    except (ValueError, IndexError, KeyError):
        return None
    return [sample for family in families for sample in family.samples]


def _name_of(line: str) -> str:
    return line.partition("{")[0].partition(" ")[0]
