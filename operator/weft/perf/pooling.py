"""Waiting before several servers of which each who comes takes one that is free, or nearly: far less than before one.

The wait of M/G/n over that of M/G/1, both as busy (Sakasegawa, Annals of the Institute of Statistical Mathematics 29,
1977): the chance to wait at all is `busy ** (sqrt(2 (n + 1)) - 1)`, where before one server it is `busy`, and who waits
does so for an n-th of the time. A front that sends each prompt to the replica with the fewest is nearly such a line;
one that deals at random is n lines of M/G/1.
"""

from __future__ import annotations

import functools
import math

from weft.perf.queueing import Wait

BUSIEST = 0.97  # of all time: beyond, nothing is left for what nobody counted
_HALVINGS = 30


def among(wait: Wait, busy: float, servers: int) -> Wait:
    """The wait before so many servers, from that before one which is as busy (a part of all time)."""
    if servers <= 1 or not 0.0 < busy < 1.0:
        return wait
    chance = busy ** (_power(servers) - 1.0)
    mean = wait.mean * chance / servers
    square = (wait.variance + wait.mean**2) * chance / servers**2
    return Wait(mean, max(0.0, square - mean * mean))


@functools.lru_cache(maxsize=4096)
def as_busy_as(alone: float, servers: int) -> float:
    """How busy each of several servers may be for the mean wait before one that is so busy `alone`, from 0 to 1."""
    if servers <= 1 or not 0.0 < alone < BUSIEST:
        return alone
    allowed, power = alone / (1.0 - alone), _power(servers)
    low, high = alone, BUSIEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if middle**power <= allowed * servers * (1.0 - middle) else (low, middle)
    return low


def _power(servers: int) -> float:
    return math.sqrt(2.0 * (servers + 1)) - 1.0
