"""How much longer latency tails are than predicted: once measured, they replace the model's error bar.

Targets are percentiles, and a prediction has to meet them in spite of an error bar: what latencies exceed it by one
time in ten. A running pool shows what they really exceed it by. At the edge of the bucket that is nearest to the
target's percentile the measured share is exact, so that coarse buckets do no harm: that edge over the latency
expected for this share is one measurement. Nothing is concluded from quantiles inside a bucket.

What is expected has requests wait as capacity counts on, so that both together are what was measured. Behind a front
that lets them wait less, a tail is below 1: that holds among others, and what one alone serves leaves it out
(`weft.shaping.together`).

A measurement counts the less, the farther the expected percentile is from its target: an idle replica tells little
about a full one. The first measurements move a tail more than later ones, as the error bar that it starts from is a
guess; outliers are bounded, and a tail never falls below four fifths of the prediction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING

from weft.domain.workload import Role

if TYPE_CHECKING:
    from weft.domain.shape import Calibration, Percentiles
    from weft.domain.snapshot import Buckets, PoolObservation
    from weft.domain.workload import Slo

Targets = tuple[tuple[int, float], ...]

LEAST, MOST = 0.8, 3.0  # of what is expected
GAIN = 0.2  # of the way to a measurement, once there are five
_MOST_AT_ONCE = math.log(1.5)
_MEDIAN, NEARLY_ALL = 0.5, 0.995  # shares of requests outside which an edge is only a bound
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class ExpectedLatencies:
    """Predicted latencies of one replica at the observed load and present factors, and the error bar of each."""

    ttft: Percentiles
    tpot: Percentiles
    ttft_error_bar: float
    tpot_error_bar: float


def followed(
    factors: Calibration, seen: PoolObservation, role: Role, slo: Slo, expected: ExpectedLatencies
) -> Calibration:
    """The factors with their tails moved towards what was measured, for the latencies that the role has."""
    gain = max(GAIN, 1.0 / (factors.points + 1))
    if role is not Role.Decode:
        before = factors.ttft_tail or expected.ttft_error_bar
        tail = _moved(before, tail_of(seen.ttft_buckets, slo.ttft, expected.ttft), slo.ttft, expected.ttft, gain)
        factors = replace(factors, ttft_tail=tail) if tail is not None else factors
    if role is not Role.Prefill:
        before = factors.tpot_tail or expected.tpot_error_bar
        tail = _moved(before, tail_of(seen.tpot_buckets, slo.tpot, expected.tpot), slo.tpot, expected.tpot, gain)
        factors = replace(factors, tpot_tail=tail) if tail is not None else factors
    return factors


def tail_of(buckets: Buckets, targets: Targets, expected: Percentiles) -> float | None:
    """Measured over expected latency at the percentile of the highest target, as well as the buckets tell.

    Where no edge lies in the upper half, 1 if that is compatible with the edges. None without a target,
    without observations, or where no time or an endless one is expected.
    """
    edges = shares_below(buckets)
    if not targets or not edges or expected.p50 <= 0.0 or math.isinf(expected.p99):
        return None
    wanted = _NORMAL.inv_cdf(targets[-1][0] / 100.0)
    telling = [(bound, share) for bound, share in edges if _MEDIAN <= share <= NEARLY_ALL]
    if telling:
        bound, share = min(telling, key=lambda edge: abs(_NORMAL.inv_cdf(edge[1]) - wanted))
        return bound / latency_at(share, expected)
    least = max((bound / expected.p50 for bound, share in edges if share < _MEDIAN), default=0.0)
    most = min((bound / latency_at(NEARLY_ALL, expected) for bound, share in edges if share > NEARLY_ALL), default=MOST)
    return min(most, max(least, 1.0))


def latency_at(share: float, expected: Percentiles) -> float:
    """Seconds within which this share of requests is expected: log-normal between the percentiles, and beyond them."""
    known = ((0.5, expected.p50), (0.9, expected.p90), (0.95, expected.p95), (0.99, expected.p99))
    points = [(_NORMAL.inv_cdf(part), math.log(seconds)) for part, seconds in known]
    at = _NORMAL.inv_cdf(share)
    after = next((place for place, (deviations, _) in enumerate(points) if at <= deviations), len(points) - 1)
    (left, low), (right, high) = points[max(1, after) - 1], points[max(1, after)]
    return math.exp(low + (high - low) * (at - left) / (right - left))


def _moved(before: float, measured: float | None, targets: Targets, expected: Percentiles, gain: float) -> float | None:
    """A tail moved part of the way towards a measurement; None where nothing was measured."""
    if measured is None or not math.isfinite(measured) or measured <= 0.0:
        return None
    percent, target = targets[-1]
    nearness = min(1.0, before * latency_at(percent / 100.0, expected) / target)
    step = max(-_MOST_AT_ONCE, min(_MOST_AT_ONCE, math.log(measured / before)))
    return min(MOST, max(LEAST, before * math.exp(gain * nearness * step)))


def shares_below(buckets: Buckets) -> list[tuple[float, float]]:
    """Finite edges with the share of requests below each, in order; counts of a torn scrape are made monotonic."""
    ordered = [(bound, count) for bound, count in sorted(buckets) if bound > 0 and math.isfinite(count)]
    total = max((count for _, count in ordered), default=0.0)
    if total <= 0:
        return []
    shares, highest = [], 0.0
    for bound, count in ordered:
        highest = max(highest, count)
        if math.isfinite(bound):
            shares.append((bound, highest / total))
    return shares
