"""Errors on architectures that a fit has not seen: how far a prediction may be off for a model that nobody measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bench.fitting.fit import Problem
    from weft.perf.benchmarks.closed_loop import Latencies

    Vector = NDArray[np.float64]


class Ratios(NamedTuple):
    """Predicted over measured, by row; NaN where a row was not predicted."""

    ttft: Vector
    tpot: Vector
    output_rate: Vector


def ratios(problem: Problem, found: Latencies) -> Ratios:
    """What a prediction of all rows makes of each. No closed-loop row has throughput: both sides by Little's law."""
    lengths = np.array([row.at.output_tokens for row in problem.rows])
    predicted, measured = found.ttft + lengths * found.tpot, problem.ttft + lengths * problem.tpot
    return Ratios(found.ttft / problem.ttft, found.tpot / problem.tpot, measured / predicted)


def leaving_out(problem: Problem, groups: list[str]) -> Ratios:
    """Each row predicted by a fit to the rows of all other groups."""
    of, nothing = np.array(groups), np.full(len(groups), np.nan)
    found = Ratios(nothing.copy(), nothing.copy(), nothing.copy())
    for group in sorted(set(groups)):
        seen = ratios(problem, problem.latencies(problem.fit(of != group)))
        for column, values in zip(found, seen, strict=True):
            column[of == group] = values[of == group]
    return found


def shares_its_precision(problem: Problem) -> NDArray[np.bool_]:
    """Rows whose precision some other architecture has too: the others cannot be learnt from."""
    users: dict[str, set[str]] = {}
    for row in problem.rows:
        users.setdefault(row.at.replica.shape.precision.value, set()).add(row.architecture)
    return np.array([len(users[row.at.replica.shape.precision.value]) > 1 for row in problem.rows])
