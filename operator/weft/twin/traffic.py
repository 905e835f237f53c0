"""Open-loop traffic: a rate over time, Poisson arrivals, and lengths drawn around a mean. Seeded, so runs repeat."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random


@dataclass(frozen=True, slots=True)
class Profile:
    """Requests per second as straight lines between (seconds, rate) corners; constant outside them."""

    corners: tuple[tuple[float, float], ...]

    def rate(self, seconds: float) -> float:
        """Requests per second at a time."""
        if seconds <= self.corners[0][0]:
            return self.corners[0][1]
        for (start, low), (end, high) in zip(self.corners, self.corners[1:], strict=False):
            if seconds <= end:
                return low + (high - low) * (seconds - start) / (end - start)
        return self.corners[-1][1]

    @property
    def peak(self) -> float:
        """Highest rate of the profile."""
        return max(rate for _, rate in self.corners)


@dataclass(frozen=True, slots=True)
class Lengths:
    """Log-normal tokens per request with a given mean and spread (sigma of the logarithm), at least one token."""

    mean: float
    sigma: float = 0.5

    def draw(self, random: Random) -> int:
        """One length in tokens."""
        mu = math.log(self.mean) - self.sigma**2 / 2
        return max(1, round(random.lognormvariate(mu, self.sigma)))


def arrivals(profile: Profile, start: float, end: float, random: Random) -> list[float]:
    """Arrival times in [start, end) of a Poisson process whose rate follows the profile, by thinning."""
    times: list[float] = []
    if profile.peak <= 0:
        return times
    moment = start
    while (moment := moment + random.expovariate(profile.peak)) < end:
        if random.random() * profile.peak < profile.rate(moment):
            times.append(moment)
    return times
