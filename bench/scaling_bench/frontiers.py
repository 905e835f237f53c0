"""Results of runs by what they are compared in: a scenario with a start-up time, and in it the rules."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.scaling_bench.scenarios import settings

if TYPE_CHECKING:
    from collections.abc import Iterable

Row = dict[str, Any]
LEVELS = (0.95, 0.98, 0.99, 0.995)
_AVERAGED = ("attainment", "gpu_hours", "requests")


@dataclass(frozen=True, slots=True)
class Cell:
    """One comparison, of the seeds that all of its rules were run with; of all seeds where there is none.

    `by_policy` has the points of each rule, averaged over these, from few GPU-hours to many.
    """

    scenario: str
    startup: float
    minutes: float
    seeds: tuple[int, ...]
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


def hours_at(points: Iterable[Row], level: float) -> float | None:
    """GPU-hours for which a rule has so many requests within the SLO; None where none of its settings has.

    Between two settings it is straight from one to the other, as a mix of both would be; a setting that takes more than
    another one for less does not count.
    """
    better = unbeaten(points)
    if not better or better[-1][0] < level:
        return None
    attained, hours = zip(*better, strict=True)
    return float(np.interp(level, attained, hours))


def unbeaten(points: Iterable[Row]) -> list[tuple[float, float]]:
    """Attainment and GPU-hours of the settings that none reaches as much with for as little, from cheap to safe."""
    better: list[tuple[float, float]] = []
    for row in sorted(points, key=lambda row: (row["gpu_hours"], -row["attainment"])):
        if not better or row["attainment"] > better[-1][0]:
            better.append((row["attainment"], row["gpu_hours"]))
    return better


def cells(rows: Iterable[Row]) -> list[Cell]:
    """Every comparison, in the order of the scenarios."""
    groups: dict[tuple[str, float, float], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["scenario"], row["startup_seconds"], row["minutes"]].append(row)
    order = list(settings().scenarios)
    return [_cell(key, groups[key]) for key in sorted(groups, key=lambda key: (order.index(key[0]), *key))]


def _cell(key: tuple[str, float, float], rows: list[Row]) -> Cell:
    by_policy: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_policy[row["policy"]].append(row)
    run_with = [{row["seed"] for row in each} for each in by_policy.values()]
    seeds = set.intersection(*run_with) or set.union(*run_with)
    names = [name for name in settings().policies if name in by_policy]
    return Cell(*key, tuple(sorted(seeds)), [(name, _points(by_policy[name], seeds)) for name in names])


def _points(rows: list[Row], seeds: set[int]) -> list[Row]:
    """Those that were run with all seeds."""
    points: dict[tuple[bool, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row["seed"] in seeds:
            points[row["of_grid"], row["point"]].append(row)
    whole = (each for each in points.values() if len(each) == len(seeds))
    return sorted(map(_mean, whole), key=lambda row: row["gpu_hours"])


def _mean(seeds: list[Row]) -> Row:
    return {**seeds[0], **{name: fmean(row[name] for row in seeds) for name in _AVERAGED}}
