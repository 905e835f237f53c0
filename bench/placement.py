"""`python -m bench.placement --seeds N [--quick]`: where replicas fit that others reject; writes docs/placement.md.

A discrete-event simulation of racks under `bench/mixes.yaml`. The same events go to every placer, seed by seed: the
stock scheduler with pod affinity, the rules of Kueue and KAI, Weft with each lever on and off, and one pool of all
trays as the bound.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.machine import this_machine
from bench.placement_bench.mixes import settings
from bench.placement_bench.page import as_page
from bench.placement_bench.plot import as_svg
from bench.placement_bench.runs import VARIANTS, cells, rows
from bench.placement_bench.splits import capacities, splits

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE = Path(__file__).parents[1] / "docs" / "placement.md"
SEEDS = 10


def document(seeds: int, variants: Sequence[str], *, quick: bool) -> dict[str, Any]:
    """Everything that was measured, for programs and for the page."""
    machine = this_machine()
    found = [row for cell in cells(seeds, variants, quick=quick) for row in rows(cell)]
    return {
        "machine": {**asdict(machine), "words": str(machine)},
        "seeds": seeds,
        "settings": asdict(settings()),
        "split_capacities": {str(gpus): round(each, 3) for gpus, each in capacities().items()},
        "splits": {str(gpus): each for gpus, each in splits().items()},
        "rows": found,
    }


def main(arguments: Sequence[str]) -> None:
    """Measure, print the document, and write page and picture."""
    parser = argparse.ArgumentParser(prog="python -m bench.placement", description="Measure placement.")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="runs of each cell")
    parser.add_argument("--quick", action="store_true", help="the loss system with all trays up only")
    parser.add_argument("--variant", action="append", choices=VARIANTS, help="only these, the rest from --read")
    parser.add_argument("--page", type=Path, default=PAGE, help="the picture stands beside it")
    parser.add_argument("--read", type=Path, metavar="FILE", help="an earlier document: measure only what is asked for")
    options = parser.parse_args(arguments)
    usual = ("loss",) if options.quick else () if options.read else tuple(VARIANTS)
    variants = tuple(options.variant or usual)
    told = document(options.seeds, variants, quick=options.quick)
    if options.read:
        earlier = json.loads(options.read.read_text())["rows"]
        told["rows"] = [*(row for row in earlier if row["variant"] not in variants), *told["rows"]]
    options.page.write_text(as_page(told, options.page.with_suffix(".svg").name), encoding="utf-8")
    if any(row["variant"] == "loss" for row in told["rows"]):  # which is what the picture shows
        options.page.with_suffix(".svg").write_text(as_svg(told), encoding="utf-8")
    print(json.dumps(told, indent=2, allow_nan=False))


if __name__ == "__main__":
    main(sys.argv[1:])
