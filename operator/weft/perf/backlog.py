"""Prompts that queue on a rank around a request, and the rate at which ranks keep a given batch (Little's law).

Ranks in lockstep delay each other. A prompt queued behind a request delays it only while no other rank has one, as it
would wait anyway; so such prompts count by that fraction of time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from weft.perf.queueing import Wait, in_line, mean_in_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.perf.queueing import Moments
    from weft.perf.sharing import Company

_FIRST_STEP, _MOST_SECANTS, _BALANCED = 0.98, 40, 1e-9
_STRAIGHT = 1e-3  # of the batch: this close to the solution, the secant step is taken


class RankLoad(NamedTuple):
    """The load of one rank: requests a second, what prompts share steps with, time taken from decode, and backlog.

    `stolen` is the time for which GPUs work on a prompt, and `held` that with the time in which they wait for the host
    to launch it: prompts queue for the former alone, as all who wait share a launch.
    """

    rate: float
    company: Company
    stolen: Moments
    held: Moments
    backlog: Wait

    @property
    def free(self) -> float:
        """The fraction of time that prompts leave to decode."""
        return 1.0 - self.rate * self.held.mean

    @property
    def idle(self) -> float:
        """The fraction of time in which no GPU works on prompts."""
        return 1.0 - self.rate * self.stolen.mean


def balanced_rate(
    batch: float, answer: float, stolen_at: Callable[[float], Moments], step_seconds: float, burstiness: float
) -> float:
    """The rate of one rank, in requests per second, at which rate x (answer + backlog + batch x prompt) = batch.

    The time that a prompt takes from decode falls as the rate rises, if it changes at all, and slower than the rate
    rises: a pipeline works on prompts in parallel. The search starts at the high end, as there is mostly no backlog,
    and uses secants, with bisection where one leaves the bounds or where prompts would take more than all of the time.
    """

    def excess(rate: float) -> float:
        stolen = stolen_at(rate)
        if rate * stolen.mean >= 1.0:
            return math.inf
        return rate * (answer + _behind(rate, stolen, step_seconds, burstiness) + batch * stolen.mean) - batch

    low, last = 0.0, batch / (answer + batch * stolen_at(math.inf).mean)
    high, was_over = last, excess(last)
    if was_over <= _BALANCED * batch:
        return last
    rate = last * _FIRST_STEP
    for _ in range(_MOST_SECANTS):
        over = excess(rate)
        low, high = (low, rate) if over > 0.0 else (rate, high)
        following = (
            rate - over * (rate - last) / (over - was_over)
            if over != was_over and math.isfinite(over - was_over)
            else low
        )
        if abs(over) < _STRAIGHT * batch and low <= following <= high:
            return following
        rate, last, was_over = following if low < following < high else (low + high) / 2.0, rate, over
    return rate


def unheld(rate: float, stolen: Moments) -> float:
    """The fraction of time without prompts on other ranks that would delay this one; 1 where ranks are independent."""
    return (1.0 - rate * stolen.mean) / (1.0 - rate * stolen.own.mean) if stolen.times > 1.0 else 1.0


def _behind(rate: float, stolen: Moments, step_seconds: float, burstiness: float) -> float:
    """The mean of `backlog` alone, in seconds."""
    own = stolen.own
    busy = rate * own.mean
    wait = mean_in_line(rate, own, burstiness)
    left = busy * (wait + own.mean - step_seconds / (1.0 - busy))
    return max(0.0, left) * unheld(rate, stolen)


def backlog(rate: float, stolen: Moments, step_seconds: float, burstiness: float) -> Wait:
    """Prompts queued behind a request when its decode starts, beyond those that every step has: seconds of work.

    They arrived at its rank during its own wait and prefill, and delay it only while no other rank does so anyway.
    """
    own = stolen.own
    busy, alone = rate * own.mean, unheld(rate, stolen)
    wait = in_line(rate, own, burstiness)
    square = wait.variance + wait.mean**2
    left = busy * (wait.mean + own.mean)
    variance = busy * (square + 2.0 * wait.mean * own.mean + own.square) - left * left
    return Wait(_behind(rate, stolen, step_seconds, burstiness), max(0.0, variance) * alone**2)
