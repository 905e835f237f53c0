"""Open-loop traffic: a rate over time, Poisson arrivals, and lengths drawn around a mean. Seeded, so runs repeat.

A live fleet draws one request after the other, a trace all at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weft.twin.traffic.trace import MOST_TOKENS

if TYPE_CHECKING:
    from random import Random

    from numpy.typing import NDArray

Corners = tuple[tuple[float, float], ...]  # (seconds, requests per second), ascending


@dataclass(frozen=True, slots=True)
class Profile:
    """Requests per second as straight lines between (seconds, rate) corners; constant outside them."""

    corners: Corners

    def rate(self, seconds: float) -> float:
        """Return the requests per second at a time."""
        if seconds <= self.corners[0][0]:
            return self.corners[0][1]
        for (start, low), (end, high) in zip(self.corners, self.corners[1:], strict=False):
            if seconds <= end:
                return low + (high - low) * (seconds - start) / (end - start)
        return self.corners[-1][1]

    @property
    def peak(self) -> float:
        """The highest rate of the profile, in requests per second."""
        return max(rate for _, rate in self.corners)

    @property
    def requests(self) -> float:
        """Mean number of requests from the first corner to the last."""
        return float(_grown(self)[-1])


@dataclass(frozen=True, slots=True)
class LogNormalLengths:
    """Log-normal tokens per request with a given mean and spread (sigma of the logarithm), at least one token."""

    mean: float
    sigma: float = 0.5

    def draw(self, random: Random) -> int:
        """Draw one length in tokens."""
        mu = math.log(self.mean) - self.sigma**2 / 2
        return max(1, round(random.lognormvariate(mu, self.sigma)))

    def draw_many(self, count: int, random: np.random.Generator) -> NDArray[np.int32]:
        """Draw `count` lengths in tokens."""
        return whole_tokens(random.lognormal(math.log(self.mean) - self.sigma**2 / 2, self.sigma, count))


def whole_tokens(lengths: NDArray[np.float64]) -> NDArray[np.int32]:
    """Round drawn lengths to numbers of tokens that a request can have."""
    return np.clip(np.rint(lengths), 1, MOST_TOKENS).astype(np.int32)


def arrivals(profile: Profile, start: float, end: float, random: Random) -> list[float]:
    """Draw arrival times in [start, end) of a Poisson process whose rate follows the profile, by thinning."""
    times: list[float] = []
    if profile.peak <= 0:
        return times
    moment = start
    while (moment := moment + random.expovariate(profile.peak)) < end:
        if random.random() * profile.peak < profile.rate(moment):
            times.append(moment)
    return times


def all_arrivals(profile: Profile, seconds: float, random: np.random.Generator) -> NDArray[np.float64]:
    """Draw all arrival times from the first corner to the last one, before `seconds`, at once.

    A Poisson number of them is placed by the integral of the rate.
    """
    moments, rates = (np.array(column) for column in zip(*profile.corners, strict=True))
    grown = _grown(profile)
    marks = np.sort(random.uniform(0.0, grown[-1], random.poisson(grown[-1])))
    piece = np.clip(np.searchsorted(grown, marks, side="right") - 1, 0, len(moments) - 2)
    found = _within(marks - grown[piece], rates[piece], rates[piece + 1], moments[piece + 1] - moments[piece])
    arrivals: NDArray[np.float64] = moments[piece] + found
    return arrivals[arrivals < seconds]


def _grown(profile: Profile) -> NDArray[np.float64]:
    """Return the mean number of requests up to each corner."""
    moments, rates = (np.array(column) for column in zip(*profile.corners, strict=True))
    return np.concatenate(([0.0], np.cumsum(np.diff(moments) * (rates[1:] + rates[:-1]) / 2.0)))


def _within(
    area: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64], width: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how far into a piece its area is reached: low x + (high - low) x^2 / 2 width = area."""
    slope = (high - low) / np.maximum(width, 1e-12)
    root = np.sqrt(np.maximum(0.0, low * low + 2.0 * slope * area))
    return np.minimum(width, 2.0 * area / np.maximum(low + root, 1e-12))
