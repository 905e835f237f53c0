"""All runs of the benchmark, and what becomes of them: one row for each placer in each cell."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from random import Random
from statistics import fmean, quantiles
from typing import TYPE_CHECKING, Any

from bench.placement_bench.gangs import Affinity
from bench.placement_bench.mixes import Scenario, arrivals, settings
from bench.placement_bench.placers import Kai, Kueue, Pooled, Racks
from bench.placement_bench.rescaling import Rescaled, fleet
from bench.placement_bench.simulation import Simulation
from bench.placement_bench.spread import interval
from bench.placement_bench.weft import Levers, Weft

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.placement_bench.placers import Placer
    from bench.placement_bench.simulation import Measured

LARGEST_BESIDE = 16  # GPUs: where nobody rejects anything, so that a large replica is asked for under the same load
OFF_LEVERS = Levers()
ROUNDS = 6  # of taking out what one of the placers rejects, until none does


@dataclass(frozen=True, slots=True)
class Entrant:
    """A placer by name, and what it may do beside its rule (Weft only)."""

    name: str
    levers: Levers = OFF_LEVERS

    def make(self, scenario: Scenario, seed: int) -> Placer:
        """A new one, on empty racks."""
        known, down = settings(), scenario.down(seed)
        if self.name == "weft":
            return Weft(known, down, self.levers)
        racks = Racks(known, down)
        if self.name in {"kube-default", "most-allocated"}:
            return Affinity(racks, Random(f"ties {seed}"), spread=self.name == "kube-default")
        rules: dict[str, Callable[[Racks], Placer]] = {"kueue": Kueue, "kai": Kai, "pooled": Pooled}
        return rules[self.name](racks)


KUBE, PACKED, KUEUE, KAI, POOLED = map(Entrant, ("kube-default", "most-allocated", "kueue", "kai", "pooled"))
OFF, SHAPES = Entrant("weft"), Entrant("weft", Levers(shapes=True))
FEW, MANY = Entrant("weft", Levers(moves=2)), Entrant("weft", Levers(moves=8))
BOTH_FEW, BOTH = Entrant("weft", Levers(shapes=True, moves=2)), Entrant("weft", Levers(shapes=True, moves=8))
EVERYBODY = (KUBE, PACKED, KUEUE, KAI, OFF, SHAPES, FEW, MANY, BOTH_FEW, BOTH, POOLED)
VARIANTS: dict[str, tuple[Entrant, ...]] = {
    "loss": EVERYBODY,
    "queue": (KUBE, KUEUE, OFF, BOTH, POOLED),
    "rescale": (KUEUE, KAI, OFF, BOTH, POOLED),
    "rule": (KUEUE, OFF),
    "equal": (KUEUE, OFF, MANY),
}
TIMES = {"rule": 4, "equal": 2}  # as many runs, where two placers that hardly differ are compared
WITH_TRAYS_DOWN = (KUBE, KUEUE, OFF, BOTH, POOLED)


@dataclass(frozen=True, slots=True)
class Run:
    """One placer under the events of one seed."""

    measured: Measured
    capacity_gpu_seconds: float
    seconds: tuple[float, ...]  # of its decisions, where they are Weft's own


@dataclass(frozen=True, slots=True)
class Cell:
    """A variant of a scenario with everybody who takes part; `runs` are by seed, in the same order for all."""

    variant: str
    scenario: Scenario
    runs: dict[Entrant, tuple[Run, ...]]


def cells(seeds: int, variants: Sequence[str], *, quick: bool) -> Iterator[Cell]:
    """Every cell of the variants, as it is done; a quick run leaves out trays that are down."""
    known = settings()
    for variant in variants:
        for mix in known.mixes:
            for load in known.loads:
                down = known.trays_down if variant == "loss" and not quick else known.trays_down[:1]
                for part in down:
                    who = WITH_TRAYS_DOWN if part else VARIANTS[variant]
                    largest = LARGEST_BESIDE if variant == "equal" else None
                    scenario = Scenario(mix, load, part, largest)
                    yield cell(variant, scenario, who, range(seeds * TIMES.get(variant, 1)))


def cell(variant: str, scenario: Scenario, entrants: Sequence[Entrant], seeds: Sequence[int]) -> Cell:
    """All placers under the same events, seed after seed."""
    by_seed = []
    for seed in seeds:
        _say(f"{variant}, {scenario.mix} at {scenario.load:.0%}, {scenario.trays_down:.0%} down, seed {seed}")
        by_seed.append(_runs(variant, scenario, entrants, seed))
    _say("")
    return Cell(variant, scenario, {each: tuple(runs[each] for runs in by_seed) for each in entrants})


def _runs(variant: str, scenario: Scenario, entrants: Sequence[Entrant], seed: int) -> dict[Entrant, Run]:
    if variant == "rescale":
        return {each: _rescaled(scenario, each, seed) for each in entrants}
    events = arrivals(scenario, seed)
    patience = settings().patience_seconds if variant == "queue" else 0.0
    runs = {each: _run(scenario, each, seed, events, patience) for each in entrants}
    for _ in range(ROUNDS if variant == "equal" else 0):
        common = set.intersection(*(run.measured.admitted for run in runs.values()))
        if len(common) == len(events):
            break
        events = tuple(arrival for arrival in events if arrival.number in common)
        runs = {each: _run(scenario, each, seed, events, patience) for each in entrants}
    return runs


def _run(scenario: Scenario, entrant: Entrant, seed: int, events: Sequence[Any], patience: float) -> Run:
    known, capacity, placer = settings(), scenario.capacity(seed), entrant.make(scenario, seed)
    measured = Simulation(placer, known, capacity, patience).run(events)
    return Run(measured, capacity * (known.end - known.begin), _seconds(placer))


def _rescaled(scenario: Scenario, entrant: Entrant, seed: int) -> Run:
    wishes, capacity, placer = fleet(scenario, seed), scenario.capacity(seed), entrant.make(scenario, seed)
    measured = Rescaled(placer, wishes, capacity).run()
    known = settings().rescaling
    return Run(measured, capacity * (known.end - known.begin), _seconds(placer))


def _seconds(placer: Placer) -> tuple[float, ...]:
    return tuple(placer.seconds) if isinstance(placer, Weft) else ()


def _say(words: str) -> None:
    sys.stderr.write(f"\r{words:79}" if words else "\r" + " " * 79 + "\r")
    sys.stderr.flush()


def rejected(runs: Sequence[Run]) -> list[float]:
    """Share of the GPUs asked for that got no place, seed by seed."""
    return [run.measured.rejected_gpus / run.measured.offered_gpus for run in runs]


def rows(each: Cell) -> list[dict[str, Any]]:
    """One row for each placer; shares are parts of one."""
    return [_row(each, entrant, runs) for entrant, runs in each.runs.items()]


def _row(cell_: Cell, entrant: Entrant, runs: Sequence[Run]) -> dict[str, Any]:
    measured = [run.measured for run in runs]
    shares = rejected(runs)
    return {
        "mix": cell_.scenario.mix,
        "load": cell_.scenario.load,
        "trays_down": cell_.scenario.trays_down,
        "placer": entrant.name,
        "levers": str(entrant.levers) if entrant.name == "weft" else "",
        "variant": cell_.variant,
        "seeds": len(runs),
        "rejected_share": _rounded(fmean(shares)),
        "rejected_share_spread": _rounded(interval(shares)),
        "wedged_share": _rounded(fmean(len(each.wedged) / max(1, each.gangs) for each in measured)),
        "ep64_fit_share": _of_samples([max(each.large_fits, each.large_could_fit) for each in measured], measured),
        "ep64_fits_at_once_share": _of_samples([each.large_fits for each in measured], measured),
        "64_free_share": _of_samples([each.room_for_large for each in measured], measured),
        "utilisation": _rounded(fmean(run.measured.served_gpu_seconds / run.capacity_gpu_seconds for run in runs)),
        "moves": round(fmean(each.moves for each in measured), 1),
        "moved_gpu_share": _rounded(fmean(each.moved_gpus / max(1, each.offered_gpus) for each in measured)),
        "wait_seconds": _waits(measured) if cell_.variant == "queue" else None,
        "decide_seconds": _times([second for run in runs for second in run.seconds]),
        **_compared(cell_, entrant, shares),
    }


def _compared(cell_: Cell, entrant: Entrant, shares: Sequence[float]) -> dict[str, Any]:
    """The paired difference to Kueue's rule with its 95 % interval, and the part of the gap to the bound it closes."""
    kueue = rejected(cell_.runs[KUEUE])
    differences = [share - other for share, other in zip(shares, kueue, strict=True)]
    found: dict[str, Any] = {
        "difference_to_kueue": _rounded(fmean(differences)),
        "difference_interval": _rounded(interval(differences)),
        "gap_closed": None,
        "ep64_fit_difference": None,
        "ep64_fit_interval": None,
    }
    if cell_.variant == "equal":
        fits = [_fit(mine) - _fit(other) for mine, other in zip(cell_.runs[entrant], cell_.runs[KUEUE], strict=True)]
        found |= {"ep64_fit_difference": _rounded(fmean(fits)), "ep64_fit_interval": _rounded(interval(fits))}
    if POOLED in cell_.runs and entrant.name == "weft":
        gap = fmean(kueue) - fmean(rejected(cell_.runs[POOLED]))
        found["gap_closed"] = round(-fmean(differences) / gap, 3) if gap > 0.0 else None
    return found


def _fit(run: Run) -> float:
    return max(run.measured.large_fits, run.measured.large_could_fit) / max(1, run.measured.samples)


def _of_samples(counts: Sequence[int], measured: Sequence[Measured]) -> float:
    return _rounded(fmean(count / max(1, each.samples) for count, each in zip(counts, measured, strict=True)))


def _waits(measured: Sequence[Measured]) -> dict[str, float]:
    """Of those that got a place, in seconds."""
    waits = sorted(wait for each in measured for wait in each.waits)
    return {"mean": round(fmean(waits), 1), "p95": round(waits[int(0.95 * (len(waits) - 1))], 1)}


def _times(seconds: Sequence[float]) -> dict[str, float] | None:
    if len(seconds) < 2:
        return None
    cuts = quantiles(seconds, n=100, method="inclusive")
    return {"p50": round(cuts[49], 6), "p99": round(cuts[98], 6)}


def _rounded(share: float) -> float:
    return round(share, 5)
