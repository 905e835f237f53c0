"""Errors on releases of engines that are newer than all that a fit has seen of these engines."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from bench.fitting.left_out import Ratios, ratios
from weft.catalog.limits import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from bench.fitting.fit import Problem
    from bench.fitting.rows import Row

# When releases came out that rows name. Of rows that name none the month of measurement stands for it.
RELEASED = {
    "VLLM": {"0.11.2": "2025-11", "0.12.0": "2025-12", "0.15.1": "2026-02", "0.18.0": "2026-03"},
    "SGLang": {"0.5.6.post2": "2025-12", "0.5.9": "2026-02"},
    "TensorRTLLM": {
        "1.0.0rc3": "2025-07",
        "gpt-oss-dev": "2025-08",
        "1.1.0rc2.post2": "2025-09",
        "1.2.0rc2": "2025-11",
        "1.2.0rc2.post2": "2025-11",
        "1.2.0rc6.post1": "2026-01",
        "1.2.0rc6.post2": "2026-01",
        "1.3.0rc1": "2026-01",
        "1.3.0rc5": "2026-02",
    },
}
_MEASURED_IN = re.compile(r"measured (\d{4}-\d{2})")


def leaving_newer_out(problem: Problem) -> Ratios:
    """Each row predicted by a fit without its engine's rows of the same month of release and after it.

    NaN where nothing older of the engine is left.
    """
    nothing = np.full(len(problem.rows), np.nan)
    found = Ratios(nothing.copy(), nothing.copy(), nothing.copy())
    for older, of_the_month in cuts(problem.rows):
        seen = ratios(problem, problem.latencies(problem.fit(older)))
        for column, values in zip(found, seen, strict=True):
            column[of_the_month] = values[of_the_month]
    return found


def cuts(rows: tuple[Row, ...]) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """By engine and month but its first: rows that were there before, those of other engines too, and the month's."""
    engines, months = np.array([_engine(row) for row in rows]), np.array([month(row) for row in rows])
    for engine in sorted(set(engines)):
        own = engines == engine
        for each in sorted(set(months[own]))[1:]:
            yield ~(own & (months >= each)), own & (months == each)


def month(row: Row) -> str:
    """In which a row's release came out. Raises `KeyError` of a version that no month is known of."""
    version = _version(row)
    return RELEASED[_engine(row)][version] if version else _measured_in(row)


def newest(rows: tuple[Row, ...]) -> dict[str, dict[str, str | list[str]]]:
    """By engine: its newest version that rows name, and the month of the newest of all of its rows.

    And, where there are some, the `named` versions, which have no number.
    """
    of: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        of[_engine(row)].append(row)
    return {engine: _newest(own) for engine, own in sorted(of.items())}


def _newest(own: list[Row]) -> dict[str, str | list[str]]:
    found: dict[str, str | list[str]] = {
        "version": _version(max(own, key=lambda each: (numbers(_version(each)) or (), month(each)))),
        "month": max(max(month(each), _measured_in(each)) for each in own),
    }
    if named := sorted({version for each in own if (version := _version(each)) and numbers(version) is None}):
        found["named"] = [*named]
    return found


def _version(row: Row) -> str:
    return row.columns["engine_version"].strip()


def _measured_in(row: Row) -> str:
    found = _MEASURED_IN.search(row.columns["note"])
    return found[1] if found else ""


def _engine(row: Row) -> str:
    return row.at.replica.shape.engine.value
