"""Predictions of another planner, under the very functions that score our own (`bench.fitting.score`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.fitting.fit import Problem
from bench.fitting.left_out import ratios
from bench.fitting.score import choose, errors, options
from weft.perf.benchmarks.closed_loop import Latencies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bench.fitting.score import Option

    Rows = NDArray[np.bool_]

MARGINS = {"no_margin": 1.0, "our_margin": 1.1}


@dataclass(frozen=True, slots=True)
class Predicted:
    """Seconds, or why there are none. `overfull` where it warns that a batch has no room in the KV cache."""

    ttft: float = np.inf
    tpot: float = np.inf
    refused: str = ""
    overfull: bool = False

    @property
    def is_answered(self) -> bool:
        """Whether it can be scored."""
        return bool(0 < self.ttft < np.inf and 0 < self.tpot < np.inf)


def latencies(predicted: Sequence[Predicted]) -> Latencies:
    """As arrays over rows; infinite where there is no answer, which no pick takes for fast."""
    known = [(each.ttft, each.tpot) if each.is_answered else (np.inf, np.inf) for each in predicted]
    return arrays(known)


def arrays(pairs: Sequence[tuple[float, float]]) -> Latencies:
    """TTFT and TPOT of each row as `Latencies` of all: its formulas take arrays for numbers."""
    columns: Any = np.array(pairs, dtype=float).T
    return Latencies(*columns)


def scores(problem: Problem, predicted: Sequence[Predicted]) -> dict[str, Any]:
    """How many rows are answered, how far off those are, and how good choices made with them are."""
    answered = answers(predicted)
    refusals = Counter(each.refused for each in predicted if not each.is_answered)
    found = latencies(predicted)
    return {
        "rows": len(predicted),
        "answered": int(answered.sum()),
        "overfull": sum(each.overfull for each in predicted),
        "refused": dict(refusals.most_common()),
        "unanswered": np.flatnonzero(~answered).tolist(),
        **off(problem, found, answered),
        "choice_among_all": {name: among_all(problem, found, margin) for name, margin in MARGINS.items()},
    }


def answers(predicted: Sequence[Predicted]) -> Rows:
    """Which rows have one."""
    return np.array([each.is_answered for each in predicted])


def off(problem: Problem, found: Latencies, counted: Rows) -> dict[str, Any]:
    """Errors on some of the rows, and choices among them alone."""
    if not counted.any():
        return {}
    part = Problem(tuple(row for row, counts in zip(problem.rows, counted, strict=True) if counts))
    known: Any = found
    kept = Latencies(known.ttft[counted], known.tpot[counted])
    wrong = ratios(part, kept)
    return {
        "tpot": asdict(errors(wrong.tpot)),
        "ttft": asdict(errors(wrong.ttft)),
        "choice": {name: _picked(_groups(part, kept, margin)) for name, margin in MARGINS.items()},
    }


def among_all(problem: Problem, found: Latencies, margin: float) -> dict[str, Any]:
    """Choices among all measured candidates; where none has an answer nothing is picked, which reaches 0."""
    groups = _groups(problem, found, margin)
    asked = [group for group in groups if any(each.upper_tpot < np.inf for each in group)]
    count = choose(groups).choices
    if not asked:
        return {"choices": count, "abstained": 1.0, "broken": 0.0, "of_the_best": 0.0}
    picked = choose(asked)
    part = picked.choices / count
    return {
        "choices": count,
        "abstained": round(1.0 - part, 4),
        "broken": round(picked.broken * part, 4),
        "of_the_best": round(picked.of_the_best * part, 4),
    }


def _groups(problem: Problem, found: Latencies, margin: float) -> list[list[Option]]:
    """Candidates with the same margin on every prediction."""
    return list(options(problem, found, np.full(len(problem.rows), margin)).values())


def _picked(groups: list[list[Option]]) -> dict[str, Any]:
    """Also what those picks reach that hold: a broken one lowers nothing there."""
    found = choose(groups)
    held = found.of_the_best / (1.0 - found.broken) if found.broken < 1.0 else 0.0
    return {**asdict(found), "of_the_best_where_held": round(held, 4)}
