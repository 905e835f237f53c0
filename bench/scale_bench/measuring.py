"""One size in a process of its own, so that its memory is its own: how long passes take, and how much they hold.

The search for cyclic garbage stands still in a pass and runs between passes, as the operator has it. A yardstick before
and after each pass tells how fast the machine was meanwhile.
"""

from __future__ import annotations

import gc
import os
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from bench.scale_bench.cluster import Size
from bench.scale_bench.days import Days
from bench.yardstick import Yardstick
from weft.catalog import load
from weft.decide import decide

if TYPE_CHECKING:
    from weft.domain.decision import Decisions
    from weft.domain.snapshot import Snapshot

PASSES, WARM = 120, 6
SETTLING = 12  # passes after which counts follow traffic that stands still
KINDS = ("quiet", "place", "shrink", "still")
KIB = 1024


@dataclass(frozen=True, slots=True)
class Took:
    """Milliseconds of one pass: on the wall's clock, of the processor, and of the yardstick before and after (mean)."""

    wall: float
    processor: float
    yardstick: float


@dataclass(frozen=True, slots=True)
class Spread:
    """Passes of one kind, in milliseconds; `alone` is processor time on this machine at its fastest."""

    passes: int
    wall_p50: float
    wall_p99: float
    processor_p50: float
    processor_p99: float
    alone_p50: float
    alone_p99: float

    @classmethod
    def of(cls, took: list[Took], best: float) -> Spread:
        """Of at least two passes, and the least that the yardstick took."""
        wall, processor = _cuts([each.wall for each in took]), _cuts([each.processor for each in took])
        alone = _cuts([each.processor * best / each.yardstick for each in took])
        return cls(len(took), wall[49], wall[98], processor[49], processor[98], alone[49], alone[98])


def measure(nodes: int, passes: int = PASSES) -> dict[str, Any]:
    """One row: the cluster, its passes by kind, the first ones, and the most memory that the process has held."""
    size, load_average = Size(nodes), os.getloadavg()[0]
    days, yardstick = Days.of(size), Yardstick()
    decisions, first = timed(days.snapshot, yardstick)
    took: dict[str, list[Took]] = defaultdict(list)
    second = placed = 0.0
    for index in range(-WARM, passes):
        kind = days.go_on(decisions, index)
        decisions, spent = timed(days.snapshot, yardstick)
        second = spent.wall if index == -WARM else second
        if index >= 0:
            took[kind].append(spent)
            placed += _added(days.snapshot, decisions) if kind == "place" else 0
    took["still"] = standing_still(days, decisions, passes, yardstick)
    return {
        "nodes": len(days.snapshot.nodes),
        "gpus": size.gpus,
        "pools": size.pools,
        "pods": len(days.snapshot.pods),
        "first_ms": round(first.wall, 1),
        "second_ms": round(second, 1),
        "placed_in_a_pass": round(placed / max(1, len(took["place"])), 1),
        "peak_bytes": peak_bytes(),
        "load_average_before": round(load_average, 1),
        "slowed": round(median(each.yardstick for kind in KINDS for each in took[kind]) / yardstick.best, 2),
        **{kind: asdict(Spread.of(took[kind], yardstick.best)) for kind in KINDS},
    }


def standing_still(days: Days, decisions: Decisions, passes: int, yardstick: Yardstick) -> list[Took]:
    """Passes that place as many, where neither traffic nor anything else moves: every shape is remembered by then."""
    days.stands_still = True
    found = []
    for index in range(passes, passes + SETTLING + passes):
        kind = days.go_on(decisions, index)
        decisions, spent = timed(days.snapshot, yardstick)
        if kind == "place" and index >= passes + SETTLING:
            found.append(spent)
    return found


def timed(snapshot: Snapshot, yardstick: Yardstick) -> tuple[Decisions, Took]:
    """One pass."""
    catalog = load()
    gc.collect()
    gc.disable()
    before = yardstick.measure()
    began, begun = perf_counter(), process_time()
    decisions = decide(snapshot, catalog)
    wall, processor = (perf_counter() - began) * 1000.0, (process_time() - begun) * 1000.0
    took = Took(wall, processor, (before + yardstick.measure()) / 2.0)
    gc.enable()
    return decisions, took


def peak_bytes() -> int:
    """The most physical memory that this process has held, as the kernel counts it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * KIB for line in lines if line.startswith("VmHWM:"))


def _added(snapshot: Snapshot, decisions: Decisions) -> int:
    """Replicas that a pass placed."""
    known = {pool.key.uid: {each.replica for each in pool.status.assignments} for pool in snapshot.pools}
    return sum(
        each.replica not in known[decision.key.uid]
        for decision in decisions.pools
        for each in decision.status.assignments
    )


def _cuts(times: list[float]) -> list[float]:
    return [round(cut, 2) for cut in quantiles(times, n=100, method="inclusive")]
