"""`python -m bench.fit_perf TABLE`: fit the coefficients of the performance model and write `catalog/efficiency.yaml`.

The same table gives the same file, byte for byte. The rows themselves stay where they are.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from bench.fitting.fit import Problem
from bench.fitting.intervals import faster, in_a_crowd, measured, spreads
from bench.fitting.left_out import leaving_out, ratios, shares_its_precision
from bench.fitting.newer import leaving_newer_out, newest
from bench.fitting.rows import of_kind, read
from weft.perf.benchmarks.measured import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bench.fitting.fit import Vector
    from bench.fitting.rows import Row
    from weft.perf.benchmarks.closed_loop import Latencies

TARGET = Path(__file__).parent.parent / "operator" / "weft" / "catalog" / "efficiency.yaml"
HEADER = """\
# How close engines come to data sheets: fitted by `python -m bench.fit_perf TABLE`, do not edit.
#
# A coefficient is its base times a factor per property of a combination; what nobody measured has factor 1.
#
# `uncertainty`: near four of five rows lie between the prediction divided by the first number and times the second:
# `seen` of architectures that were measured on this generation with this engine and precision, `unseen` of those that
# were left out of the fit; `crowded_ttft` where first tokens take six times as long as a lone user's. `measured`
# are the combinations with their architectures. `newest` are releases: of those that come after them, latencies may be
# shorter by `faster` and output rates higher by as much, if that is more.
#
#   weights, kv             fraction of HBM bandwidth at which a step reads weights, and the KV cache
#   matmul, prefill         fraction of peak FLOP/s that large matmuls reach in decode and in prefill
#   prefill_experts         the same of experts in prefill
#   layer_us, moe_layer_us  launch of a decode step: per layer, and on top of it per layer with experts
#   step_us, sequence_us    the same per step, and per running sequence (scheduler, sampling, detokenising)
#   request_ms              API server, tokeniser and scheduler, once per request
#   prefill_layer_us        launch of a prefill step, per layer
#   prefill_moe_layer_us    on top of it per layer with experts
#   collective_us           latency of one all-reduce in a tensor group
#   at_once, equal_at_once  closed loops only: the part of the users whose prompts arrive together, and of up to eight
#                           users if all lengths are equal
"""
_MEASURED_ON = re.compile(r"measured (\d{4}-\d{2}-\d{2})")


def main() -> None:
    """Fit, write, and say how well it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path, help="measurements, a CSV file with the columns of weft predict")
    parser.add_argument("--output", type=Path, default=TARGET)
    arguments = parser.parse_args()
    problem = Problem(of_kind(read(arguments.table), Kind.ClosedLoop))
    unknowns = problem.fit(np.ones(len(problem.rows), dtype=bool))
    text = (
        HEADER
        + "\n"
        + yaml.safe_dump(_document(problem, unknowns), sort_keys=False, width=120, default_flow_style=None)
    )
    arguments.output.write_text(text, encoding="utf-8")
    print(f"{arguments.output}: {len(problem.terms)} numbers from {len(problem.rows)} rows")


def _document(problem: Problem, unknowns: Vector) -> dict[str, Any]:
    found = problem.latencies(unknowns)
    return {
        "fitted": {
            "sources": _sources(problem.rows),
            "newest_measurement": max(_days(problem.rows)),
            "rows": len(problem.rows),
            "median_error": {
                "tpot": _median_error(found.tpot, problem.tpot),
                "ttft": _median_error(found.ttft, problem.ttft),
            },
        },
        "uncertainty": _uncertainty(problem, found, in_a_crowd(problem, unknowns)),
        "coefficients": {
            name: {"base": each.base, **each.factors} for name, each in problem.coefficients(unknowns).items()
        },
    }


def _uncertainty(problem: Problem, found: Latencies, crowd: NDArray[np.bool_]) -> dict[str, Any]:
    """How far off predictions are of architectures that the fit has seen, and of those that it has not."""
    left_out = leaving_out(problem, [row.architecture for row in problem.rows])
    everything = np.ones(len(problem.rows), dtype=bool)
    newer = leaving_newer_out(problem)
    return {
        "seen": spreads(problem, ratios(problem, found), everything, crowd),
        "unseen": spreads(problem, left_out, shares_its_precision(problem), crowd),
        "measured": measured(problem.rows),
        "faster": faster(newer, ~np.isnan(newer.tpot)),
        "newest": newest(problem.rows),
    }


def _sources(rows: tuple[Row, ...]) -> dict[str, int]:
    return dict(sorted(Counter(row.columns["source"] for row in rows).items()))


def _days(rows: tuple[Row, ...]) -> list[str]:
    found = (_MEASURED_ON.search(row.columns["note"]) for row in rows)
    return [each[1] for each in found if each]


def _median_error(predicted: Any, measured: Vector) -> float:  # noqa: ANN401 - an array where a number is declared
    return round(float(np.median(np.abs(predicted / measured - 1.0))), 3)


if __name__ == "__main__":
    main()
