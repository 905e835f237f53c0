"""`python -m bench.scale`: whole passes on clusters from 500 to 5,000 nodes with 8 GPUs each; writes docs/scale.md.

A hundred replicas are to be placed beside a fleet in which traffic never stands still. Each size has a process of its
own. `python -m bench scale` measures the same against its floors and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.machine import this_machine
from bench.result import Result, document
from bench.scale_bench.measuring import KINDS, PASSES, measure
from bench.scale_bench.page import as_page
from bench.scale_bench.plot import MOST_BYTES, MOST_MS, as_svg

if TYPE_CHECKING:
    from collections.abc import Sequence

    Row = dict[str, Any]

REPOSITORY = Path(__file__).parents[1]
PAGE = REPOSITORY / "docs" / "scale.md"
SIZES = (500, 1000, 2000, 3500, 5000)
LIMIT_EXPONENT = 1.1


def rows(sizes: Sequence[int] = SIZES, passes: int = PASSES) -> list[Row]:
    """Every size, each in a fresh process."""
    return [_in_a_process(size, passes) for size in sizes]


def _in_a_process(size: int, passes: int) -> Row:
    command = [sys.executable, "-m", "bench.scale", "--size", str(size), "--passes", str(passes)]
    ended = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True)
    row: Row = json.loads(ended.stdout)
    return row


def results(found: Sequence[Row]) -> tuple[Result, ...]:
    """The largest size against the floors, and how time grows from the smallest size to it."""
    least, most = found[0], found[-1]
    size = {name: most[name] for name in ("nodes", "gpus", "pools", "pods", "placed_in_a_pass", "load_average_before")}
    times = [
        Result(f"scale-{kind}-{clock}-p99", most[kind][f"{clock}_p99"], "ms", MOST_MS, {**size, **most[kind]})
        for kind in KINDS
        for clock in ("wall", "processor")
    ]
    memory = Result("scale-peak-resident", most["peak_bytes"], "bytes", MOST_BYTES, size)
    growth = Result("scale-growth", exponent(least, most), "", LIMIT_EXPONENT, {"from": least["nodes"], **size})
    return (*times, memory, growth)


def exponent(least: Row, most: Row) -> float:
    """The power of the number of GPUs with which the processor time of a pass that places grows: 1 is linear."""
    times = log(most["place"]["processor_p50"] / least["place"]["processor_p50"])
    return round(times / log(most["gpus"] / least["gpus"]), 3)


def measure_all() -> tuple[Result, ...]:
    """For `python -m bench scale`."""
    return results(rows())


def main(arguments: Sequence[str]) -> int:
    """Measure, print the document, and write page and picture; ends with 1 if a floor is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description="Measure whole passes.")
    parser.add_argument("--size", type=int, help="one size in this process: print its row, write nothing")
    parser.add_argument("--passes", type=int, default=PASSES, help="of each size")
    parser.add_argument("--page", type=Path, default=PAGE, help="the picture stands beside it")
    options = parser.parse_args(arguments)
    if options.size is not None:
        print(json.dumps(measure(options.size, options.passes)))
        return 0
    machine, found = this_machine(), rows(passes=options.passes)
    held = results(found)
    told = {**document(machine, held), "rows": found}
    picture = options.page.with_suffix(".svg")
    options.page.write_text(as_page(str(machine), found, [{**asdict(each), "passed": each.passed} for each in held]))
    picture.write_text(as_svg(found), encoding="utf-8")
    print(json.dumps(told, indent=2, allow_nan=False))
    return 0 if told["passed"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
