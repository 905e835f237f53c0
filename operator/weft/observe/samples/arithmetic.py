"""Arithmetic on Prometheus samples: increases with resets, rates, quantiles. Pure, shared by both metrics sources.

A series is a tuple of (seconds, value) samples in any order. Nothing here raises: what cannot be trusted (NaN,
infinite, negative, beyond all counting, repeated times) is left out, and too little left gives None, never zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from operator import lt
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weft.domain.snapshot import Buckets

Sample = tuple[float, float]
Times = tuple[float, ...]

PERCENTILES = (50, 90, 95, 99)
# Fraction of all observations: with fewer below a bucket, where in it they lie is unknown.
ENOUGH_BELOW = 0.05
# Tokens that a cluster computes in a century, and more than anything else: larger values are not believed.
MOST_COUNTED = 1e15

_NEARLY_ALL = math.nextafter(1.0, 0.0)
_NORMAL = NormalDist()


def known_of(values: Iterable[float | None]) -> tuple[float, ...]:
    """The values that were measured."""
    return tuple([value for value in values if value is not None])


def total_of(values: tuple[float, ...]) -> float | None:
    """Their sum; None of none."""
    return sum(values) if values else None


def mean_of(values: tuple[float, ...]) -> float | None:
    """Their mean; None of none."""
    return sum(values) / len(values) if values else None


def usable(samples: Iterable[Sample], known: list[Times] | None = None) -> list[Sample]:
    """Samples in order of time, without impossible values for our counters and gauges; of equal times the later wins.

    Series of one page share their times: the last ones that were in order are `known` to the next series.
    """
    line = list(samples)
    if _is_sound(line, [] if known is None else known):
        return line
    kept = {at: value for at, value in line if math.isfinite(at) and 0 <= value <= MOST_COUNTED}
    return sorted(kept.items())


def _is_sound(line: list[Sample], known: list[Times]) -> bool:
    """Whether all samples are usable and in order already, as in nearly all series; most never change."""
    if not line:
        return True
    times, values = zip(*line, strict=True)
    if known != [times]:
        if not (all(map(lt, times, times[1:])) and -math.inf < times[0] and times[-1] < math.inf):
            return False
        known[:] = [times]
    if values.count(values[0]) == len(values):
        return bool(0 <= values[0] <= MOST_COUNTED)
    return min(values) >= 0 and max(values) <= MOST_COUNTED and not math.isnan(sum(values))


def increase(samples: Iterable[Sample]) -> float | None:
    """How much a counter grew from the first to the last sample; after a reset it counts from zero."""
    return grown(usable(samples))


def grown(ordered: Sequence[Sample]) -> float | None:
    """As `increase`, for usable samples in order of time. Most buckets of a histogram never change."""
    if len(ordered) < 2:  # noqa: PLR2004 - a difference needs two
        return None
    values: tuple[float, ...]
    _, values = zip(*ordered, strict=True)
    if values.count(values[0]) == len(values):
        return 0.0
    return sum([after - before if after >= before else after for before, after in pairwise(values)])


def rate(samples: Iterable[Sample]) -> float | None:
    """Growth per second between the first and the last sample."""
    return pace(usable(samples))


def pace(ordered: Sequence[Sample]) -> float | None:
    """As `rate`, for usable samples in order of time."""
    more = grown(ordered)
    return None if more is None else more / (ordered[-1][0] - ordered[0][0])


def joint_pace(lines: Iterable[Sequence[Sample]]) -> float | None:
    """Growth per second of the counters of one page together, each in order of time; None without any.

    One that appears late or goes early was not there for the rest of the time, and counts over all of it: by its own
    span a burst under a new label would last as long as the others did. Only two pages in a row that lack it say so, as
    a single one may be truncated.
    """
    told = [line for line in lines if line]
    if len({(line[0][0], line[-1][0]) for line in told}) < 2:  # noqa: PLR2004 - all are of the same time
        return total_of(known_of(map(pace, told)))
    times = sorted({at for line in told for at, _ in line})
    return total_of(known_of(_pace_within(line, times) for line in told))


def _pace_within(line: Sequence[Sample], times: Sequence[float]) -> float | None:
    """Growth per second of a counter, over all `times` of its page unless at most one of them lacks it at an end."""
    more, (first, last) = grown(line), (line[0][0], line[-1][0])
    begun = times[0] if first > times[1] else first
    ended = times[-1] if last < times[-2] else last
    return None if more is None else more / (ended - begun)


def latest(samples: Iterable[Sample]) -> float | None:
    """The newest usable value; None without any."""
    ordered = usable(samples)
    return ordered[-1][1] if ordered else None


def merged(histograms: Iterable[Buckets]) -> Buckets:
    """Histograms of several pods as one.

    A bound that one lacks is read from its next lower bound, so that different buckets still add up.
    """
    known = [sorted(histogram) for histogram in histograms if histogram]
    bounds = sorted({bound for histogram in known for bound, _ in histogram})
    counts = [_counts_below(histogram, bounds) for histogram in known]
    return tuple(zip(bounds, map(sum, zip(*counts, strict=True)), strict=True))


def quantile(buckets: Buckets, fraction: float) -> float | None:
    """The value below which `fraction` of the counted observations lie; None without any or without an infinite bucket.

    Linear inside a bucket, as Prometheus' `histogram_quantile` is; the highest finite bound when the answer lies above.
    """
    return _quantile(_cumulative(buckets), fraction)


def _quantile(ordered: list[tuple[float, float]], fraction: float) -> float | None:
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


def log_normal_quantile(buckets: Buckets, fraction: float) -> float | None:
    """The value below which `fraction` of the observations lie, log-normal inside a bucket, as lengths are.

    Linear ones are far too long if buckets double. None unless the bucket that holds it is finite, and enough
    observations (`ENOUGH_BELOW` of them) are below it for its lower bound to say something.
    """
    ordered = _cumulative(buckets)
    total = ordered[-1][1] if ordered else 0.0
    for (lower, below), (upper, count) in pairwise(ordered):
        if below < fraction * total <= count:
            if lower <= 0.0 or below < ENOUGH_BELOW * total or math.isinf(upper):
                return None
            all_but_half_a_one = max(1.0 - 0.5 / total, (1.0 + fraction) / 2.0)
            shares = (below / total, fraction, min(count / total, all_but_half_a_one, _NEARLY_ALL))
            first, wanted, last = map(_NORMAL.inv_cdf, shares)
            return lower * math.exp(math.log(upper / lower) * (wanted - first) / (last - first))
    return None


def few_far_longer(buckets: Buckets, mean: float | None) -> tuple[float, float] | None:
    """Fraction of a few values far longer than the rest, which are alike, and how many times the mean they are.

    The values are taken for two: of this mean, and with the second moment and the shorter value that the buckets tell.
    None unless 95 of 100 are in buckets that end below the mean. Logarithms are uniform inside a bucket.
    """
    ordered = _cumulative(buckets)
    if mean is None or not ordered or ordered[-1][1] <= 0 or ordered[0][0] <= 0:
        return None
    total, first, second, usual, share = ordered[-1][1], 0.0, 0.0, 0.0, 0.0
    for (lower, below), (upper, count) in pairwise([(ordered[0][0] / 2.0, 0.0), *ordered]):
        part, top = (count - below) / total, upper if math.isfinite(upper) else 2.0 * lower
        first += part * (top - lower) / math.log(top / lower)
        second += part * (top**2 - lower**2) / (2.0 * math.log(top / lower))
        if upper < mean:
            usual, share = first, count / total
    if share < 1.0 - ENOUGH_BELOW or usual / share >= mean:
        return None
    beyond, growth = 1.0 - usual / share / mean, second / first**2
    times = 1.0 + (growth - 1.0) / beyond
    few = beyond / (times - 1.0 + beyond)
    return (few, times) if few <= ENOUGH_BELOW else None


@dataclass(frozen=True, slots=True)
class Ends:
    """The first and the last finite bound of a histogram (0 without any), and the fractions counted up to them."""

    first: float
    below_first: float
    last: float
    below_last: float

    @property
    def finite(self) -> bool:
        """Whether there is any finite bucket."""
        return self.last > 0

    def below(self, percent: int) -> bool:
        """Whether a percentile lies in the first bucket, where its value is unknown."""
        return self.finite and percent / 100 <= self.below_first

    def above(self, percent: int) -> bool:
        """Whether a percentile lies above the last finite bound."""
        return percent / 100 > self.below_last


def ends(buckets: Buckets) -> Ends | None:
    """The ends of a histogram; None if it counted nothing."""
    return _ends(_cumulative(buckets))


def _ends(ordered: list[tuple[float, float]]) -> Ends | None:
    if not ordered or not math.isinf(ordered[-1][0]) or ordered[-1][1] <= 0:
        return None
    total = ordered[-1][1]
    finite = [(bound, count / total) for bound, count in ordered if 0 < bound < math.inf] or [(0.0, 0.0)]
    return Ends(*finite[0], *finite[-1])


def percentiles(buckets: Buckets, mean: float | None = None) -> tuple[tuple[int, float], ...]:
    """The percentiles that an SLO may name, as (percent, value); empty without observations.

    If the buckets cannot resolve one, the mean stands for it, as far as the bucket allows; without it, none is given.
    """
    ordered = _cumulative(buckets)
    found = _ends(ordered)
    if found is None:
        return ()
    values = ((percent, _percentile(ordered, percent, found, mean)) for percent in PERCENTILES)
    return tuple((percent, value) for percent, value in values if value is not None)


def unresolved(buckets: Buckets) -> tuple[int, ...]:
    """The percentiles that the buckets cannot resolve."""
    found = ends(buckets)
    return () if found is None else tuple(one for one in PERCENTILES if found.below(one) or found.above(one))


def _percentile(ordered: list[tuple[float, float]], percent: int, found: Ends, mean: float | None) -> float | None:
    if found.below(percent):
        return None if mean is None else min(mean, found.first)
    if found.above(percent):
        return None if mean is None else max(mean, found.last)
    return _quantile(ordered, percent / 100)


def _cumulative(buckets: Buckets) -> list[tuple[float, float]]:
    """Ordered, finite counts that never fall: scrapes of a busy histogram may be inconsistent."""
    ordered: list[tuple[float, float]] = []
    highest = 0.0
    told = ((bound, count) for bound, count in buckets if not math.isnan(bound) and math.isfinite(count))
    for bound, count in sorted(told):  # nothing is in order beside what is no number
        highest = max(highest, count)
        ordered.append((bound, highest))
    return ordered


def _counts_below(histogram: Sequence[tuple[float, float]], bounds: Sequence[float]) -> list[float]:
    """The highest count of a histogram up to each of these bounds; both are sorted."""
    counts, most, at = [], 0.0, 0
    for bound in bounds:
        while at < len(histogram) and histogram[at][0] <= bound:
            most, at = max(most, histogram[at][1]), at + 1
        counts.append(most)
    return counts
