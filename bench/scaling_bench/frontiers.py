"""Results of runs by what they are compared in: a scenario with a start-up time, and in it the rules."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from bench.scaling_bench.scenarios import settings

if TYPE_CHECKING:
    from collections.abc import Iterable

Row = dict[str, Any]
LEVELS = (0.95, 0.98, 0.99, 0.995)
_AVERAGED = ("attainment", "gpu_hours", "requests")


@dataclass(frozen=True, slots=True)
class Cell:
    """One comparison. `by_policy` has the points of each rule, averaged over seeds, from few GPU-hours to many."""

    scenario: str
    startup: float
    minutes: float
    by_policy: list[tuple[str, list[Row]]]

    @property
    def rows(self) -> list[Row]:
        """All points."""
        return [row for _, rows in self.by_policy for row in rows]

    @property
    def requests(self) -> float:
        """In one run."""
        return fmean(row["requests"] for row in self.rows)

    @property
    def ttft_target(self) -> float:
        """Seconds."""
        return float(self.rows[0]["ttft_target_seconds"])

    @property
    def tpot_target(self) -> float:
        """Seconds."""
        return float(self.rows[0]["tpot_target_seconds"])


def cells(rows: Iterable[Row]) -> list[Cell]:
    """Every comparison, in the order of the scenarios."""
    groups: dict[tuple[str, float, float], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["scenario"], row["startup_seconds"], row["minutes"]].append(row)
    order = list(settings().scenarios)
    return [Cell(*key, _by_policy(groups[key])) for key in sorted(groups, key=lambda key: (order.index(key[0]), *key))]


def _by_policy(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    points: dict[str, dict[tuple[bool, int], list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        points[row["policy"]][row["of_grid"], row["point"]].append(row)
    names = [name for name in settings().policies if name in points]
    return [(name, sorted(map(_mean, points[name].values()), key=lambda row: row["gpu_hours"])) for name in names]


def _mean(seeds: list[Row]) -> Row:
    return {**seeds[0], **{name: fmean(row[name] for row in seeds) for name in _AVERAGED}}
