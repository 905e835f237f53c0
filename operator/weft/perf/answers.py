"""Time per output token as a distribution over requests: of steps beside prompts that come at random, or more evenly.

A prompt lengthens a step, in which more prompts come, which lengthen the next: each delays an answer by itself and by
what follows from it while the answer lasts. Of the last steps of an answer less follows, and short ones have no others.
The batch fluctuates too, over longer times. No step is longer than one that prompts fill, and so no time per token.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from weft.perf.backlog import unheld
from weft.perf.latency import Latency
from weft.perf.queueing import mean_in_line
from weft.perf.regular import fewer, spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.perf.backlog import RankLoad
    from weft.perf.steps import StepTime

_STEEPEST = 0.98  # growth of a step with its batch, or with prompts: beyond this, there would be no steady state


class Swings(NamedTuple):
    """What varies beside prompts: a step without them over a life, in s^2, and the mean time by a batch that wanders.

    The latter is a deviation, as a part of that time, and has those of launched steps in it. `dispersion` is that of
    the requests that come (`regular`): 1 at random.
    """

    step: float
    wanders: float
    dispersion: float = 1.0


def per_token(load: RankLoad, gaps: tuple[float, float], step: StepTime, least: float, swings: Swings) -> Latency:
    """Seconds per token at a load, of answers with so many `gaps` between tokens (the mean, and their shortness).

    A sequence alone takes `least`.
    """
    (answer, shorter), (swing, wanders, dispersion), pace = gaps, swings, load.pace
    alike, mean = ((step.seconds + load.backlog.mean * each / answer) / load.free for each in (1.0, shorter))
    if load.held.mean == 0.0:
        return Latency(mean, swing, least)
    most = max(alike, (pace.step_seconds + pace.full) / step.tokens)
    less = _fewer(load, answer * mean, dispersion)
    mean -= (1.0 - less.behind) * load.backlog.mean * shorter / answer / load.free
    mean -= (1.0 - less.during) * step.seconds * (1.0 / load.free - 1.0)
    mean = min(mean, most)  # a short answer has less room, too
    random = _random(load, step.seconds) * shorter / answer * less.variance
    grows = load.rate * load.stolen.mean
    behind = (
        load.backlog.variance * less.behind * (shorter / answer / load.free * (1.0 - math.pow(grows, pace.steps))) ** 2
    )
    bounded = max(0.0, (most - mean) * (mean - least))  # no variance between bounds is larger (Bhatia and Davis)
    variance = min(random + behind, bounded) + swing / (1.0 - grows) ** 2
    return Latency(mean, max(variance, (wanders * mean) ** 2), least, most)


class _Fewer(NamedTuple):
    """Prompts over those at random: that queue behind a request, and that come in its answer, with their variance."""

    behind: float
    during: float
    variance: float


def _fewer(load: RankLoad, answer_seconds: float, dispersion: float) -> _Fewer:
    """Requests that come in an answer of so many seconds, and before it while its own prompt waits and is computed.

    The time of their prompts varies by how long these are, and by how many there are.
    """
    own, met = load.stolen.own, load.rate * answer_seconds
    before = load.rate * (mean_in_line(load.rate, own, 0.0) + own.mean)
    during = fewer(dispersion, met, before)
    by_number = (1.0 - spread(dispersion, met)) * own.mean**2 / own.square
    return _Fewer(fewer(dispersion, before), during, during * (1.0 - by_number))


def _random(load: RankLoad, step_seconds: float) -> float:
    """Variance of the time that prompts take from one step of an answer, in s^2 and with all that follows from it.

    Prompts that wait for launches even alone come one by one, and steps that prompts outgrow together in rows.
    """
    pace, once, launches = load.pace, load.held.once, load.launches
    grows = min(_STEEPEST, load.rate * load.stolen.times * pace.more)
    each = (unheld(load.rate, load.stolen) * pace.more / once) ** 2 * followed(grows, pace.steps) / (1.0 - grows) ** 2
    each *= load.rate * step_seconds / load.free
    in_rows = each * (1.0 - launches.joining) * load.stolen.square + launches.variance(pace.steps) * pace.steps
    return launches.singly * each * load.held.square + (1.0 - launches.singly) * in_rows


def followed(grows: float, steps: float) -> float:
    """The mean of (1 - g^k)^2 over k = 1 ... `steps`: how much an answer meets of what follows from a step, squared.

    Each second makes the next step `grows` g longer, so that 1 + g + g^2 ... follow, of which k are left.
    """
    once = grows * (1.0 - math.pow(grows, steps)) / (1.0 - grows)
    twice = grows**2 * (1.0 - math.pow(grows, 2.0 * steps)) / (1.0 - grows**2)
    return 1.0 - (2.0 * once - twice) / steps


def swing(batch: float, seconds_at: Callable[[float], float], burstiness: float) -> float:
    """Variance of the decode step over a request's life, as the batch fluctuates by B / (1 - e) around its mean.

    e is the growth of a step relative to that of the batch, over one deviation of the batch, as stages that begin to
    wait for each other are a kink. Averaged over a life, which is as long as the batch is correlated.
    """
    if batch <= 0.0:
        return 0.0
    further, step_seconds = math.sqrt(batch), seconds_at(batch + 1.0)
    slope = (seconds_at(batch + further + 1.0) - step_seconds) / further
    slack = 1.0 - min(_STEEPEST, slope * batch / step_seconds)
    kept = 2.0 * (slack + math.expm1(-slack)) / slack**2
    return slope**2 * batch / slack * (1.0 + burstiness / 2.0) * kept
