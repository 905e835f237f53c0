"""Counters and histograms of one engine, counted as vLLM counts them."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.twin.engine.request import SimulatedRequest
    from weft.twin.engine.steps import PiecewiseLinear

# vLLM's default buckets (vllm/v1/metrics/loggers.py), in seconds
TTFT_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
    *(160.0, 640.0, 2560.0),
)
TPOT_BUCKETS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
LATENCY_BUCKETS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0),
    *(1920.0, 7680.0),
)
# buckets of NIXL's transfers, in seconds (`nixl_xfer_time_seconds` of vLLM 0.33)
TRANSFER_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0)
TOKEN_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000)


class Histogram:
    """Counts by bucket (not cumulative), with a last bucket for values above all bounds, and the sum of the values."""

    __slots__ = ("bounds", "buckets", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` ascend; a bucket counts values that are at most its bound."""
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value so many times."""
        self.buckets[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def observe_run(self, line: PiecewiseLinear, length: float, steps: int, times: int) -> None:
        """Count the seconds of consecutive steps by bucket, each one token longer than the last, each `times` times.

        Steps never become shorter, so all steps between two of one bucket are in it too. The caller adds to the sum.
        """
        low = high = bisect_left(self.bounds, line.at(length))
        if steps > 1:
            high = bisect_left(self.bounds, line.at(length + steps - 1))
        if low == high:
            self.buckets[low] += times * steps
            return
        half = steps // 2
        self.observe_run(line, length, half, times)
        self.observe_run(line, length + half, steps - half, times)


class Counts:
    """Counters and histograms of one engine since its start; `answered` and `cancelled` are requests."""

    def __init__(self) -> None:
        """Start with everything at zero."""
        self.prompt_tokens = self.generated_tokens = 0
        self.prefix_queries = self.prefix_hits = 0
        self.preemptions = self.answered = self.cancelled = 0
        self.ttft = Histogram(TTFT_BUCKETS)
        self.inter_token = Histogram(TPOT_BUCKETS)
        self.tpot = Histogram(TPOT_BUCKETS)
        self.latency = Histogram(LATENCY_BUCKETS)
        self.queue = Histogram(LATENCY_BUCKETS)
        self.inputs = Histogram(TOKEN_BUCKETS)
        self.outputs = Histogram(TOKEN_BUCKETS)
        self.computed = Histogram(TOKEN_BUCKETS)
        self.transfer = Histogram(TRANSFER_BUCKETS)

    def first_token(self, request: SimulatedRequest) -> None:
        """Count a prompt whose first token is out."""
        self.prompt_tokens += request.input_tokens
        self.ttft.observe(request.ttft)

    def end(self, request: SimulatedRequest) -> None:
        """Count a request that has its last token; one loop without calls, as every request comes here."""
        self.answered += 1
        tokens = request.input_tokens
        for histogram, value in (
            (self.tpot, request.tpot),
            (self.latency, request.latency),
            (self.queue, request.queue),
            (self.inputs, tokens),
            (self.outputs, request.made),
            (self.computed, tokens - request.cached_tokens),
        ):
            histogram.buckets[bisect_left(histogram.bounds, value)] += 1
            histogram.total += value
