"""Intervals around predictions, from the errors of predictions: as short as can be, and with the prediction inside."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.fitting.fit import Problem
from weft.catalog.uncertainty import CROWDED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bench.fitting.left_out import Ratios
    from bench.fitting.rows import Row

    Vector = NDArray[np.float64]

HELD = 0.78  # of the rows inside: near four of five, where one row more of fifty costs a twentieth of the width
_ENOUGH = 20  # rows for a spread of their own
_LEAST = 0.02  # of a prediction, on either side


def spreads(problem: Problem, off: Ratios, counted: NDArray[np.bool_], crowd: NDArray[np.bool_]) -> dict[str, Any]:
    """[below, above] of every latency and rate, by kind of model, and by engine and kind where there is enough.

    What an engine has too few rows of is as of its kind with all engines, and what a kind has too few of as of all.
    """
    names, everything = [kinds(row) for row in problem.rows], np.ones(len(problem.rows), dtype=bool)
    columns = {
        "ttft": (off.ttft, ~crowd),
        "crowded_ttft": (off.ttft, crowd),
        "tpot": (off.tpot, everything),
        "output_rate": (off.output_rate, everything),
    }

    def known(chosen: NDArray[np.bool_]) -> dict[str, list[float]]:
        enough = {name: chosen & rows for name, (_, rows) in columns.items() if (chosen & rows).sum() >= _ENOUGH}
        return {name: between(columns[name][0][rows]) for name, rows in enough.items()}

    found = {"": known(counted)}
    for kind in sorted(set(chain.from_iterable(names)), key=lambda name: (" " in name, name)):
        chosen = counted & np.array([kind in each for each in names])
        if chosen.sum() >= _ENOUGH:
            found[kind] = found[""] | found.get(kind.rpartition(" ")[2], {}) | known(chosen)
    return {kind: {name: [*ends] for name, ends in found[kind].items()} for kind in sorted(found) if kind}


def in_a_crowd(problem: Problem, unknowns: Vector) -> NDArray[np.bool_]:
    """Rows whose first tokens are predicted to come `CROWDED` times as late as those of a lone user."""
    alone = Problem(tuple(replace(row, at=replace(row.at, users=1.0)) for row in problem.rows))
    return np.asarray(problem.latencies(unknowns).ttft >= CROWDED * alone.latencies(unknowns).ttft)


def kinds(row: Row) -> tuple[str, str]:
    """`dense` or `experts`, and the engine before it."""
    kind = "dense" if row.at.replica.architecture.experts is None else "experts"
    return kind, f"{row.at.replica.shape.engine.value} {kind}"


def between(predicted_over_measured: Vector) -> list[float]:
    """Divisor and factor of a prediction: the shortest interval around it that holds so many of the measurements."""
    measured = np.sort(-np.log(predicted_over_measured))
    inside = int(np.ceil(HELD * measured.size))
    lows = np.minimum(measured[: measured.size - inside + 1], -np.log1p(_LEAST))
    highs = np.maximum(measured[inside - 1 :], np.log1p(_LEAST))
    best = int(np.argmin(highs - lows))
    return [_rounded_up(np.exp(-lows[best])), _rounded_up(np.exp(highs[best]))]


def faster(newer: Ratios, counted: NDArray[np.bool_]) -> dict[str, float]:
    """Divisors of latencies and the factor of the rate that a ninth of these rows, half of what is missed, exceed."""
    logarithms = {
        "ttft": np.log(newer.ttft[counted]),
        "tpot": np.log(newer.tpot[counted]),
        "output_rate": -np.log(newer.output_rate[counted]),
    }
    return {name: _rounded_up(np.exp(_exceeded(values))) for name, values in logarithms.items()}


def _exceeded(values: Vector) -> float:
    """By half of the part that an interval may miss, at most; the value itself is not."""
    missed = int((1.0 - HELD) / 2.0 * values.size)
    return max(float(np.sort(values)[values.size - 1 - missed]), float(np.log1p(_LEAST)))


def _rounded_up(factor: float) -> float:
    """To three digits, with the measurement at the very end of an interval still inside."""
    return round(float(np.ceil(factor * 1e3 * (1.0 - 1e-9))) / 1e3, 3)


def measured(rows: tuple[Row, ...]) -> dict[str, list[str]]:
    """The architectures of every combination of generation, engine and precision."""
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(" ".join(combination(row)), set()).add(row.architecture)
    return {name: sorted(found[name]) for name in sorted(found)}


def combination(row: Row) -> tuple[str, ...]:
    """As the catalog's uncertainty asks for it."""
    shape, accelerator = row.at.replica.shape, row.at.replica.accelerator
    return accelerator.generation, shape.engine.value, shape.precision.value
