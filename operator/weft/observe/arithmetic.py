"""Numbers out of Prometheus samples: increases with resets, rates, quantiles. Pure, shared by both metrics sources.

A series is a tuple of (seconds, value) samples in any order. Nothing here raises: what cannot be trusted (NaN,
infinite, negative, repeated times) is left out, and too little left gives None, never zero.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.snapshot import Buckets

Sample = tuple[float, float]

PERCENTILES = (50, 90, 95, 99)


def usable(samples: Iterable[Sample]) -> list[Sample]:
    """Samples in order of time, without values a counter or gauge of ours can never have; the later of two wins."""
    kept = {at: value for at, value in samples if math.isfinite(at) and math.isfinite(value) and value >= 0}
    return sorted(kept.items())


def increase(samples: Iterable[Sample]) -> float | None:
    """How much a counter grew from the first to the last sample. After a reset it counts from zero again."""
    ordered = [value for _, value in usable(samples)]
    if len(ordered) < 2:  # noqa: PLR2004 - a difference needs two
        return None
    return sum(after - before if after >= before else after for before, after in pairwise(ordered))


def rate(samples: Iterable[Sample]) -> float | None:
    """Growth per second between the first and the last sample."""
    ordered = usable(samples)
    grown = increase(ordered)
    return None if grown is None else grown / (ordered[-1][0] - ordered[0][0])


def latest(samples: Iterable[Sample]) -> float | None:
    """The newest usable value."""
    ordered = usable(samples)
    return ordered[-1][1] if ordered else None


def merged(histograms: Iterable[Buckets]) -> Buckets:
    """Histograms of several pods as one.

    Bounds that one lacks are read from its next lower bound, so that different buckets still add up to a whole.
    """
    known = [tuple(sorted(h)) for h in histograms if h]
    bounds = sorted({bound for histogram in known for bound, _ in histogram})
    return tuple((bound, sum(_count_below(histogram, bound) for histogram in known)) for bound in bounds)


def quantile(buckets: Buckets, fraction: float) -> float | None:
    """The value below which `fraction` of the counted observations lie.

    Linear inside a bucket, as Prometheus' `histogram_quantile` is; the highest finite bound when the answer lies above.
    """
    ordered = _cumulative(buckets)
    if not ordered or not math.isinf(ordered[-1][0]) or ordered[-1][1] <= 0:
        return None
    rank = fraction * ordered[-1][1]
    lower, below = 0.0, 0.0
    for upper, count in ordered:
        if count >= rank and math.isinf(upper):
            return lower if len(ordered) > 1 else None
        if count >= rank and count > below:
            return lower + (upper - lower) * (rank - below) / (count - below)
        lower, below = upper, count
    return None


def percentiles(buckets: Buckets) -> tuple[tuple[int, float], ...]:
    """The percentiles of design section 4, or nothing without observations."""
    values = ((percent, quantile(buckets, percent / 100)) for percent in PERCENTILES)
    return tuple((percent, value) for percent, value in values if value is not None)


def _cumulative(buckets: Buckets) -> list[tuple[float, float]]:
    """Ordered, finite counts that never fall: scrapes of a busy histogram may tear."""
    ordered: list[tuple[float, float]] = []
    highest = 0.0
    for bound, count in sorted(buckets):
        if math.isnan(bound) or not math.isfinite(count):
            continue
        highest = max(highest, count)
        ordered.append((bound, highest))
    return ordered


def _count_below(histogram: Buckets, bound: float) -> float:
    return max((count for upper, count in histogram if upper <= bound), default=0.0)
