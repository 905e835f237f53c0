"""Scores: relative errors, coverage of intervals, and how good a choice made with predictions is."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from bench.fitting.fit import Problem
    from bench.fitting.left_out import Ratios

    Vector = NDArray[np.float64]

TPOT_LIMITS = (0.015, 0.020, 0.030, 0.050)


@dataclass(frozen=True, slots=True)
class Errors:
    """Absolute relative errors of so many rows."""

    rows: int
    median: float
    p90: float


def errors(predicted_over_measured: Vector) -> Errors:
    """Median and 90th percentile, as fractions."""
    off = np.abs(predicted_over_measured - 1.0)
    return Errors(off.size, round(float(np.median(off)), 4), round(float(np.quantile(off, 0.9)), 4))


def covered(predicted_over_measured: Vector, below: Vector, above: Vector) -> tuple[float, float]:
    """Part of the rows between prediction / below and prediction x above, and the median of high over low."""
    measured = 1.0 / predicted_over_measured
    inside = (measured * below >= 1.0) & (measured <= above)
    return round(float(inside.mean()), 4), round(float(np.median(below * above)), 3)


@dataclass(frozen=True, slots=True)
class Option:
    """One measured candidate of a choice: seconds, and output tokens per second and GPU.

    `upper_tpot` is the predicted TPOT with what is demanded on top of it.
    """

    measured_tpot: float
    upper_tpot: float
    measured_rate: float
    predicted_rate: float


@dataclass(frozen=True, slots=True)
class Choices:
    """Of all choices that have an answer: how many broke the limit, and what all reached of the best.

    `doubtful` ones found no candidate inside the limit and took the closest, as a best effort.
    """

    choices: int
    broken: float
    doubtful: float
    of_the_best: float


def options(
    problem: Problem,
    found: Any,  # noqa: ANN401 - latencies as arrays
    above: Vector,
) -> dict[tuple[str, ...], list[Option]]:
    """Measured candidates by architecture, accelerator and lengths; `above` are factors on predicted TPOT by row."""
    grouped: dict[tuple[str, ...], list[Option]] = defaultdict(list)
    for index, row in enumerate(problem.rows):
        key = (row.architecture, row.accelerator, row.columns["isl"], row.columns["osl"])
        length, users = row.at.output_tokens, row.at.users / row.gpus
        grouped[key].append(
            Option(
                measured_tpot=float(problem.tpot[index]),
                upper_tpot=float(found.tpot[index] * above[index]),
                measured_rate=users * length / float(problem.ttft[index] + length * problem.tpot[index]),
                predicted_rate=users * length / float(found.ttft[index] + length * found.tpot[index]),
            )
        )
    return grouped


def choose(groups: Iterable[list[Option]]) -> Choices:
    """Pick the highest predicted rate of those whose upper TPOT is within each limit; a broken pick scores 0."""
    reached, broken, doubtful = [], 0, 0
    for group in groups:
        for limit in TPOT_LIMITS:
            best = max((each.measured_rate for each in group if each.measured_tpot <= limit), default=None)
            if best is None:
                continue
            held = [each for each in group if each.upper_tpot <= limit]
            doubtful += not held
            pick = max(held, key=lambda each: each.predicted_rate) if held else _closest(group)
            broken += pick.measured_tpot > limit
            reached.append(pick.measured_rate / best if pick.measured_tpot <= limit else 0.0)
    count = len(reached)
    return Choices(count, round(broken / count, 4), round(doubtful / count, 4), round(float(np.mean(reached)), 4))


def _closest(group: list[Option]) -> Option:
    return min(group, key=lambda each: each.upper_tpot)


def calibrated(problem: Problem, off: Ratios) -> Ratios:
    """Each row predicted after one other row of the same deployment was seen live: its error is divided out.

    The row seen is the one in the middle of the deployment's loads (by users); it does not count itself.
    """
    places: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, row in enumerate(problem.rows):
        columns = row.columns
        names = ("model", "gpu", "engine", "engine_version", "precision", "tp", "ep", "pp", "dp", "isl", "osl")
        places[tuple(columns[name] for name in names)].append(index)
    after = [np.full(values.shape, np.nan) for values in off]
    for indices in places.values():
        ordered = sorted(indices, key=lambda index: problem.rows[index].at.users)
        seen = ordered[len(ordered) // 2]
        for column, values in zip(after, off, strict=True):
            for index in ordered:
                if index != seen:
                    column[index] = values[index] / values[seen]
    return type(off)(*after)
