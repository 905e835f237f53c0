"""Waiting times in closed form: for the server of prompts, and for one of many seats.

Sources: Pollaczek and Khinchine for the mean wait and its second moment; Erlang, Lee and Longton for servers that share
a queue; Takagi for servers that take all waiting requests at once (gated service); Halfin and Whitt for the probability
that many seats are all taken; batches for bursts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.domain.values.made_often import made_often

_NEVER = 1e-12
_BURSTS_APART = 0.5  # between arrivals in batches (1) and arrivals that are only irregular (0)


@made_often
@dataclass(frozen=True, slots=True)
class Moments:
    """E[X], E[X^2] and E[X^3] of a service time in seconds; each arrival causes `times` such services, all summed."""

    mean: float
    square: float
    cube: float
    times: float = 1.0

    @property
    def once(self) -> float:
        """E[X] of one service."""
        return self.mean / self.times

    @property
    def own(self) -> Moments:
        """Moments of one service alone."""
        if self.times == 1.0:
            return self
        return Moments(self.mean / self.times, self.square / self.times, self.cube / self.times)

    def met(self, times: float) -> Moments:
        """The moments with so many services per arrival."""
        return Moments(self.mean * times, self.square * times, self.cube * times, times)

    def plus(self, more: Moments) -> Moments:
        """The moments of a longer service, each by what it has more."""
        return Moments(self.mean + more.mean, self.square + more.square, self.cube + more.cube, self.times)

    def towards(self, other: Moments, part: float) -> Moments:
        """Moments interpolated between these (`part` 0) and others (1)."""
        return Moments(
            self.mean + part * (other.mean - self.mean),
            self.square + part * (other.square - self.square),
            self.cube + part * (other.cube - self.cube),
        )


@made_often
@dataclass(frozen=True, slots=True)
class Wait:
    """Mean of a wait in seconds, and its variance (s^2)."""

    mean: float
    variance: float


NO_WAIT = Wait(0.0, 0.0)


def in_line(rate: float, service: Moments, burstiness: float) -> Wait:
    """The wait in a FIFO queue before one stable server: M/G/1, plus the wait for others of one's own burst.

    `burstiness` is the squared variation of the time between arrivals less 1: 0 for arrivals at random.
    """
    random = rate * service.square / (2.0 * (1.0 - rate * service.mean))
    mean = mean_in_line(rate, service, burstiness)
    variance = rate * service.cube / (3.0 * (1.0 - rate * service.mean)) + random**2 + 2.0 * (mean - random) ** 2
    return Wait(mean, variance)


def mean_in_line(rate: float, service: Moments, burstiness: float) -> float:
    """The mean of `in_line` alone, in seconds."""
    busy = rate * service.mean
    random = rate * service.square / 2.0
    company = burstiness * _BURSTS_APART * (1.0 + busy) / 2.0 * service.mean
    return max(0.0, (random + company) / (1.0 - busy))


def pooled(wait: Wait, busy: float, servers: int) -> Wait:
    """What is left of the wait before one server, busy for this fraction of its time, where so many share one queue.

    A request waits as much more rarely as with exponential service times, and then for one of all (Lee and Longton). No
    front that does not know how long requests take lets them wait less.
    """
    if busy <= 0.0:
        return NO_WAIT
    rarer = _all_taken(busy, servers) / busy
    if rarer < _NEVER:
        return NO_WAIT
    mean = rarer / servers * wait.mean
    return Wait(mean, max(0.0, rarer / servers**2 * (wait.variance + wait.mean**2) - mean**2))


def either(one: Wait, other: Wait, part: float) -> Wait:
    """The wait of a request that waits as `one`, or with the chance `part` as `other`."""
    mean = (1.0 - part) * one.mean + part * other.mean
    square = (1.0 - part) * (one.variance + one.mean**2) + part * (other.variance + other.mean**2)
    return Wait(mean, max(0.0, square - mean**2))


def _all_taken(busy: float, servers: int) -> float:
    """The chance that all servers are taken when a request comes, with exponential service times (Erlang's C)."""
    taken_over = 1.0  # the inverse of the chance that a request is turned away where there is no queue
    for server in range(1, servers + 1):
        taken_over = 1.0 + taken_over * server / (busy * servers)
        if taken_over > 1.0 / _NEVER**2:
            return 0.0
    return 1.0 / (taken_over * (1.0 - busy) + busy)


def at_the_gate(rate: float, service: Moments, pause: float, burstiness: float, swing_of_pause: float = 0.0) -> Wait:
    """The wait at a gated server, which takes all waiting requests after a `pause` in every round (a decode step).

    It is the rest of the present round, and then the service of the others that arrived in it, as all are answered at
    its end. The variance is that of the former.
    """
    busy = rate * service.mean
    round_seconds = pause / (1.0 - busy)
    swing = rate * service.square / (1.0 - busy**2) * (1.0 + burstiness) + swing_of_pause  # Var[round] / E[round]
    met = round_seconds + swing  # E[round^2] / E[round]: the length of the round that a random arrival meets
    company = burstiness * _BURSTS_APART * (1.0 + busy) / 2.0 * service.mean / (1.0 - busy)
    mean = met * (0.5 + busy) + company
    return Wait(max(0.0, mean), met**2 / 12.0)


def for_a_seat(seats: float, taken: float, free_per_second: float, variation: float) -> Wait:
    """The wait for one of many seats, of which `taken` are in use on average; `free_per_second` is the spare rate.

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
