"""`python -m bench.oracle`: what hindsight is worth on published traces, in GPU-hours, without simulating anything.

For each trace and time to start: a bound in the fluid model, the oracle's counts, a moving maximum tuned in hindsight,
and fleets that never change; then what a split wastes at the best fixed ratio. All in the fluid model of
`weft.twin.hindsight.need`: Llama 70B in FP8 on two H200, TPOT of 50 ms for 99 % of the requests. `in time alone` are
those that a replica for each would answer with that TPOT and a TTFT of 2 s: no policy reaches more.

The traces are no part of Weft: they are looked for in the folder `traces` of `WEFT_BENCH_DATA`, or of `shared/data`
beside the repository.
"""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.fixed_ratio import fixed_ratio
from bench.oracle_bench.moving_maximum import HOUR, moving_maximum
from bench.scaling_bench.scenarios import data_folder
from bench.twin import replica_speed
from weft.domain.workload import Slo
from weft.twin.hindsight.need import attainable, demand, replicas_needed, split_needed
from weft.twin.hindsight.oracle import PoolNeed, Terms, bound_hours, oracle_hours
from weft.twin.traffic.files import read_trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from weft.twin.traffic.trace import Trace

GPUS, SLO = 2, Slo(ttft=((99, 2.0),), tpot=((99, 0.05),))
BIN_SECONDS, RATIO_BIN_SECONDS, DRAIN_SECONDS = 30.0, 300.0, 30.0
START_UPS_SECONDS = (60.0, 120.0, 300.0)
TOKEN_COSTS = (0.5, 1.0, 3.0, 8.0)  # of a decoded token, in tokens of prompts


@dataclass(frozen=True, slots=True)
class Source:
    """A trace by its file, and as how many copies of it are replayed, so that fleets have several replicas."""

    name: str
    path: str
    times: float


SOURCES = (
    Source("Azure 2023 code", "azure/AzureLLMInferenceTrace_code.csv", 24.0),
    Source("Azure 2023 conversation", "azure/AzureLLMInferenceTrace_conv.csv", 16.0),
    Source("Mooncake conversation", "mooncake/conversation_trace.jsonl", 3.0),
    Source("ServeGen deepseek-r1", "servegen/deepseek-r1-24h.csv.gz", 4.0),
)


def static_count(pool: PoolNeed, requests: NDArray[np.float64], terms: Terms) -> int:
    """The fewest replicas which, always there, lose no more requests than allowed."""
    allowed = (1.0 - terms.attainment) * float(requests.sum())
    return next(count for count in itertools.count(pool.least) if _lost(pool, requests, count) <= allowed)


def _lost(pool: PoolNeed, requests: NDArray[np.float64], count: int) -> float:
    return float(pool.lost(requests, np.full(len(requests), count)).sum())


def rows(source: Source, trace: Trace) -> Iterator[tuple[str, ...]]:
    """GPU-hours of one trace, a row for each time to start; for the bound no prompt is in the way of decoding."""
    speed, requests = replica_speed(prefixes=bool(trace.blocks)), demand(trace, BIN_SECONDS).requests
    at_best, pool = (
        PoolNeed("pool", GPUS, replicas_needed(trace, speed, SLO, BIN_SECONDS, interrupted=interrupted))
        for interrupted in (False, True)
    )
    mean, peak, whole = pool.needed.mean(), pool.needed.max(), GPUS * BIN_SECONDS * len(requests) / HOUR
    in_time = f"{100.0 * attainable(trace, speed, SLO):.1f} %"
    for start_up in START_UPS_SECONDS:
        terms = Terms(BIN_SECONDS, start_up, DRAIN_SECONDS)
        bound, found = bound_hours([at_best], requests, terms), oracle_hours([pool], requests, terms)
        moving, steady = moving_maximum(pool, requests, terms), static_count(pool, requests, terms)
        yield (
            f"{source.name} x{source.times:g}",
            f"{start_up:.0f}",
            in_time,
            *(f"{value:.2f}" for value in (at_best.needed.mean(), mean, peak)),
            *(f"{value:.1f}" for value in (bound, found.hours)),
            f"{moving.hours:.1f} ({moving.window_seconds:.0f} s, x{moving.factor:.2f})" if moving else "none is enough",
            f"{moving.hours / found.hours:.2f}" if moving else "",
            *(f"{value:.1f}" for value in (whole * steady, whole * math.ceil(peak))),
        )


def ratio_row(source: Source, trace: Trace) -> tuple[str, ...]:
    """What a fixed ratio wastes of one trace: at the speeds of the replicas, and at given costs of tokens."""
    speed = replica_speed(prefixes=bool(trace.blocks))
    pairs = [split_needed(trace, speed, speed, SLO, RATIO_BIN_SECONDS)]
    tokens = demand(trace, RATIO_BIN_SECONDS)
    pairs += [(tokens.inputs, cost * tokens.decoded) for cost in TOKEN_COSTS]
    found = [
        fixed_ratio(PoolNeed("prefill", GPUS, prompts), PoolNeed("decode", GPUS, answers), RATIO_BIN_SECONDS)
        for prompts, answers in pairs
    ]
    first = found[0]
    hours = (f"{first.following_hours:.1f}", f"{first.fixed_hours:.1f}", f"{first.ratio:.2f}")
    return (source.name, *hours, *(f"{each.waste_percent:.1f}" for each in found))


def shown(title: str, columns: Iterable[str], lines: Iterable[tuple[str, ...]]) -> None:
    """A table on the terminal."""
    table = Table(title=title, title_justify="left", box=None)
    for column in columns:
        table.add_column(column, justify="left" if column == "trace" else "right")
    for line in lines:
        table.add_row(*line)
    Console(width=200).print(table)


def main() -> int:
    """Print both tables; ends with 1 where a trace is missing."""
    folder = data_folder() / "traces"
    missing = [source.path for source in SOURCES if not (folder / source.path).is_file()]
    if missing:
        print(f"there is no {missing[0]} in {folder}: set WEFT_BENCH_DATA to the folder that has traces/")
        return 1
    hours, ratios = [], []
    for source in SOURCES:
        with (folder / source.path).open("rb") as file:
            trace = read_trace(file, source.path)
        hours += list(rows(source, trace.scaled(source.times)))
        ratios.append(ratio_row(source, trace))
    needs = ("least mean need", "mean need", "peak need")
    figures = ("bound", "oracle", "moving maximum", "of oracle", "static", "static peak")
    shown("GPU-hours for 99 % of the requests", ("trace", "start-up s", "in time alone", *needs, *figures), hours)
    costs = tuple(f"token x{cost:g}" for cost in TOKEN_COSTS)
    shown(
        "Waste of the best fixed ratio, percent",
        ("trace", "following GPU-h", "fixed GPU-h", "ratio", "waste", *costs),
        ratios,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
