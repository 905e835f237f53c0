"""What was simulated, and the figures that every page shows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from weft.cli.simulate.series import clock, percentiles
from weft.domain.texts.figures import digits, seconds

if TYPE_CHECKING:
    from weft.domain.reasons import Reason
    from weft.domain.workload import Slo
    from weft.twin.outcome import Shortage, SimulationOutcome

PERCENTS = (50, 90, 95, 99)
USUAL = 95  # the percentile of most SLOs, shown where a table has room for one
DRAWN = (50, USUAL, 99)  # shown where there is room for three


class Said(NamedTuple):
    """What was said of a pool, and for which reason, `at` seconds since the trace began."""

    at: float
    pool: str
    reason: Reason
    words: str


def everything_said(outcome: SimulationOutcome) -> list[Said]:
    """Return all decisions and shortages of an outcome, by time."""
    said = [Said(each.at, each.pool, each.explanation.reason, each.explanation.message) for each in outcome.told]
    said += [
        Said(each.at, each.pool, each.explanation.reason, f"until {clock(each.until)}: {at_its_worst(each)}")
        for each in outcome.shortages
    ]
    return sorted(said, key=attrgetter("at"))


def at_its_worst(shortage: Shortage) -> str:
    """Return the message of a shortage, and when it was true, unless from the beginning."""
    when = f"at worst ({clock(shortage.worst_at)}) " if shortage.worst_at > shortage.at else ""
    return f"{when}{shortage.explanation.message}"


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """Outcomes of one trace, in the order in which their policies were given.

    `trace` is as typed, `seconds` its length, and `faults` are (seconds, node that fails). A start takes
    `start_up_seconds` in the median once the image is pulled, in the pool where it takes longest. `oracle_gpu_hours` is
    the least with full knowledge of the trace, None where it is unknown. `too_long` requests have more than the
    `most_tokens` that a replica takes; `left_out` rows of the trace's file have no prompt or no answer.
    """

    resource: str
    trace: str
    seconds: float
    seed: int
    outcomes: tuple[SimulationOutcome, ...]
    faults: tuple[tuple[float, str], ...] = ()
    oracle_gpu_hours: float | None = None
    too_long: int = 0
    most_tokens: int = 0
    left_out: int = 0
    start_up_seconds: float = 0.0

    @property
    def first(self) -> SimulationOutcome:
        return self.outcomes[0]

    @property
    def alone(self) -> bool:
        """Whether there is only one policy, and so nothing to compare."""
        return len(self.outcomes) == 1


@dataclass(frozen=True, slots=True)
class Figures:
    """One outcome after its warm-up: counts of requests, the attainment (0 to 1), and seconds at `PERCENTS`.

    Latencies are of answered requests. `meets` is whether each percentile of the SLO holds, with failed requests
    counted as infinitely slow. Unknown values are NaN. `unfinished` requests are not among `requests`.
    """

    requests: int
    completed: int
    attainment: float
    meets: bool
    ttft: tuple[float, ...]
    tpot: tuple[float, ...]
    changes: int
    unfinished: int = 0

    @classmethod
    def of(cls, outcome: SimulationOutcome) -> Figures:
        counted = outcome.counted
        completed = counted.completed
        return cls(
            requests=len(counted.arrived),
            completed=int(completed.sum()),
            attainment=outcome.attainment,
            meets=_meets(outcome),
            ttft=tuple(percentiles(counted.ttft, PERCENTS)),
            tpot=tuple(percentiles(counted.tpot, PERCENTS)),
            changes=sum(pool.changes for pool in outcome.pools),
            unfinished=int((outcome.unfinished >= outcome.warm_up).sum()),
        )

    @property
    def failed(self) -> int:
        return self.requests - self.completed

    def ttft_at(self, percent: int) -> float:
        """Return the TTFT in seconds at one of `PERCENTS`."""
        return self.ttft[PERCENTS.index(percent)]

    def tpot_at(self, percent: int) -> float:
        """Return the TPOT in seconds at one of `PERCENTS`."""
        return self.tpot[PERCENTS.index(percent)]


def _meets(outcome: SimulationOutcome) -> bool:
    """Whether every target holds; an answer of one token meets any TPOT target. Without targets no request may fail."""
    counted = outcome.counted
    if not (outcome.slo.ttft or outcome.slo.tpot):
        return bool(counted.completed.all())
    tpot = np.where(np.isnan(counted.tpot), 0.0, counted.tpot)
    held = [
        bool(np.mean(values <= target) * 100.0 >= percent - 1e-9)
        for values, targets in ((counted.ttft, outcome.slo.ttft), (tpot, outcome.slo.tpot))
        for percent, target in targets
        if len(values)
    ]
    return all(held)


def slo_words(slo: Slo) -> str:
    """Format targets: `TTFT p95 500 ms, TPOT p95 30 ms`."""
    parts = [
        f"{name} p{percent} {seconds(target)}"
        for name, targets in (("TTFT", slo.ttft), ("TPOT", slo.tpot))
        for percent, target in targets
    ]
    return ", ".join(parts) or "none declared"


def percent(fraction: float) -> str:
    """Format a fraction: `99.2 %`, rounded down; `-` for NaN."""
    if math.isnan(fraction):
        return "-"
    whole = 100.0 * fraction
    return f"{math.floor(whole * 10) / 10:.1f} %" if whole < 100.0 else "100 %"  # noqa: PLR2004 - a hundred percent


def time(value: float) -> str:
    """Format a latency in seconds, with a dash for NaN and infinity."""
    return seconds(value) if math.isfinite(value) else "-"


def times_least(report: Report, outcome: SimulationOutcome) -> str:
    """Format GPU-hours as a multiple of the least that meets the SLO, such as `1.8`; `-` where it is unknown."""
    return of_least(outcome.gpu_hours, report.oracle_gpu_hours, meets=_meets(outcome))


def of_least(gpu_hours: float, least: float | None, *, meets: bool | None) -> str:
    """Format a multiple of the least, such as `1.8`. Whoever took less has missed the SLO, and so it is said."""
    if not least:
        return "-"
    times = digits(gpu_hours / least)
    return f"{times}, SLO missed" if gpu_hours < least and meets is False else times
