"""Waiting, in closed form: for the one who computes prompts, and for a seat among many.

Sources: Pollaczek and Khinchine for the mean wait and its second moment; Takagi for servers that take all who wait at
once (gated service); Halfin and Whitt for the chance to find all of many seats taken; batches for bursts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.domain.made_often import made_often

_NEVER = 1e-12
_BURSTS_APART = 0.5  # between arrivals in batches (1) and arrivals that are only irregular (0)


@made_often
@dataclass(frozen=True, slots=True)
class Moments:
    """E[X], E[X^2] and E[X^3] of a service time in seconds; all of them so many `times` for each who comes."""

    mean: float
    square: float
    cube: float
    times: float = 1.0

    @property
    def once(self) -> float:
        """E[X] of one of them."""
        return self.mean / self.times

    @property
    def own(self) -> Moments:
        """Moments of one of them alone."""
        if self.times == 1.0:
            return self
        return Moments(self.mean / self.times, self.square / self.times, self.cube / self.times)

    def met(self, times: float) -> Moments:
        """The same, so many times for each who comes."""
        return Moments(self.mean * times, self.square * times, self.cube * times, times)

    def towards(self, other: Moments, part: float) -> Moments:
        """Between these (0) and others (1)."""
        return Moments(
            self.mean + part * (other.mean - self.mean),
            self.square + part * (other.square - self.square),
            self.cube + part * (other.cube - self.cube),
        )


@made_often
@dataclass(frozen=True, slots=True)
class Wait:
    """Seconds and their variance."""

    mean: float
    variance: float


NO_WAIT = Wait(0.0, 0.0)


def in_line(rate: float, service: Moments, burstiness: float) -> Wait:
    """First come, first served, before one server that keeps up: M/G/1, and the company of one's own burst.

    `burstiness` is the squared variation of the time between arrivals less 1: 0 for arrivals at random.
    """
    random = rate * service.square / (2.0 * (1.0 - rate * service.mean))
    mean = mean_in_line(rate, service, burstiness)
    variance = rate * service.cube / (3.0 * (1.0 - rate * service.mean)) + random**2 + 2.0 * (mean - random) ** 2
    return Wait(mean, variance)


def mean_in_line(rate: float, service: Moments, burstiness: float) -> float:
    """Its mean alone, in seconds."""
    busy = rate * service.mean
    random = rate * service.square / 2.0
    company = burstiness * _BURSTS_APART * (1.0 + busy) / 2.0 * service.mean
    return max(0.0, (random + company) / (1.0 - busy))


def at_the_gate(rate: float, service: Moments, pause: float, burstiness: float, swing_of_pause: float = 0.0) -> Wait:
    """Before a server that takes all who wait at once, after a `pause` that every round has (a decode step).

    What remains of the present round, and then the others who came in it, since all are answered at its end. The
    variance is that of the former.
    """
    busy = rate * service.mean
    round_seconds = pause / (1.0 - busy)
    swing = rate * service.square / (1.0 - busy**2) * (1.0 + burstiness) + swing_of_pause  # Var[round] / E[round]
    met = round_seconds + swing  # E[round^2] / E[round]: the round that one happens upon
    company = burstiness * _BURSTS_APART * (1.0 + busy) / 2.0 * service.mean / (1.0 - busy)
    mean = met * (0.5 + busy) + company
    return Wait(max(0.0, mean), met**2 / 12.0)


def for_a_seat(seats: float, taken: float, free_per_second: float, variation: float) -> Wait:
    """Until one of many seats is free, of which `taken` are on average; `free_per_second` is what is left of the rate.

    `variation` is the mean of the squared variations of arrivals and of stays.
    """
    if taken >= seats or free_per_second <= 0.0:
        return Wait(math.inf, math.inf)
    slack = (1.0 - taken / seats) * math.sqrt(seats)
    density = math.exp(-slack * slack / 2.0) / math.sqrt(2.0 * math.pi)
    below = 0.5 * (1.0 + math.erf(slack / math.sqrt(2.0)))
    waits = density / (density + slack * below)
    if waits < _NEVER:
        return NO_WAIT
    mean = waits / free_per_second * variation
    return Wait(mean, mean**2 * (2.0 / waits - 1.0))
