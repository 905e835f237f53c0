"""What a request finds before and behind it on a rank, and the rate at which ranks keep their batch: Little's law.

Ranks in lockstep hold each other up. A prompt behind a request delays it only while no other rank has one, since it
would wait anyway; so what is behind it counts by that part of time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.perf.queueing import Wait, in_line, mean_in_line

if TYPE_CHECKING:
    from weft.perf.queueing import Moments

_FIRST_STEP, _MOST_SECANTS, _BALANCED = 0.98, 12, 1e-4


def balanced_rate(batch: float, answer: float, stolen: Moments, step_seconds: float, burstiness: float) -> float:
    """The rate at which rate x (answer + backlog + batch x prompt) = batch, all on one rank.

    The left side grows faster and faster, so secants from the right come down to it and never jump over.
    """

    def excess(rate: float) -> float:
        return rate * (answer + _behind(rate, stolen, step_seconds, burstiness) + batch * stolen.mean) - batch

    rate = batch / (answer + batch * stolen.mean)
    over = excess(rate)
    if over <= 0.0:
        return rate
    before, was_over = rate * _FIRST_STEP, excess(rate * _FIRST_STEP)
    if was_over <= 0.0:  # between the two: nearly straight there
        return before - was_over * (rate - before) / (over - was_over)
    for _ in range(_MOST_SECANTS):
        if over <= was_over:
            break
        rate, over, before = before, was_over, before - was_over * (rate - before) / (over - was_over)
        was_over = excess(before)
        if was_over < _BALANCED * batch:
            break
    return before


def unheld(rate: float, stolen: Moments) -> float:
    """The part of time in which prompts of no other rank hold one up; 1 where ranks do not wait for each other."""
    return (1.0 - rate * stolen.mean) / (1.0 - rate * stolen.own.mean) if stolen.times > 1.0 else 1.0


def _behind(rate: float, stolen: Moments, step_seconds: float, burstiness: float) -> float:
    """Mean seconds of `backlog`."""
    own = stolen.own
    busy = rate * own.mean
    wait = mean_in_line(rate, own, burstiness)
    left = busy * (wait + own.mean - step_seconds / (1.0 - rate * stolen.mean))
    return max(0.0, left) * unheld(rate, stolen)


def backlog(rate: float, stolen: Moments, step_seconds: float, burstiness: float) -> Wait:
    """Prompts behind a request when its answer starts, beyond those that every step has: seconds of work.

    They came during its own wait and prefill to its own rank, and delay it where no other rank does so meanwhile.
    """
    own = stolen.own
    busy, alone = rate * own.mean, unheld(rate, stolen)
    wait = in_line(rate, own, burstiness)
    square = wait.variance + wait.mean**2
    left = busy * (wait.mean + own.mean)
    variance = busy * (square + 2.0 * wait.mean * own.mean + own.square) - left * left
    return Wait(_behind(rate, stolen, step_seconds, burstiness), max(0.0, variance) * alone**2)
