"""The fit: coefficients under which the model's own formulas come closest to closed-loop measurements."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.fitting.priors import PRIORS
from bench.fitting.solve import STEP, least_squares
from weft.catalog import load
from weft.catalog.efficiency import Coefficient, properties
from weft.perf.benchmarks.closed_loop import ClosedLoop, ClosedLoopWork, closed_loop_latencies, closed_loop_work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bench.fitting.rows import Row
    from weft.catalog import Efficiency
    from weft.perf.benchmarks.closed_loop import Latencies

    Vector = NDArray[np.float64]

# Relative errors that are expected of a good model: residuals are counted in them, and far ones lose weight.
_TPOT_SCALE, _TTFT_SCALE = 0.12, 0.35
_PRIOR_WEIGHT = 0.7
_BEST_MATMUL, _BEST_READ = 0.8, 0.9  # of the data sheet: dense BF16 on H100, attention over more than 1 GB
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
        self.possible = self._possible()
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
                values = sorted({each[about] for each in self.about} - set(prior.without))
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
        return self._latencies({name: matrix @ unknowns for name, matrix in self.design.items()})

    def _latencies(self, logarithms: dict[str, Vector]) -> Latencies:
        values: dict[str, Any] = {name: np.exp(each) for name, each in logarithms.items()}
        return closed_loop_latencies(self.work, self._efficiency(values))

    def _efficiency(self, values: dict[str, Any]) -> Efficiency:
        """One `Efficiency` whose coefficients are arrays over rows."""
        engine = next(iter(load().performance.values()))
        return engine.resolved(values | self.constants)

    def fit(self, chosen: NDArray[np.bool_]) -> Vector:
        """The unknowns that the chosen rows ask for, those that no GPU can do left aside."""
        chosen = chosen & self.possible

        return least_squares(lambda at: self.residuals(at, chosen), self.start, lambda at: self.slopes(at, chosen))

    def residuals(self, unknowns: Vector, chosen: NDArray[np.bool_]) -> Vector:
        """Errors of the chosen rows, and distances from what is expected of the unknowns."""
        off = _near(self._errors(self.latencies(unknowns), chosen))
        return np.concatenate([off, _PRIOR_WEIGHT * (unknowns - self.start) / self.deviation])

    def slopes(self, unknowns: Vector, chosen: NDArray[np.bool_]) -> Vector:
        """Derivatives of residuals. A row takes its unknowns by few coefficients: those are moved, not each unknown."""
        at = {name: matrix @ unknowns for name, matrix in self.design.items()}
        here = _near(self._errors(self._latencies(at), chosen))
        found = np.zeros((here.size, unknowns.size))
        for name, matrix in self.design.items():
            there = _near(self._errors(self._latencies({**at, name: at[name] + STEP}), chosen))
            found += ((there - here) / STEP)[:, None] * np.tile(matrix[chosen], (2, 1))
        return np.concatenate([found, np.diag(_PRIOR_WEIGHT / self.deviation)])

    def _possible(self) -> NDArray[np.bool_]:
        """Rows that leave time for their prompts and for reading weights and KV at the best rates ever measured."""
        decode, prefill = self.work.decode, self.work.prefill
        prompts = self.work.users / (self.ttft + self.work.output_tokens * self.tpot) / self.work.ranks
        math = prefill.linear_math + prefill.expert_math + prefill.attention_math
        read = decode.linear_read + decode.expert_read + decode.head_read + decode.attention_read
        busy: NDArray[np.bool_] = prompts * math / _BEST_MATMUL + read / self.tpot / _BEST_READ <= 1.0
        return busy

    def _errors(self, found: Latencies, chosen: NDArray[np.bool_]) -> Vector:
        """Of the chosen rows, in the errors that are expected of a good model."""
        tpot, ttft = np.log(found.tpot / self.tpot), np.log(found.ttft / self.ttft)
        return np.concatenate([tpot[chosen] / _TPOT_SCALE, ttft[chosen] / _TTFT_SCALE])

    def coefficients(self, unknowns: Vector) -> dict[str, Coefficient]:
        """Base values and factors by name, rounded to what is written down."""
        found = {
            name: Coefficient(
                1.0, {about: dict(prior.assumed.get(about, {})) for about in prior.factors | prior.assumed}
            )
            for name, prior in PRIORS.items()
        }
        for term, unknown in zip(self.terms, unknowns, strict=True):
            value = float(f"{np.exp(unknown):.{_DIGITS}g}")
            if term.about:
                found[term.coefficient].factors[term.about][term.value] = value
            else:
                found[term.coefficient] = Coefficient(value, found[term.coefficient].factors)
        return found


def _near(errors: Vector) -> Vector:
    """Errors of which far ones hardly weigh (Cauchy's loss): some benchmarks hold first tokens back unsaid."""
    lessened: Vector = np.sign(errors) * np.sqrt(np.log1p(errors**2))
    return lessened


def _work(row: Row) -> ClosedLoopWork:
    at = row.at
    return closed_loop_work(
        at.replica,
        ClosedLoop(
            at.users,
            at.input_tokens,
            at.output_tokens,
            equal_lengths=at.equal_lengths,
            looks_every=at.looks_every,
        ),
    )


def _about(row: Row) -> dict[str, str]:
    shape, accelerator = row.at.replica.shape, row.at.replica.accelerator
    early = load().performance[shape.engine].is_early(row.at.release)
    return properties(accelerator.generation, shape.engine.value, shape.precision.value, early=early)


def _constants(rows: tuple[Row, ...]) -> dict[str, Any]:
    """What is not fitted, as arrays over rows."""
    each = [
        load().performance[at.replica.shape.engine].constants_of(at.replica.accelerator.generation, at.release)
        for at in (row.at for row in rows)
    ]
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
