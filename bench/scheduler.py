"""`python -m bench.scheduler`: Weft's pods beside plain ones on the real scheduler; writes docs/scheduler-benchmark.md.

One embedded control plane with 300 simulated nodes. The same gangs are asked for twice, one run after the other: as
plain pods with required pod affinity on the rack, and as InferencePools whose replicas are as large. About ten minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.machine import this_machine
from bench.scheduler_bench import demand, stage
from bench.scheduler_bench.page import as_page
from bench.scheduler_bench.plot import as_svg
from bench.scheduler_bench.runs import Case, Limit, run
from weft.apply.token_bucket import BURST_WRITES, WRITES_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE = Path(__file__).parents[1] / "docs" / "scheduler-benchmark.md"
USUAL = Limit(int(WRITES_PER_SECOND), int(BURST_WRITES))
NARROW = Limit(20, 40)  # where the limit decides, and not the machine
REPEATS = 3  # of the runs that are timed


def cases(names: Sequence[str]) -> tuple[Case, ...]:
    """Every scenario by both placers in turn; the first, whose time counts, more than once and under a narrow limit."""
    chosen = [scenario for scenario in demand.SCENARIOS if scenario.name in names]
    pairs = [(scenario, limit) for scenario in chosen for limit in _limits(scenario)]
    return tuple(Case(scenario, placer, limit) for scenario, limit in pairs for placer in ("plain", "weft"))


def _limits(scenario: demand.Scenario) -> tuple[Limit, ...]:
    return (*[USUAL] * REPEATS, NARROW) if scenario is demand.SCENARIOS[0] else (USUAL,)


def measure(wanted: Sequence[Case]) -> list[dict[str, Any]]:
    """A row a case, on one cluster."""
    say(f"starting a control plane with {demand.NODES} simulated nodes")
    rows = []
    with stage.cluster(demand.nodes()) as cluster:
        for number, case in enumerate(wanted, 1):
            say(f"{number}/{len(wanted)} {case}: {case.scenario.says}")
            load = round(os.getloadavg()[0], 2)
            rows.append({**run(cluster, case, f"run-{number}"), "load_average_before": load})
            say(summary(rows[-1]))
    return rows


def summary(row: dict[str, Any]) -> str:
    """One line about a row."""
    bound = row["all_bound_seconds"]
    return (
        f"    {row['placed']} of {row['gangs']} gangs placed whole, {row['wedged']} wedged; all bound after "
        f"{'-' if bound is None else bound} s, {row['writes_per_pod']} writes a pod"
    )


def say(words: str) -> None:
    """Progress, for people."""
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


def document(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Everything that was measured, for programs and for the page."""
    machine = this_machine()
    known = [{"name": each.name, "says": each.says, "sizes": each.sizes} for each in demand.SCENARIOS]
    return {"machine": {**asdict(machine), "words": str(machine)}, "scenarios": known, "rows": rows}


def main(arguments: Sequence[str]) -> None:
    """Measure, print the document, and write page and picture."""
    names = [scenario.name for scenario in demand.SCENARIOS]
    parser = argparse.ArgumentParser(prog="python -m bench.scheduler", description="Measure pods on kube-scheduler.")
    parser.add_argument("--scenario", action="append", choices=names, help="only these, the rest from --read")
    parser.add_argument("--read", type=Path, metavar="FILE", help="an earlier document")
    parser.add_argument("--page", type=Path, default=PAGE, help="the picture stands beside it")
    options = parser.parse_args(arguments)
    chosen = options.scenario or names
    told = document(measure(cases(chosen)))
    if options.read:
        earlier = json.loads(options.read.read_text())["rows"]
        rows = [*told["rows"], *(row for row in earlier if row["scenario"] not in chosen)]
        told["rows"] = sorted(rows, key=lambda row: names.index(row["scenario"]))
    options.page.write_text(as_page(told, options.page.with_suffix(".svg").name), encoding="utf-8")
    options.page.with_suffix(".svg").write_text(as_svg(told), encoding="utf-8")
    print(json.dumps(told, indent=2, allow_nan=False))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
