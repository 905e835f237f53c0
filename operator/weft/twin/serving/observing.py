"""What scrapes of simulated engines tell, as the figures of `observe_pool` but without rendering a page in between.

An engine's page has every series from its start, under the names of the newest vLLM: nothing is missing or renamed. All
of its counts are finite and never fall, so the difference of two scrapes is the growth over a window.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from weft.domain.snapshot import PodObservation
from weft.observe.samples.arithmetic import PERCENTILES
from weft.observe.signals.caveats import coarse
from weft.observe.signals.pool_totals import Histograms, Together, add_up
from weft.twin.engine.counts import TOKEN_BUCKETS, TPOT_BUCKETS, TRANSFER_BUCKETS, TTFT_BUCKETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from weft.domain.snapshot import Buckets, PoolObservation
    from weft.domain.start_up import MeasuredStart
    from weft.observe.signals.arriving import Arrived
    from weft.twin.engine.engine import SimulatedEngine

    Percentiles = tuple[tuple[int, float], ...]

_KINDS = (TTFT_BUCKETS, TPOT_BUCKETS, TOKEN_BUCKETS, TRANSFER_BUCKETS)
_TTFT, _TPOT, _TOKENS, _TRANSFER = ((*bounds, math.inf) for bounds in _KINDS)
_BOUNDS = (_TTFT, _TPOT, _TOKENS, _TOKENS, _TRANSFER)  # in the order of the fields of `Histograms`
_SUMS = 10  # entries of `Scrape.counts` before the buckets
_ENDS = tuple(accumulate(map(len, _BOUNDS), initial=_SUMS))
_IN_TTFT, _IN_TPOT, _IN_INPUTS, *_ = _PARTS = tuple(slice(*pair) for pair in pairwise(_ENDS))
_SHARES = tuple(percent / 100 for percent in PERCENTILES)


@dataclass(frozen=True, slots=True)
class Scrape:
    """One scrape of one engine: counts since its start, and gauges.

    `counts` are, in order: requests ended, prompt tokens looked up in the prefix cache and those found, the sums of
    TTFT, of TPOT and of tokens of prompts, of answers and computed of prompts, KV transfers and their seconds, and then
    the buckets of TTFT, TPOT, prompt tokens, answer tokens and transfers.
    """

    at: float
    counts: NDArray[np.float64]  # one array: it is cold in the CPU cache when it is read again a minute later
    waiting: int
    waiting_for_kv: int
    running: int
    kv_usage: float


@dataclass(frozen=True, slots=True)
class SeenEngine:
    """Figures of one engine, and how much its counts grew, which is left out of comparisons."""

    pod: PodObservation
    grown: NDArray[np.float64] = field(compare=False)


def scrape(engine: SimulatedEngine, now: float) -> Scrape:
    """Scrape an engine that has been advanced to `now`."""
    counts = engine.counts
    ttft, tpot, inputs, outputs = counts.ttft, counts.tpot, counts.inputs, counts.outputs
    copied = [
        *(counts.answered + counts.cancelled, counts.prefix_queries, counts.prefix_hits),
        *(ttft.total, tpot.total, inputs.total, outputs.total, counts.computed.total),
        *(sum(counts.transfer.buckets), counts.transfer.total),
        *(*ttft.buckets, *tpot.buckets, *inputs.buckets, *outputs.buckets, *counts.transfer.buckets),
    ]
    return Scrape(
        now, np.array(copied), engine.waiting_for_capacity, engine.waiting_for_transfer, engine.running, engine.kv_usage
    )


def observe_engine(name: str, first: Scrape, last: Scrape, now: float, start: MeasuredStart | None) -> SeenEngine:
    """Return figures of one engine between two scrapes, as `observe_pod` computes them."""
    growth = last.counts - first.counts
    grown = growth.tolist()
    ended, _, _, ttft_sum, tpot_sum, inputs_sum, outputs_sum, computed_sum, transfers, transfer_sum = grown[:_SUMS]
    ttft, tpot = list(accumulate(grown[_IN_TTFT])), list(accumulate(grown[_IN_TPOT]))
    answered, ttft_mean, tpot_mean = sum(grown[_IN_INPUTS]), _mean(ttft_sum, ttft[-1]), _mean(tpot_sum, tpot[-1])
    pod = PodObservation(
        pod=name,
        age_seconds=max(0.0, now - last.at),
        requests_per_second=ended / (last.at - first.at),
        input_tokens=_mean(inputs_sum, answered),
        output_tokens=_mean(outputs_sum, answered),
        computed_input_tokens=_mean(computed_sum, answered),
        waiting=last.waiting,
        running=last.running,
        kv_usage=last.kv_usage,
        ttft=percentiles(_TTFT, ttft, ttft_mean),
        tpot=percentiles(_TPOT, tpot, tpot_mean),
        ttft_mean=ttft_mean,
        tpot_mean=tpot_mean,
        transfer_seconds=_mean(transfer_sum, transfers),
        waiting_for_kv=last.waiting_for_kv,
        startup_seconds=None if start is None else float(sum(start.phases)),
        start=start,
        transfers_done=transfers,
        requests_done=ended,
    )
    return SeenEngine(pod, growth)


def observe_engines(expected: int, seen: Sequence[SeenEngine], arrived: Arrived, rate: float | None) -> PoolObservation:
    """Return figures of a pool from those of the `expected` engines that answered, at `rate` requests per second."""
    found, prefix_tokens = Histograms((), (), (), (), ()), (0.0, 0.0)
    if seen:
        grown = np.sum([each.grown for each in seen], axis=0).tolist()
        found = Histograms(*(_buckets(each, grown[part]) for each, part in zip(_BOUNDS, _PARTS, strict=True)))
        prefix_tokens = (grown[1], grown[2])
    together = Together(found, arrived, prefix_tokens, rate, caveats=coarse(found.ttft, found.tpot))
    return add_up(expected, tuple(each.pod for each in seen), together)


def percentiles(bounds: Sequence[float], counts: Sequence[float], mean: float | None) -> Percentiles:
    """Percentiles as `weft.observe.samples.arithmetic.percentiles`, of cumulative counts that are known to ascend."""
    return () if mean is None else tuple(zip(PERCENTILES, _values(_SHARES, bounds, counts, mean), strict=True))


def _values(shares: Sequence[float], bounds: Sequence[float], counts: Sequence[float], mean: float) -> list[float]:
    """Return the values at these shares of all counts; one function without calls, as it runs millions of times."""
    total, last, values = counts[-1], len(counts) - 2, []
    in_first, in_all = counts[0] / total, counts[last] / total
    for share in shares:
        if share <= in_first:
            values.append(min(mean, bounds[0]))
        elif share > in_all:
            values.append(max(mean, bounds[last]))
        else:
            rank = share * total
            place = bisect_left(counts, rank, 1, last)
            lower, below = bounds[place - 1], counts[place - 1]
            values.append(lower + (bounds[place] - lower) * (rank - below) / (counts[place] - below))
    return values


def _mean(total: float, count: float) -> float | None:
    return total / count if count else None


def _buckets(bounds: Sequence[float], counts: Sequence[float]) -> Buckets:
    return tuple(zip(bounds, accumulate(counts), strict=True))
