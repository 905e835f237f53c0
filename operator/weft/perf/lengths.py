"""How long prompts and answers are: log-normal lengths through their mean and their 95th percentile.

Measured traffic has long tails, and what a prompt costs grows faster than its length; so means over lengths are taken
over a few points of the distribution (Gauss-Hermite quadrature), not at its mean. Where a few prompts are so long that
all others are shorter than the mean, no log-normal length is near: then there are two lengths, these and those.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
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


_SCALINGS, _CLOSE = 8, 1e-3


@dataclass(frozen=True)
class Lengths:
    """Tokens: their mean, the standard deviation of their logarithm (0: all are equal), and the longest there are.

    `rare` are the part of far longer ones beside equal ones, and their tokens.
    """

    mean: float
    deviation: float
    longest: float = math.inf
    rare: tuple[float, float] | None = None

    @cached_property
    def growth(self) -> float:
        """E[X^2] / E[X]^2: how much longer than the mean what one happens upon is."""
        return self._mean_of(lambda tokens: tokens * tokens) / self.mean**2 if self.mean > 0 else 1.0

    @cached_property
    def shortness(self) -> float:
        """E[X] E[1/X]: how much more a fixed delay weighs per token."""
        return self.mean * self._mean_of(lambda tokens: 1.0 / tokens) if self.mean > 0 else 1.0

    @cached_property
    def median(self) -> float:
        """Such that the mean is right, with what is cut off at the longest."""
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
            return (1.0 - part, self._usual), (part, tokens)
        return ((1.0, self.mean),) if self.deviation == 0.0 else tuple(self._around(self.median))

    def at(self, percentile: int) -> float:
        """Tokens that so many percent stay within."""
        if self.rare is not None:
            return self._usual if percentile <= 100.0 * (1.0 - self.rare[0]) else self.rare[1]
        if self.deviation == 0.0:
            return self.mean
        return min(self.longest, self.median * math.exp(self.deviation * quantile(percentile)))

    @property
    def _usual(self) -> float:
        """What all but the rare ones have."""
        part, tokens = self.rare or (0.0, 0.0)
        return (self.mean - part * tokens) / (1.0 - part)

    def _around(self, median: float) -> list[tuple[float, float]]:
        return [(weight, min(self.longest, median * math.exp(self.deviation * at))) for at, weight in _POINTS]

    def _mean_of(self, function: Callable[[float], float]) -> float:
        return sum(weight * function(tokens) for weight, tokens in self.points)


def lengths(mean: float, p95: float, longest: float = math.inf) -> Lengths:
    """Through a mean and a 95th percentile, in tokens: ln(p95 / mean) = z s - s^2 / 2.

    No log-normal variable has a 95th percentile beyond 3.9 times its mean; such lengths get the widest one.
    """
    at_most = quantile(95)
    if mean <= 0 or p95 <= mean:
        return Lengths(max(0.0, mean), 0.0, longest)
    deviation = at_most - math.sqrt(max(0.0, at_most**2 - 2.0 * math.log(p95 / mean)))
    return Lengths(mean, deviation, max(mean, longest))


def with_rare_ones(mean: float, rare: tuple[float, float], longest: float) -> Lengths:
    """Lengths of which a part is several times the mean; all others are as long as the mean then leaves them.

    `rare` is that part, and how many times the mean it is long.
    """
    part, times = rare
    tokens = min(longest, times * mean)
    return (
        Lengths(mean, 0.0, max(mean, longest), (min(part, mean / tokens), tokens)) if mean > 0 else lengths(mean, 0.0)
    )
