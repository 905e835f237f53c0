"""`python -m bench [NAME ...] [--histories N] [--json FILE]`: measure what has a floor; 1 if one is missed.

`python -m bench routers --help`: a report without a floor, which needs programs that are no part of Weft.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from bench import converge, decide, demo, growth, percentiles, routers, scale, settling, suites, twin
from bench.machine import this_machine
from bench.result import document, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bench.result import Result

INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What it measures, how long that takes, and how it is done: of some, also with so many histories of each kind."""

    says: str
    measure: Callable[[], tuple[Result, ...]]
    with_histories: Callable[[int], tuple[Result, ...]] | None = None


BENCHMARKS = {
    "decide": Benchmark("passes over 64 nodes and 20 pools, 10 seconds", decide.measure),
    "converge": Benchmark("a pool of 1,000 replicas from nothing until it stands, half a minute", converge.measure),
    "scale": Benchmark("passes over up to 5,540 nodes and 1,000 pools, 5 minutes", scale.measure_all),
    "growth": Benchmark(
        "1,000 pools beside 1,000 tainted nodes, 1,000 zones, 1,000 silent engines, a minute", growth.measure
    ),
    "settling": Benchmark(
        "crowded histories of four kinds, each pass decided twice, under a minute", settling.measure, settling.measure
    ),
    "percentiles": Benchmark("closed forms against 128 simulations, three minutes", percentiles.measure),
    "twin": Benchmark("two days of 1.4 million requests on 40 simulated engines, 3 minutes", twin.measure),
    "demo": Benchmark("the whole demo, 5 minutes", demo.measure),
    **{
        suite.name: Benchmark(
            f"{' '.join(suite.command)} in a fresh clone, at best {suite.limit_seconds / 60:.0f} minutes",
            partial(suites.measure, suite),
        )
        for suite in suites.SUITES
    },
}
USUAL = ("decide", "demo")


def chosen(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """The benchmarks of some names: `test` means `test-cold` and `test-cached`.

    Raises ValueError for a name that means nothing.
    """
    known, names = tuple(known), tuple(names)
    found = {name: [each for each in known if each == name or each.startswith(f"{name}-")] for name in names}
    unknown = [name for name, meant in found.items() if not meant]
    if unknown:
        raise ValueError(f"unknown benchmark {', '.join(unknown)}: choose from {', '.join(known)}")
    return list(dict.fromkeys(each for meant in found.values() for each in meant))


def of_size(benchmark: Benchmark, histories: int | None) -> Benchmark:
    """The same with so many histories of each kind, where it has histories and a number is asked for."""
    if histories is None or benchmark.with_histories is None:
        return benchmark
    return replace(benchmark, measure=partial(benchmark.with_histories, histories))


def measured(name: str, benchmark: Benchmark, console: Console) -> tuple[Result, ...]:
    """Its results, each with how busy the machine was before."""
    console.print(f"{name}: {benchmark.says}", markup=False)
    load = round(os.getloadavg()[0], 2)
    return tuple(
        replace(result, details={**result.details, "load_average_before": load}) for result in benchmark.measure()
    )


def main(arguments: Sequence[str], benchmarks: Mapping[str, Benchmark], usual: Sequence[str]) -> int:
    """Run what is asked for and print one JSON document; the table for people goes to stderr."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what has a floor.")
    parser.add_argument("names", nargs="*", default=usual, metavar="NAME", help=f"of: {', '.join(benchmarks)}")
    parser.add_argument("--histories", type=_count, metavar="N", help="so many of each kind, where there are any")
    parser.add_argument("--json", type=_writable, metavar="FILE", help="write the document here too")
    options = parser.parse_args(arguments)
    try:
        names = chosen(options.names, benchmarks)
    except ValueError as problem:
        parser.error(str(problem))
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    machine, sized = this_machine(), {name: of_size(benchmarks[name], options.histories) for name in names}
    results = [result for name in names for result in measured(name, sized[name], console)]
    told = document(machine, results)
    text = json.dumps(told, indent=2, allow_nan=False)
    if options.json is not None:
        options.json.write_text(f"{text}\n")
    console.print(table(machine, results))
    print(text)
    return 0 if told["passed"] else 1


def command(arguments: Sequence[str]) -> int:
    """Run what a command line says."""
    if arguments[:1] == ["routers"]:
        return routers.main(arguments[1:])
    return main(arguments, BENCHMARKS, USUAL)


def _count(text: str) -> int:
    """One or more."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is no number of histories")
    return int(text)


def _writable(name: str) -> Path:
    """A file that can be written: said before the minutes, not after."""
    path = Path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot write {name}: {error.strerror}") from error
    return path


if __name__ == "__main__":
    try:
        sys.exit(command(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
