"""`python -m bench.forecast [TRACE ...]`: how far the forecast can be trusted, and what it costs, on real traces.

A TRACE is a file in one of the formats that the twin reads, with `@4` behind it for four times its rate, or a line such
as `poisson:rate=20,seconds=14400`. For each the first table says in which part of the time the rate of a start later
stayed below a quantile: as foretold at one moment, and as kept for five minutes (which is what quantiles are learnt
for). The second says what the pool makes of it as a fluid, beside the oracle and beside a moving maximum whose margin
was chosen in hindsight.
"""

from __future__ import annotations

import argparse
import math
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.fluid import START, STEP_SECONDS, WINDOW_STEPS, Fluid, oracle_seconds
from weft.scaling.forecasting.forecast import BIN_SECONDS, forecast
from weft.scaling.forecasting.learning import HELD_BINS, watched
from weft.twin.traffic.files import read_trace
from weft.twin.traffic.made_up import SHAPES, made_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from weft.twin.traffic.trace import Trace

QUANTILES = (0.5, 0.9, 0.95, 0.99)
USUAL = ("poisson:rate=20,seconds=14400", "day:rate=10,seconds=172800", "step:to=20", "burst:seconds=14400")
BIN_STEPS = round(BIN_SECONDS / STEP_SECONDS)
REPLICAS = 20.0  # the mean demand in replicas
MINUTE_SECONDS = 60.0
MARGINS = tuple(step / 20.0 for step in range(41))


@dataclass(frozen=True, slots=True)
class Coverage:
    """Parts of the time below a quantile at one moment and as kept, and the mean of the quantile over that of the rate.

    An entry for each of `QUANTILES`.
    """

    at_once: tuple[float, ...]
    kept: tuple[float, ...]
    above: tuple[float, ...]


def trace_of(name: str) -> Trace:
    """A file, or what a line describes. Raises `TraceError` and `OSError`."""
    if name.partition(":")[0] in SHAPES:
        return made_up(name)
    path, _, factor = name.partition("@")
    with Path(path).open("rb") as file:
        trace = read_trace(file, path)
    return trace.scaled(float(factor)) if factor else trace


def rates_of(trace: Trace) -> NDArray[np.float64]:
    """Requests per second of every step."""
    steps = int(trace.seconds // STEP_SECONDS)
    counts = np.bincount((trace.arrivals // STEP_SECONDS).astype(int), minlength=steps)[:steps]
    return counts / STEP_SECONDS


def covered(rates: NDArray[np.float64], horizon_seconds: float) -> Coverage:
    """How often the rate in the bin that each forecast is about stayed below its quantiles."""
    state, foretold = None, []
    for index, rate in enumerate(rates):
        now = START + (index + 1) * STEP_SECONDS
        state = watched(state or watched(None, now - STEP_SECONDS, None, None), now, float(rate), horizon_seconds)
        found = forecast(state, now)
        if (index + 1) % BIN_STEPS == 0 and found is not None:
            foretold.append([found.quantile(part) for part in QUANTILES])
    bins = rates[: len(rates) // BIN_STEPS * BIN_STEPS].reshape(-1, BIN_STEPS).mean(axis=1)
    ahead = 1 + int(horizon_seconds // BIN_SECONDS)
    quantiles = np.array(foretold)[: len(bins) - ahead]
    actual = bins[ahead : ahead + len(quantiles)]
    kept = np.array([quantiles[max(0, row - HELD_BINS + 1) : row + 1].max(axis=0) for row in range(len(quantiles))])
    return Coverage(
        tuple((actual[:, None] <= quantiles).mean(axis=0).tolist()),
        tuple((actual[:, None] <= kept).mean(axis=0).tolist()),
        tuple((quantiles.mean(axis=0) / actual.mean()).tolist()),
    )


@dataclass(slots=True)
class MovingMaximum(Fluid):
    """A pool that has what the busiest minute of the last five took, and a margin (a part of it)."""

    margin: float = 0.0
    minutes: deque[float] = field(default_factory=lambda: deque(maxlen=round(HELD_BINS * BIN_SECONDS / STEP_SECONDS)))

    def desired(self) -> int:
        """See the class; a backlog is worked off within a minute."""
        seen = self.observation()
        if seen is None or seen.requests_per_second is None:
            return math.ceil(self.declared_rate / self.capacity)
        self.minutes.append(seen.requests_per_second + self.backlog / MINUTE_SECONDS)
        return max(1, math.ceil(max(self.minutes) * (1.0 + self.margin) / self.capacity))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.forecast", description=__doc__)
    parser.add_argument("traces", nargs="*", default=USUAL, metavar="TRACE")
    parser.add_argument("--startup", type=float, default=120.0, metavar="SECONDS", help="what a start takes")
    options = parser.parse_args(arguments)
    coverage = Table("trace", "rate", "quantile", "below at one moment", "below as kept 5 min", "over the mean rate")
    costs = Table("trace", "policy", "within 2 s", "replica-hours over the oracle's", "changes", "most")
    for name in options.traces:
        rates, label = rates_of(trace_of(name)), Path(name).name
        found = covered(rates, options.startup)
        for part, *row in zip(QUANTILES, found.at_once, found.kept, found.above, strict=True):
            mean = f"{rates.mean():.1f}/s"
            coverage.add_row(label, mean, f"{part:.0%}", f"{row[0]:.1%}", f"{row[1]:.1%}", f"{row[2]:.2f}")
        for policy, pool, over in policies(rates.tolist(), options.startup):
            changes = sum(one != other for one, other in pairwise(pool.counts))
            costs.add_row(label, policy, f"{pool.attained:.2%}", f"{over:.3f}", str(changes), str(max(pool.counts)))
    console = Console(width=140)
    console.print(coverage)
    console.print(costs)


def policies(rates: list[float], startup_seconds: float) -> Iterator[tuple[str, Fluid, float]]:
    """Name, pool after the trace, and its replica-seconds over the oracle's.

    The moving maximum has the least margin with which it attains as much as Weft.
    """
    capacity = sum(rates) / len(rates) / REPLICAS
    first = max(capacity, sum(rates[:WINDOW_STEPS]) / WINDOW_STEPS)
    oracle = oracle_seconds(rates, capacity)
    weft = Fluid(capacity=capacity, startup_seconds=startup_seconds, declared_rate=first).run(rates)
    yield "Weft", weft, weft.replica_seconds / oracle
    others = (
        MovingMaximum(capacity=capacity, startup_seconds=startup_seconds, declared_rate=first, margin=margin)
        for margin in MARGINS
    )
    for other in others:
        if other.run(rates).attained >= weft.attained:
            yield f"moving maximum + {other.margin:.0%}", other, other.replica_seconds / oracle
            return


if __name__ == "__main__":
    main()
