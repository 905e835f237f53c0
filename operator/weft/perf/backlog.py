"""Prompts that queue on a rank around a request, and the rate at which ranks keep a given batch (Little's law).

A request is likelier to have come in a long step than in a short one, and its own prompt makes the next one longer:
more prompts come meanwhile, which delay the first of its answer's steps, and those that come in these the following
ones. What is queued beyond the room in the steps of an answer is computed after it.

Ranks in lockstep delay each other. A prompt queued behind a request delays it only while no other rank has one, as it
would wait anyway; so such prompts count by that fraction of time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from weft.perf.queueing import Wait, in_line, mean_in_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.perf.outgrown import Outgrown
    from weft.perf.queueing import Moments
    from weft.perf.sharing import Company

_FIRST_STEP, _MOST_SECANTS, _BALANCED = 0.98, 40, 1e-9
_STRAIGHT = 1e-3  # of the batch: this close to the solution, the secant step is taken


class AnswerPace(NamedTuple):
    """The `steps` of an answer, of `step_seconds` each without prompts, which take `full` seconds at most in a step.

    One prompt more takes `more` seconds of steps that others share. It finds room in the step that its neighbours
    share (`shares` 1), or waits until theirs is over (0). GPUs wait `waits` seconds for each prompt's launch.
    """

    steps: float
    step_seconds: float
    full: float
    more: float
    shares: float
    waits: float

    def room(self, free: float) -> float:
        """Seconds of prompts that an answer's steps have room for, beyond those that come while it is made.

        `free` is the fraction of time that prompts leave to decode: prompts do not lengthen a step by more than `full`.
        """
        return self.steps * max(0.0, free * (self.full + self.step_seconds) - self.step_seconds)


class RankLoad(NamedTuple):
    """The load of one rank: requests a second, what prompts share steps with, time taken from decode, pace and backlog.

    `stolen` is the time for which GPUs work on a prompt, and `held` that with the time in which they wait for the host
    to launch it: prompts queue for the former alone, as all who wait share a launch.
    """

    rate: float
    company: Company
    stolen: Moments
    held: Moments
    launches: Outgrown
    pace: AnswerPace
    backlog: Wait

    @property
    def free(self) -> float:
        """The fraction of time that prompts leave to decode."""
        return 1.0 - self.rate * self.held.mean


def balanced_rate(batch: float, at: Callable[[float], tuple[Moments, AnswerPace]], burstiness: float) -> float:
    """The rate of one rank, in requests per second, at which rate x (answer + backlog + batch x prompt) = batch.

    `at` a rate is what a prompt takes from decode, without launches, and the pace of answers. That time falls as the
    rate rises, if it changes at all, and slower than the rate rises: a pipeline works on prompts in parallel. The
    search starts at the high end, as there is mostly no backlog, and uses secants, with bisection where one leaves the
    bounds or where prompts would take more than all of the time. Where prompts leave little of it, all rates nearly
    agree: how close one is counts by what they leave.
    """

    def excess(rate: float) -> tuple[float, float]:
        stolen, pace = at(rate)
        free = 1.0 - rate * (stolen.mean + pace.waits)
        if rate * stolen.mean >= 1.0:
            return math.inf, free
        behind = _behind(rate, stolen, pace, burstiness)
        return rate * (pace.steps * pace.step_seconds + behind) - batch * free, free

    stolen, pace = at(math.inf)
    low, last = 0.0, batch / (pace.steps * pace.step_seconds + batch * (pace.waits + stolen.mean))
    high, (was_over, _) = last, excess(last)
    if was_over <= _BALANCED * batch:
        return last
    rate = last * _FIRST_STEP
    for _ in range(_MOST_SECANTS):
        over, free = excess(rate)
        low, high = (low, rate) if over > 0.0 else (rate, high)
        following = (
            rate - over * (rate - last) / (over - was_over)
            if over != was_over and math.isfinite(over - was_over)
            else low
        )
        if abs(over) < _STRAIGHT * batch * free and low <= following <= high:
            return following
        rate, last, was_over = following if low < following < high else (low + high) / 2.0, rate, over
    return rate


def unheld(rate: float, stolen: Moments) -> float:
    """The fraction of time without prompts on other ranks that would delay this one; 1 where ranks are independent."""
    return (1.0 - rate * stolen.mean) / (1.0 - rate * stolen.once) if stolen.times > 1.0 else 1.0


def _behind(rate: float, stolen: Moments, pace: AnswerPace, burstiness: float) -> float:
    """The mean of `backlog` alone, in seconds: as far as an answer has room for it, if it is exponential."""
    busy, free = rate * stolen.once, 1.0 - rate * (stolen.mean + pace.waits)
    left = _behind_a_gate(rate * pace.more, free, pace)
    if pace.shares < 1.0:
        own = stolen.own
        queue = _behind_a_queue(mean_in_line(rate, own, burstiness) + own.mean, busy, pace)
        left += (1.0 - pace.shares) * max(0.0, queue - left)
    if left <= 0.0:
        return 0.0
    left, room = left * unheld(rate, stolen), pace.room(free) * busy
    if left == math.inf:
        return room
    return left * -math.expm1(-room / left) if left > 0.0 else 0.0


def _behind_a_gate(grows: float, free: float, pace: AnswerPace) -> float:
    """Seconds that come later than in steps of mean length, where each step takes all that came in the one before.

    A step that is a second longer makes the next one longer by `grows`. The one that a request comes in is longer than
    the mean by its variance over that, `grows` prompts over 1 - `grows`^2, and the next one by its own prompt besides.
    Where steps would grow without end, they grow until prompts fill them.
    """
    if grows <= 0.0 or free <= 0.0:
        return 0.0
    if grows >= 1.0:
        return math.inf
    longer = pace.more / (1.0 - grows * grows)
    return free * longer * grows * (1.0 - math.pow(grows, pace.steps)) / (1.0 - grows)


def _behind_a_queue(sojourn: float, busy: float, pace: AnswerPace) -> float:
    """Seconds of work that came in a prompt's own `sojourn` and step, beyond those that come in a mean step."""
    beyond = sojourn - pace.step_seconds * busy / (1.0 - busy)
    return busy * beyond * (1.0 - math.pow(busy, pace.steps))


def backlog(rate: float, stolen: Moments, pace: AnswerPace, burstiness: float) -> Wait:
    """Prompts queued behind a request when its decode starts, beyond those that every step has: seconds of work.

    They arrived at its rank during its own wait and prefill, and delay it only while no other rank does so anyway.
    """
    own = stolen.own
    busy, alone = rate * own.mean, unheld(rate, stolen)
    wait = in_line(rate, own, burstiness)
    square = wait.variance + wait.mean**2
    left = busy * (wait.mean + own.mean)
    variance = busy * (square + 2.0 * wait.mean * own.mean + own.square) - left * left
    return Wait(_behind(rate, stolen, pace, burstiness), max(0.0, variance) * alone**2)
