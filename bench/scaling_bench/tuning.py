"""Which point of a rule's grid is the best on the trace that it is tuned on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Row = dict[str, Any]
ENOUGH = 0.99  # of requests within their targets


def best(rows: Iterable[Row]) -> Iterator[tuple[str, str, int]]:
    """Scenario, rule and point: the fewest GPU-hours with enough within the SLO, or else the most within it."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        key = (row["scenario"], row["policy"])
        if key not in found or _rank(row) < _rank(found[key]):
            found[key] = row
    for (scenario, policy), row in found.items():
        yield scenario, policy, row["point"]


def _rank(row: Row) -> tuple[bool, float]:
    enough = row["attainment"] >= ENOUGH
    return not enough, row["gpu_hours"] if enough else -row["attainment"]
