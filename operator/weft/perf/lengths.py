"""How long prompts and answers are: log-normal lengths through their mean and their 95th percentile.

Measured traffic has long tails, and what a prompt costs grows faster than its length; so means over lengths are taken
over a few points of the distribution (Gauss-Hermite quadrature), not at its mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from weft.perf.latency import quantile

# Abscissas and weights of five points for a standard normal variable (Abramowitz and Stegun, table 25.10).
_POINTS = (
    (-2.8569700138728056, 0.011257411327720689),
    (-1.3556261799742659, 0.22207592200561265),
    (0.0, 0.53333333333333333),
    (1.3556261799742659, 0.22207592200561265),
    (2.8569700138728056, 0.011257411327720689),
)


@dataclass(frozen=True)
class Lengths:
    """Tokens: their mean, and the standard deviation of their logarithm (0: all are equal)."""

    mean: float
    deviation: float

    @cached_property
    def growth(self) -> float:
        """E[X^2] / E[X]^2, which is also E[X] E[1/X]: how much longer than the mean what one happens upon is."""
        return math.exp(self.deviation**2)

    @cached_property
    def points(self) -> tuple[tuple[float, float], ...]:
        """(weight, tokens); the weights add up to 1."""
        if self.deviation == 0.0:
            return ((1.0, self.mean),)
        median = self.mean / math.sqrt(self.growth)
        return tuple((weight, median * math.exp(self.deviation * at)) for at, weight in _POINTS)


def lengths(mean: float, p95: float) -> Lengths:
    """Through a mean and a 95th percentile, in tokens: ln(p95 / mean) = z s - s^2 / 2.

    No log-normal variable has a 95th percentile beyond 3.9 times its mean; such lengths get the widest one.
    """
    at_most = quantile(95)
    if mean <= 0 or p95 <= mean:
        return Lengths(max(0.0, mean), 0.0)
    return Lengths(mean, at_most - math.sqrt(max(0.0, at_most**2 - 2.0 * math.log(p95 / mean))))
