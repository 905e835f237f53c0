"""How long prompts and answers are: log-normal lengths through their mean and their 95th percentile.

Measured traffic has long tails, and what a prompt costs grows faster than its length; so means over lengths are taken
over a few points of the distribution (Gauss-Hermite quadrature), not at its mean. Where a few prompts are so long that
all others are shorter than the mean, no log-normal length is near: then there are two lengths, these and those.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING

from weft.perf.latency import quantile

if TYPE_CHECKING:
    from collections.abc import Callable

# Abscissas and weights of five points for a standard normal variable (Abramowitz and Stegun, table 25.10).
_POINTS = (
    (-2.8569700138728056, 0.011257411327720689),
    (-1.3556261799742659, 0.22207592200561265),
    (0.0, 0.53333333333333333),
    (1.3556261799742659, 0.22207592200561265),
    (2.8569700138728056, 0.011257411327720689),
)
# The middles of equally likely parts of a standard normal variable.
_PARTS = 16
_ALIKE = tuple(NormalDist().inv_cdf((part + 0.5) / _PARTS) for part in range(_PARTS))

_SCALINGS, _CLOSE = 8, 1e-3


@dataclass(frozen=True)
class Lengths:
    """A distribution of tokens: mean, standard deviation of the logarithm (0: all are equal), and the longest.

    `rare` is (fraction, tokens) of far longer ones, beside which all others are equal.
    """

    mean: float
    deviation: float
    longest: float = math.inf
    rare: tuple[float, float] | None = None

    @cached_property
    def growth(self) -> float:
        """E[X^2] / E[X]^2: the token-weighted mean length over the mean length."""
        return self._mean_of(lambda tokens: tokens * tokens) / self.mean**2 if self.mean > 0 else 1.0

    @cached_property
    def shortness(self) -> float:
        """E[X] E[1/X]: the factor by which a fixed delay weighs more per token, averaged over requests."""
        return self.mean * self._mean_of(lambda tokens: 1.0 / tokens) if self.mean > 0 else 1.0

    @cached_property
    def gaps(self) -> tuple[float, float]:
        """Times between tokens of an answer of at least two: the mean, and their `shortness`."""
        each = self.alike or (self.mean,)
        mean = self.mean - 1.0 + sum(max(0.0, 2.0 - tokens) for tokens in each) / len(each)
        return mean, mean * sum(1.0 / max(1.0, tokens - 1.0) for tokens in each) / len(each)

    @cached_property
    def median(self) -> float:
        """The median for which the mean is right although lengths are cut off at the longest."""
        median = self.mean / math.exp(self.deviation**2 / 2.0)
        for _ in range(_SCALINGS if self.longest < math.inf else 0):
            reached = sum(weight * tokens for weight, tokens in self._around(median))
            if reached >= self.mean * (1.0 - _CLOSE):
                break
            median = min(self.longest, median * self.mean / reached)
        return median

    @cached_property
    def points(self) -> tuple[tuple[float, float], ...]:
        """(weight, tokens), the shortest first; the weights add up to 1."""
        if self.rare is not None:
            part, tokens = self.rare
            return (1.0 - part, self.usual), (part, tokens)
        return ((1.0, self.mean),) if self.deviation == 0.0 else tuple(self._around(self.median))

    @property
    def alike(self) -> tuple[float, ...]:
        """Tokens of equally likely lengths, the shortest first, for what changes at a length; none if all are equal."""
        if self.rare is not None or self.deviation == 0.0:
            return ()
        return tuple(min(self.longest, self.median * math.exp(self.deviation * at)) for at in _ALIKE)

    def at(self, percentile: int) -> float:
        """The length in tokens at a percentile."""
        if self.rare is not None:
            return self.usual if percentile <= 100.0 * (1.0 - self.rare[0]) else self.rare[1]
        if self.deviation == 0.0:
            return self.mean
        return min(self.longest, self.median * math.exp(self.deviation * quantile(percentile)))

    @property
    def usual(self) -> float:
        """Tokens of all but the rare ones."""
        part, tokens = self.rare or (0.0, 0.0)
        return (self.mean - part * tokens) / (1.0 - part)

    def _around(self, median: float) -> list[tuple[float, float]]:
        return [(weight, min(self.longest, median * math.exp(self.deviation * at))) for at, weight in _POINTS]

    def _mean_of(self, function: Callable[[float], float]) -> float:
        return sum(weight * function(tokens) for weight, tokens in self.points)


def lengths(mean: float, p95: float, longest: float = math.inf) -> Lengths:
    """Log-normal lengths with this mean and 95th percentile, in tokens: ln(p95 / mean) = z s - s^2 / 2.

    A log-normal 95th percentile is at most 3.9 times the mean; beyond that the widest distribution is used.
    """
    at_most = quantile(95)
    if mean <= 0 or p95 <= mean:
        return Lengths(max(0.0, mean), 0.0, longest)
    deviation = at_most - math.sqrt(max(0.0, at_most**2 - 2.0 * math.log(p95 / mean)))
    return Lengths(mean, deviation, max(mean, longest))


def with_rare_ones(mean: float, rare: tuple[float, float], longest: float) -> Lengths:
    """Lengths of which a fraction is several times the mean; all others share the length that the mean leaves them.

    `rare` is (fraction, multiple of the mean).
    """
    part, times = rare
    tokens = min(longest, times * mean)
    return (
        Lengths(mean, 0.0, max(mean, longest), (min(part, mean / tokens), tokens)) if mean > 0 else lengths(mean, 0.0)
    )
