"""`python -m bench.twin_truth`: the twin's engine beside measured ones; with `--write` docs/twin.md and its picture.

Published rows of closed loops: steps are fitted to every other concurrency, the twin foretells the rest. The rows are
no part of Weft: they are looked for in `ground-truth` of `WEFT_BENCH_DATA`, or of `shared/data` beside the repository.
With `--engine` the engine of the end-to-end suite too, on this machine and for some minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from bench.fitting.rows import read
from bench.machine import this_machine
from bench.scaling_bench.scenarios import data_folder
from bench.truth_bench.beside import measured
from bench.truth_bench.page import as_page, as_tables
from bench.truth_bench.plot import as_svg
from bench.truth_bench.scored import score
from bench.truth_bench.series import all_series

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE = Path(__file__).parents[1] / "docs" / "twin.md"
ROWS = Path("ground-truth") / "measured.csv"


def main(arguments: Sequence[str]) -> int:
    """Score, show the table, and write what is asked for; ends with 1 where there are no rows."""
    options = _parser().parse_args(arguments)
    path = data_folder() / ROWS
    earlier = json.loads(options.read.read_text(encoding="utf-8")) if options.read else {}
    if not earlier and not path.is_file():
        print(f"there is no {ROWS} in {data_folder()}: set WEFT_BENCH_DATA to the folder that has it", file=sys.stderr)
        return 1
    told = earlier or {**_machine(), "rows": score(all_series(read(path)))}
    if options.engine:
        told["engine"] = {**_machine(), **measured()}
    Console(width=120).print(*as_tables(told))
    if options.output:
        options.output.write_text(json.dumps(told, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    if options.write:
        options.page.write_text(as_page(told, options.page.with_suffix(".svg").name), encoding="utf-8")
        options.page.with_suffix(".svg").write_text(as_svg(told), encoding="utf-8")
    return 0


def _machine() -> dict[str, Any]:
    machine = this_machine()
    return {"machine": {**asdict(machine), "words": str(machine)}}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.twin_truth", description="The twin beside real engines.")
    add = parser.add_argument
    add("--output", type=Path, metavar="FILE", help="the figures as JSON")
    add("--read", type=Path, metavar="FILE", help="an earlier output: measure only what is asked for")
    add("--engine", action="store_true", help="measure a real engine on this machine too")
    add("--write", action="store_true", help="write the page, and the picture beside it")
    add("--page", type=Path, default=PAGE)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
