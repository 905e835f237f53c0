"""A latency as a distribution: a constant that every request has, plus a log-normal part."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.domain.values.made_often import made_often

PERCENTILES = (50, 90, 95, 99)
# Standard normal quantiles of the percentiles that an SLO may name.
_QUANTILES = {50: 0.0, 90: 1.2816, 95: 1.6449, 99: 2.3263}


def quantile(percentile: int) -> float:
    """The standard normal quantile of a percentile: deviations above the mean."""
    return _QUANTILES[percentile]


def apart(one: float, other: float) -> float:
    """The deviation of a sum of independent parts from its mean: those of the parts add up in squares."""
    squares = one * abs(one) + other * abs(other)
    return math.copysign(math.sqrt(abs(squares)), squares)


@made_often
@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds: the mean, the variance (s^2), and the least and the most that any request takes."""

    mean: float
    variance: float
    least: float = 0.0
    most: float = math.inf

    def at(self, percentile: int) -> float:
        """Seconds within which so many percent of the requests stay.

        A tail percentile is the longest of any log-normal latency of this mean and at most this variance. One that
        varies more than `_QUANTILES` has shorter percentiles again, since so much of its mean lies in ever rarer
        requests; but more variance, as from more load, never makes a request faster. The median does fall as variance
        grows.
        """
        above = self.mean - self.least
        if above <= 0.0 or self.variance <= 0.0 or math.isinf(self.mean):
            return self.mean
        deviations = _QUANTILES[percentile]
        spread = math.sqrt(math.log1p(self.variance / above**2))
        if deviations > 0.0:
            spread = min(spread, deviations)
        return min(self.most, self.least + above * math.exp(spread * deviations - spread * spread / 2.0))


@made_often
@dataclass(frozen=True, slots=True)
class Waited:
    """A wait followed by a service time whose percentiles are known, plus a constant: all in seconds.

    Deviations of independent parts add up in squares; a tail is at least that of a log-normal latency of the
    same mean and variance.
    """

    always: float
    own_mean: float
    own_variance: float
    own: tuple[tuple[int, float], ...]
    wait: Latency

    def after(self, always: float, wait: Latency) -> Waited:
        """The same latency after another constant and another wait."""
        waits = Latency(self.wait.mean + wait.mean, self.wait.variance + wait.variance)
        return Waited(self.always + always, self.own_mean, self.own_variance, self.own, waits)

    @property
    def mean(self) -> float:
        """Mean of the whole latency."""
        return self.always + self.own_mean + self.wait.mean

    @property
    def least(self) -> float:
        """The constant part, which even the fastest request takes."""
        return self.always

    def at(self, percentile: int) -> float:
        """Seconds within which so many percent of the requests stay."""
        if math.isinf(self.wait.mean):
            return math.inf
        alone = [seconds for each, seconds in self.own if each == percentile][0]  # noqa: RUF015 - asked for all day
        own, wait = alone - self.own_mean, self.wait.at(percentile) - self.wait.mean
        found = self.mean + apart(own, wait)
        if percentile == PERCENTILES[0]:
            return found
        return max(found, Latency(self.mean, self.own_variance + self.wait.variance, self.always).at(percentile))
