"""`python -m bench.accuracy TABLE`: score the performance model against published measurements.

Prints one JSON document, and writes docs/accuracy.md from it. Three fits side by side: to all rows, leaving out one
architecture at a time, and leaving out one accelerator at a time. A precision that one architecture alone has cannot be
learnt from the others and is scored apart.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.fitting.fit import Problem
from bench.fitting.intervals import combination, faster, in_a_crowd, measured
from bench.fitting.left_out import leaving_out, ratios, shares_its_precision
from bench.fitting.newer import cuts, leaving_newer_out
from bench.fitting.rows import of_kind, read
from bench.fitting.score import calibrated, choose, covered, errors, options
from bench.machine import this_machine
from bench.page import as_page
from bench.peers import add_options, compared
from weft.catalog import load
from weft.catalog.uncertainty import Faster, reaching
from weft.domain.errors import WeftError
from weft.perf.benchmarks.expected import expected
from weft.perf.benchmarks.measured import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.fitting.left_out import Ratios
    from bench.fitting.rows import Row
    from weft.catalog.uncertainty import Spread

PAGE = Path(__file__).parent.parent / "docs" / "accuracy.md"
MARGIN = 1.1  # for comparison with other models, whatever their intervals: a pick is predicted a tenth below the limit


def main() -> None:
    """Score, print, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path, help="measurements, a CSV file with the columns of weft predict")
    parser.add_argument("--page", type=Path, default=PAGE)
    add_options(parser)
    arguments = parser.parse_args()
    rows = read(arguments.table)
    machine = this_machine()
    scores = {
        "machine": {**asdict(machine), "words": str(machine)},
        **_closed_loop(of_kind(rows, Kind.ClosedLoop)),
        **_others(rows),
        "aiconfigurator": compared(rows, arguments),
    }
    print(json.dumps(scores, indent=2))
    arguments.page.write_text(as_page(scores), encoding="utf-8")


def _closed_loop(rows: tuple[Row, ...]) -> dict[str, Any]:
    problem = Problem(rows)
    unknowns = problem.fit(np.ones(len(rows), dtype=bool))
    everything, crowd = problem.latencies(unknowns), in_a_crowd(problem, unknowns)
    within = ratios(problem, everything)
    unseen = leaving_out(problem, [row.architecture for row in rows])
    elsewhere = leaving_out(problem, [row.accelerator for row in rows])
    shared = shares_its_precision(problem)
    seen_live = calibrated(problem, within)
    known = ~np.isnan(seen_live.tpot)
    return {
        "in_sample": _latency_errors(within, np.ones(len(rows), dtype=bool)),
        "architecture_left_out": _latency_errors(unseen, shared),
        "architecture_left_out_precision_of_its_own": _latency_errors(unseen, ~shared),
        "accelerator_left_out": _latency_errors(elsewhere, np.ones(len(rows), dtype=bool)),
        "one_live_point": _latency_errors(seen_live, known),
        "interval_of_left_out_architectures": _coverage(problem, unseen, shared, crowd),
        "interval_of_newer_releases": _newer_coverage(problem, crowd),
        "choice": asdict(choose(options(problem, everything, _upper_ends(rows)).values())),
        "choice_with_margin": asdict(choose(options(problem, everything, np.full(len(rows), MARGIN)).values())),
    }


def _latency_errors(off: Ratios, counted: Any) -> dict[str, Any]:  # noqa: ANN401 - an array of booleans
    return {"tpot": asdict(errors(off.tpot[counted])), "ttft": asdict(errors(off.ttft[counted]))}


def _coverage(problem: Problem, off: Ratios, counted: Any, crowd: Any) -> dict[str, Any]:  # noqa: ANN401 - booleans
    """Intervals as if a row's architecture had not been measured."""
    known = load().uncertainty
    spreads = [known.when(row.at.replica.architecture, combination(row), seen=False) for row in problem.rows]
    found = {}
    for name in ("tpot", "ttft"):
        below, above = _ends(spreads, name, crowd)
        inside, width = covered(getattr(off, name)[counted], below[counted], above[counted])
        found[name] = {"covered": inside, "median_high_over_low": width}
    return found


