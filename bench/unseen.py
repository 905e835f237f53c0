"""`python -m bench.unseen`: the performance model beside published measurements that no fit has seen.

`unseen.csv` holds single facts with their sources, gathered after the model was made, and only looked at: of other
models, GPUs, engines and hosts than those of the table. Writes docs/unseen.md.
"""

from __future__ import annotations

import csv
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from bench.machine import this_machine
from weft.catalog import load
from weft.perf.benchmarks.expected import expected
from weft.perf.benchmarks.measured import measurement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.perf.benchmarks.expected import Estimate

FACTS = Path(__file__).with_name("unseen.csv")
PAGE = Path(__file__).parents[1] / "docs" / "unseen.md"
GROSS = 1.7
_MILLI = 1e3
_WHAT = (("tpot_ms", "TPOT"), ("ttft_ms", "TTFT"), ("output_tok_s_total", "tokens/s"))

_TEXT = """\
# Beside measurements that no fit has seen

Written by `python -m bench.unseen` ({machine}). The rows of `bench/unseen.csv` are single published
figures of models, GPUs, engines and hosts that are not in the table of [accuracy.md](accuracy.md). They were gathered
after the model was made and are only looked at: nothing is fitted to them, and no constant is taken from them. Settings
are as far as the sources tell; where one leaves out the batch of a decode half, it is assumed. NVIDIA's figures of NIM
1.8.0 count as those of loops that had settled: their tokens/s are users over latency within 0.3 %, as of no loop with a
beginning and an end. A ratio is predicted over measured.

{count} rows, all answered: {totals}.

| source | rows | TPOT | TTFT | tokens/s |
|---|---|---|---|---|
{rows}

Each figure is the median of the ratios, and their range where there are several. Off by more than a factor of {gross}:

{off}
"""


def ratios(row: Mapping[str, str]) -> dict[str, float]:
    """Predicted over measured of each figure that a row has."""
    catalog = load()
    found = expected(measurement(row, catalog), catalog)
    values = (_times(found.tpot, _MILLI), _times(found.ttft, _MILLI), _times(found.output_rate, 1.0))
    pairs = zip(_WHAT, values, strict=True)
    return {name: value / float(row[column]) for (column, name), value in pairs if row[column] and value is not None}


def _times(estimate: Estimate | None, unit: float) -> float | None:
    return None if estimate is None else estimate.value * unit


def _summed_up(values: list[float]) -> str:
    if not values:
        return ""
    median = f"{statistics.median(values):.2f}"
    return median if len(values) == 1 else f"{median} ({min(values):.2f} to {max(values):.2f})"


def _of(found: Iterable[dict[str, float]], name: str) -> list[float]:
    return [each[name] for each in found if name in each]


def page(rows: list[dict[str, str]]) -> str:
    """The whole page."""
    found = [(row, ratios(row)) for row in rows]
    lines = []
    for source in dict.fromkeys(row["source"] for row in rows):
        own = [each for row, each in found if row["source"] == source]
        figures = " | ".join(_summed_up(_of(own, name)) for _, name in _WHAT)
        lines.append(f"| {source} | {len(own)} | {figures} |")
    everything = [each for _, each in found]
    totals = "; ".join(_total(name, _of(everything, name)) for _, name in _WHAT)
    return _TEXT.format(
        machine=this_machine(), count=len(rows), totals=totals, rows="\n".join(lines), gross=GROSS, off=_off(found)
    )


def _total(name: str, values: list[float]) -> str:
    near = sum(1 / GROSS < value < GROSS for value in values)
    return f"{name} {statistics.median(values):.2f} at the median, {near} of {len(values)} within a factor of {GROSS}"


def _off(found: list[tuple[dict[str, str], dict[str, float]]]) -> str:
    lines = ["| what | ratio |", "|---|---|"]
    for row, each in found:
        far = [f"{name} {value:.2f}" for name, value in each.items() if not 1 / GROSS < value < GROSS]
        if far:
            words = (
                f"{row['model']}, {row['gpu']}, {row['engine']}, {row['isl']}/{row['osl']}, {row['concurrency']} users"
            )
            lines.append(f"| {words} | {', '.join(far)} |")
    return "\n".join(lines)


def facts() -> list[dict[str, str]]:
    """The rows of `unseen.csv`."""
    with FACTS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    PAGE.write_text(page(facts()), encoding="utf-8")
