"""What a request finds before and behind it on a rank, and the rate at which ranks keep their batch: Little's law.

Ranks in lockstep hold each other up. A prompt behind a request delays it only while no other rank has one, since it
would wait anyway; so what is behind it counts by that part of time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.perf.queueing import Wait, in_line, mean_in_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.perf.queueing import Moments

_FIRST_STEP, _MOST_SECANTS, _BALANCED = 0.98, 40, 1e-9
_STRAIGHT = 1e-3  # of the batch: so near it a secant is as good as any


def balanced_rate(
    batch: float, answer: float, stolen_at: Callable[[float], Moments], step_seconds: float, burstiness: float
) -> float:
    """The rate at which rate x (answer + backlog + batch x prompt) = batch, all on one rank.

    What a prompt steals falls as the rate rises, if anything, and slower than the rate: in a pipeline, prompts come
    beside each other. Found from the right, since there is mostly no backlog: by secants, and by halves where one
    leaves the bounds, or where prompts would take more than all of the time.
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
    """The part of time in which prompts of no other rank hold one up; 1 where ranks do not wait for each other."""
    return (1.0 - rate * stolen.mean) / (1.0 - rate * stolen.own.mean) if stolen.times > 1.0 else 1.0


def _behind(rate: float, stolen: Moments, step_seconds: float, burstiness: float) -> float:
    """Mean seconds of `backlog`."""
    own = stolen.own
    busy = rate * own.mean
    wait = mean_in_line(rate, own, burstiness)
    left = busy * (wait + own.mean - step_seconds / (1.0 - busy))
    return max(0.0, left) * unheld(rate, stolen)


def backlog(rate: float, stolen: Moments, step_seconds: float, burstiness: float) -> Wait:
    """Prompts behind a request when its answer starts, beyond those that every step has: seconds of work.

    They came during its own wait and prefill to its own rank, and delay it only while no other rank does so anyway.
    """
    own = stolen.own
    busy, alone = rate * own.mean, unheld(rate, stolen)
    wait = in_line(rate, own, burstiness)
    square = wait.variance + wait.mean**2
    left = busy * (wait.mean + own.mean)
    variance = busy * (square + 2.0 * wait.mean * own.mean + own.square) - left * left
    return Wait(_behind(rate, stolen, step_seconds, burstiness), max(0.0, variance) * alone**2)
