"""The fit: coefficients under which the model's own formulas come closest to closed-loop measurements."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.fitting.priors import PRIORS
from bench.fitting.solve import least_squares
from weft.catalog import load
from weft.catalog.efficiency import Coefficient, properties
from weft.perf.closed_loop import ClosedLoop, ClosedLoopWork, closed_loop_latencies, closed_loop_work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bench.fitting.rows import Row
    from weft.catalog import Efficiency
    from weft.perf.closed_loop import Latencies

    Vector = NDArray[np.float64]

# Relative errors that are expected of a good model: residuals are counted in them, and far ones lose weight.
_TPOT_SCALE, _TTFT_SCALE = 0.12, 0.35
_PRIOR_WEIGHT = 0.7
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Term:
    """One unknown: the base of a coefficient (no property), or the factor of a property's value."""

    coefficient: str
    about: str
    value: str


class Problem:
    """Closed-loop rows as arrays, and the unknowns that they can tell apart."""

    def __init__(self, rows: tuple[Row, ...]) -> None:
        """Work out what does not depend on any coefficient, of rows with both latencies."""
        self.rows = rows = tuple(row for row in rows if row.ttft and row.tpot)
        self.work = _stacked([_work(row) for row in rows])
        self.about = [_about(row) for row in rows]
        self.constants = _constants(rows)
        self.ttft = np.array([row.ttft for row in rows], dtype=float)
        self.tpot = np.array([row.tpot for row in rows], dtype=float)
        self.terms, self.design = self._terms()
        priors = [PRIORS[term.coefficient] for term in self.terms]
        self.start = np.array(
            [0.0 if term.about else np.log(prior.base) for term, prior in zip(self.terms, priors, strict=True)]
        )
        self.deviation = np.array(
            [
                prior.factors[term.about] if term.about else prior.deviation
                for term, prior in zip(self.terms, priors, strict=True)
            ]
        )

    def _terms(self) -> tuple[list[Term], dict[str, NDArray[np.float64]]]:
        """All unknowns, and per coefficient which of them each row takes."""
        terms: list[Term] = []
        for name, prior in PRIORS.items():
            terms.append(Term(name, "", ""))
            for about in prior.factors:
                values = sorted({each[about] for each in self.about})
                terms.extend(Term(name, about, value) for value in values)
        design = {
            name: np.array(
                [
                    [
                        float(term.coefficient == name and (not term.about or each[term.about] == term.value))
                        for term in terms
                    ]
                    for each in self.about
                ]
            )
            for name in PRIORS
        }
        return terms, design

    def latencies(self, unknowns: Vector) -> Latencies:
        """What the model predicts of every row."""
        values: dict[str, Any] = {name: np.exp(matrix @ unknowns) for name, matrix in self.design.items()}
        return closed_loop_latencies(self.work, self._efficiency(values))

    def _efficiency(self, values: dict[str, Any]) -> Efficiency:
        """One `Efficiency` whose coefficients are arrays over rows."""
        engine = next(iter(load().performance.values()))
        return engine.resolved(values | self.constants)

    def fit(self, chosen: NDArray[np.bool_]) -> Vector:
        """The unknowns that the chosen rows ask for."""

        def residuals(unknowns: Vector) -> Vector:
            found = self.latencies(unknowns)
            errors = np.concatenate(
                [
                    np.log(found.tpot / self.tpot)[chosen] / _TPOT_SCALE,
                    np.log(found.ttft / self.ttft)[chosen] / _TTFT_SCALE,
                ]
            )
            near: Vector = np.sign(errors) * np.sqrt(2.0 * (np.sqrt(1.0 + errors**2) - 1.0))
            return np.concatenate([near, _PRIOR_WEIGHT * (unknowns - self.start) / self.deviation])

        return least_squares(residuals, self.start)

    def coefficients(self, unknowns: Vector) -> dict[str, Coefficient]:
        """Base values and factors by name, rounded to what is written down."""
        found = {
            name: Coefficient(1.0, {**{about: {} for about in prior.factors}, **prior.assumed})
            for name, prior in PRIORS.items()
        }
        for term, unknown in zip(self.terms, unknowns, strict=True):
            value = float(f"{np.exp(unknown):.{_DIGITS}g}")
            if term.about:
                found[term.coefficient].factors[term.about][term.value] = value
            else:
                found[term.coefficient] = Coefficient(value, found[term.coefficient].factors)
        return found


def _work(row: Row) -> ClosedLoopWork:
    at = row.at
    return closed_loop_work(
        at.replica, ClosedLoop(at.users, at.input_tokens, at.output_tokens, equal_lengths=at.equal_lengths)
    )


def _about(row: Row) -> dict[str, str]:
    shape, accelerator = row.at.replica.shape, row.at.replica.accelerator
    early = load().performance[shape.engine].is_early(row.at.release)
    return properties(accelerator.generation, shape.engine.value, shape.precision.value, early=early)


def _constants(rows: tuple[Row, ...]) -> dict[str, Any]:
    """What is not fitted, as arrays over rows."""
    each = [load().performance[row.at.replica.shape.engine].constants for row in rows]
    return {name: np.array([constants[name] for constants in each]) for name in each[0]}


def _stacked(works: list[Any]) -> Any:  # noqa: ANN401 - numbers become arrays
    """One record of arrays from many of numbers, nested ones too."""
    kind = type(works[0])
    names = getattr(kind, "_fields", None) or [each.name for each in fields(kind)]
    values: dict[str, Any] = {}
    for name in names:
        column = [getattr(work, name) for work in works]
        values[name] = np.array(column, dtype=float) if isinstance(column[0], int | float) else _stacked(column)
    return kind(**values)
