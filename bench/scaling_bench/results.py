"""Results of runs as lines of JSON in a file, so that a benchmark of hours can be ended and gone on with."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from time import perf_counter
from typing import TYPE_CHECKING, Any

from bench.scaling_bench.running import run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from bench.scaling_bench.running import Run

Row = dict[str, Any]


def known(path: Path) -> dict[str, Row]:
    """Rows of a file by the key of their run; a line that was cut off is left out."""
    rows: dict[str, Row] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        rows[row["key"]] = row
    return rows


def complete(runs: Sequence[Run], path: Path, jobs: int) -> list[Row]:
    """Rows of all runs in their order; those that the file lacks are run and added to it, as soon as each ends."""
    rows = known(path)
    missing = [each for each in dict.fromkeys(runs) if each.key not in rows]
    for row in _run_all(missing, jobs):
        rows[row["key"]] = row
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, allow_nan=False) + "\n")
    return [rows[each.key] for each in runs]


def _run_all(runs: Sequence[Run], jobs: int) -> Iterable[Row]:
    """In processes of their own, so that what one holds is nobody else's; says on stderr how far it is."""
    if not runs:
        return
    began = perf_counter()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(run, each) for each in runs]
        for done, future in enumerate(as_completed(waiting), start=1):
            row = future.result()
            left = (perf_counter() - began) / done * (len(runs) - done) / 60.0
            told = f"{row['policy']} on {row['scenario']}: {row['attainment']:.2%}, {row['gpu_hours']:.0f} GPU-hours"
            print(f"{done} of {len(runs)}, {left:.0f} min left; {told}", file=sys.stderr, flush=True)
            yield row