def _ends(spreads: Sequence[Spread], name: str, crowd: Any) -> tuple[Any, Any]:  # noqa: ANN401 - arrays
    """Lower and upper ends of intervals; of first tokens as they are with or without a crowd."""
    names = [f"crowded_{name}" if crowded and name == "ttft" else name for crowded in crowd]
    below, above = (
        np.array([getattr(spread, name + side) for spread, name in zip(spreads, names, strict=True)])
        for side in ("_below", "")
    )
    return below, above


def _newer_coverage(problem: Problem, crowd: Any) -> dict[str, Any]:  # noqa: ANN401 - booleans
    """Intervals of releases that are newer than all that a fit has seen of their engine, as they are of older ones too.

    How much further their fast ends reach is learnt from the other engines alone.
    """
    newer = leaving_newer_out(problem)
    counted = ~np.isnan(newer.tpot)
    engines = np.array([row.at.replica.shape.engine.value for row in problem.rows])
    learnt = {each: Faster(**faster(newer, counted & (engines != each))) for each in set(engines)}
    spreads = _as_of_older(problem)
    plain = [spreads[index] for index in sorted(spreads)]
    reached = [reaching(spread, learnt[engine]) for spread, engine in zip(plain, engines[counted], strict=True)]
    return {
        "rows": int(counted.sum()),
        "faster_than_predicted": round(float((newer.tpot[counted] > 1.0).mean()), 4),
        "without": _held(newer, plain, counted, crowd),
        "with": _held(newer, reached, counted, crowd),
    }


def _as_of_older(problem: Problem) -> dict[int, Spread]:
    """By newer row: the spread if only what is older had been measured, and its release were an old one."""
    found = {}
    for older, of_the_month in cuts(problem.rows):
        before = measured(tuple(row for row, known in zip(problem.rows, older, strict=True) if known))
        places = {tuple(words.split()): frozenset(ids) for words, ids in before.items()}
        known = replace(load().uncertainty, measured=places)
        for index in map(int, np.flatnonzero(of_the_month)):
            row = problem.rows[index]
            found[index] = known.of_measured_releases(row.at.replica.architecture, combination(row))
    return found


def _held(off: Ratios, spreads: list[Spread], counted: Any, crowd: Any) -> dict[str, Any]:  # noqa: ANN401 - booleans
    """Part of the rows inside, and of those that were faster than any in it."""
    found = {}
    for name in ("tpot", "ttft"):
        below, above = _ends(spreads, name, crowd[counted])
        ratio = getattr(off, name)[counted]
        inside, width = covered(ratio, below, above)
        found[name] = {
            "covered": inside,
            "faster": round(float((ratio > below).mean()), 4),
            "median_high_over_low": width,
        }
    return found


def _upper_ends(rows: tuple[Row, ...]) -> Any:  # noqa: ANN401 - an array
    """What the product demands of a shape: that the upper end of its TPOT's interval is within the limit."""
    replicas = [row.at.replica for row in rows]
    return np.array([load().spread(each.architecture, each.shape, each.accelerator).tpot for each in replicas])


def _others(rows: tuple[Row, ...]) -> dict[str, Any]:
    """Kinds that no coefficient was fitted to, and how many rows of all have an answer."""
    offline = of_kind(rows, Kind.Offline)
    apart = tuple(row for row in rows if row.disaggregated)
    amd = tuple(row for row in offline if row.at.replica.accelerator.vendor == "amd")
    answered = sum(_is_answered(row) for row in rows)
    return {
        "offline": {"output_rate": _kind_errors(offline, "output_rate")},
        "offline_amd": {"output_rate": _kind_errors(amd, "output_rate")},
        "disaggregated": {name: _kind_errors(apart, name) for name in ("tpot", "ttft")},
        "answered": {"rows": len(rows), "part": round(answered / len(rows), 4)},
    }


def _is_answered(row: Row) -> bool:
    try:
        expected(row.at, load())
    except WeftError:
        return False
    return True


def _kind_errors(rows: tuple[Row, ...], name: str) -> dict[str, Any]:
    values = [getattr(expected(row.at, load()), name).value / getattr(row, name) for row in rows]
    return asdict(errors(np.array(values)))


if __name__ == "__main__":
    main()
