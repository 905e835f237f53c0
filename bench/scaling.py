"""`python -m bench.scaling`: Weft and the rules of others on the same traffic; writes docs/scaling.md.

Everything that could flatter one or another stands in `bench/scenarios.yaml`. As runs end they are kept in
`bench/scaling_rows.jsonl`, to be committed: the same command goes on where it was ended, on another machine too. All of
it takes a day; the options choose a part.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.machine import this_machine
from bench.scaling_bench.page import NOTE, as_page
from bench.scaling_bench.plot import as_svg
from bench.scaling_bench.results import complete, known
from bench.scaling_bench.running import Run, points
from bench.scaling_bench.scenarios import FIXED_RATIO, ORACLE, OWN_RULE, settings
from bench.scaling_bench.tuning import best
from weft.twin.policies import NAMES, lacking

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

REPOSITORY = Path(__file__).parents[1]
KEPT = "bench/scaling_rows.jsonl"  # as the page names it
PAGE, RESULTS = REPOSITORY / "docs" / "scaling.md", REPOSITORY / KEPT


def judged(options: argparse.Namespace) -> Iterator[Run]:
    """Every point of every frontier."""
    for scenario in options.scenario:
        for startup in options.start_up:
            for seed in options.seed:
                asked = settings().scenarios[scenario]
                for policy in filter(asked.judges, options.policy):
                    for point in range(points(policy, split=asked.split)):
                        yield Run(scenario, policy, point, startup, seed, minutes=options.minutes)


def tuning(options: argparse.Namespace) -> Iterator[Run]:
    """Every point of every grid on the other trace, with the first start-up time and seed."""
    for scenario in options.scenario:
        for policy in options.policy:
            if policy not in {ORACLE, OWN_RULE, FIXED_RATIO}:
                for point in range(points(policy, of_grid=True)):
                    first = Run(scenario, policy, point, options.start_up[0], options.seed[0])
                    yield replace(first, of_grid=True, tuning=True, minutes=options.minutes)


def tuned(options: argparse.Namespace) -> Iterator[Run]:
    """The best point of each grid, on the trace that it is judged on."""
    rows = complete([*tuning(options)], options.results, options.jobs)
    for scenario, policy, point in best(rows):
        for startup in options.start_up:
            for seed in options.seed:
                yield Run(scenario, policy, point, startup, seed, of_grid=True, minutes=options.minutes)


def main(arguments: Sequence[str]) -> None:
    """Run what is missing, then write page and picture from all results that there are."""
    chosen = asked_for(arguments)
    chosen.results.parent.mkdir(parents=True, exist_ok=True)
    if not chosen.read:
        complete([*judged(chosen)], chosen.results, chosen.jobs)
        if chosen.tune:
            complete([*tuned(chosen)], chosen.results, chosen.jobs)
    rows = [row for row in known(chosen.results).values() if not row["tuning"]]
    machine = this_machine()
    told = {"machine": {**asdict(machine), "words": str(machine)}, "rows": rows}
    committed = chosen.results.resolve() == RESULTS
    kept, note = (KEPT, NOTE) if committed else (chosen.results.name, "")
    page = as_page(told, chosen.page.with_suffix(".svg").name, kept, note)
    chosen.page.write_text(page, encoding="utf-8")
    chosen.page.with_suffix(".svg").write_text(as_svg(rows), encoding="utf-8")
    print(json.dumps(told, indent=2, allow_nan=False))


def asked_for(arguments: Sequence[str]) -> argparse.Namespace:
    """What is asked for; ends with 2 where a rule that was named needs what is not installed, and leaves others out."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    chosen.page = chosen.page or _page_of(chosen.results)
    named, chosen.policy = chosen.policy is not None, chosen.policy or list(settings().policies)
    missing = {policy: lacking(policy) for policy in chosen.policy if policy in NAMES and not chosen.read}
    for policy, why in missing.items():
        if why is not None and named:
            parser.error(f"--policy {why}")
        if why is not None:
            chosen.policy.remove(policy)
            print(f"{why}: left out", file=sys.stderr)
    return chosen


def _page_of(results: Path) -> Path:
    """Runs that are kept elsewhere have a page of their own: the one in docs shows all that are committed."""
    return PAGE if results.resolve() == RESULTS else results.with_suffix(".md")


def _parser() -> argparse.ArgumentParser:
    known_ones = settings()
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description="Measure autoscaling.")
    add = parser.add_argument
    add("--scenario", nargs="+", choices=known_ones.scenarios, default=list(known_ones.scenarios))
    add("--policy", nargs="+", choices=known_ones.policies, help="all that can be run here unless named")
    add("--start-up", nargs="+", type=float, default=list(known_ones.startup_seconds), metavar="SECONDS")
    add("--seed", nargs="+", type=int, default=list(known_ones.seeds))
    add("--minutes", type=float, default=0.0, help="only so much of each trace")
    add("--tune", action="store_true", help="tune the others over their grids on another trace, and judge the best")
    add("--jobs", type=int, default=1, help="runs at the same time")
    add("--results", type=Path, default=RESULTS, help="where runs are kept")
    add("--read", action="store_true", help="run nothing: write the page from what is kept")
    add("--page", type=Path, help="beside --results unless named; the picture stands beside it")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
