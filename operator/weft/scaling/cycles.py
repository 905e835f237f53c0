"""Short cycles of traffic, of four minutes to nearly an hour: waves and pulses that come back, learnt from a few hours.

A level and a trend follow a wave too late, so that margins buy its highest moment all the time, and they see a pulse
once it is there. Where traffic repeats itself, what comes is what came one period earlier, and how far that was off is
known as well.

The period is the first deep minimum of the mean squared difference between the course and itself shifted in time, over
the cumulative mean of that (YIN: de Cheveigné and Kawahara 2002), which is about 1 for chance, 2 after a step, 3 on a
ramp and near 0 at a period. It is only used while earlier cycles foretell each of the last three, at the horizon,
better than the mean over a period does, and while the last moments went as foretold.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weft.scaling.course import LEAST_LOG, PERIODS_FORETOLD, PERIODS_NEEDED, SHORTEST_BINS, STEP, UNSEEN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Logs = NDArray[np.float64]

_DEEP = 0.35  # of the cumulative mean of differences
_STILL = 1e-3  # mean squared difference (of logarithms) of a course that does not move
_FINER = 8  # a period is known to this part of a bin
_MOST_MULTIPLES = 4
_MOST_CYCLES = 3  # that foretell together
_LEFT, _LEFT_OF_ONE = 0.5, 0.7  # of the squared errors of the mean: over all periods, and of each
_SEEN_OF_ONE = 0.5  # fraction of each period that was observed
_BREAK, _LEAST_BREAK = 4.0, 0.25  # standard deviations, and logarithm
_LATE_BINS = 1  # metrics tell of requests up to so much after they came
_LEAST_SCATTER = 0.03  # as codes are rounded
REMEMBERED = 4096  # several passes look at one bin


@dataclass(frozen=True, slots=True)
class InCycle:
    """The highest log rate that a cycle foretells until the horizon, and the standard deviation of what exceeds it.

    `again` is the highest log rate until twice the horizon.
    """

    level: float
    again: float
    scatter: float


def period_of(course: str) -> float:
    """Bins from one cycle to the next; 0 where traffic does not repeat itself."""
    longest = len(course) // PERIODS_NEEDED
    if longest <= SHORTEST_BINS:
        return 0.0
    apart = _apart(_logs(course))
    found = apart[1 : longest + 1]
    mean = np.cumsum(found) / np.arange(1, longest + 1)
    if mean[-1] < _STILL:
        return 0.0
    part = found / np.maximum(mean, _STILL)
    deep = (part[1:-1] < _DEEP) & (part[1:-1] <= part[:-2]) & (part[1:-1] <= part[2:])
    deep[: SHORTEST_BINS - 2] = False  # the first is of a shift by two bins
    return _finer(apart, int(np.argmax(deep)) + 2) if deep.any() else 0.0


def _apart(logs: Logs) -> Logs:
    """The mean squared difference of a course and itself, shifted by 0, 1, 2 ... bins, up to four fifths of it."""
    count = len(logs)
    centred = logs - logs.mean()
    spectrum = np.fft.rfft(centred, 2 * count)
    products = np.fft.irfft(spectrum * np.conj(spectrum), 2 * count)
    squares = np.concatenate((np.zeros(1), np.cumsum(centred * centred)))
    shifts = np.arange(count * 4 // 5 + 1)
    sums = squares[count] - squares[shifts] + squares[count - shifts] - 2.0 * products[shifts]
    apart: Logs = np.maximum(0.0, sums) / (count - shifts)
    return apart


def _finer(apart: Logs, period: int) -> float:
    """The period to a part of a bin: where the course differs least from itself shifted by its multiples."""
    most = max(1, min(_MOST_MULTIPLES, (len(apart) - 1) // (period + 1)))
    tried = period + np.arange(1 - _FINER, _FINER) / _FINER
    found = apart[np.rint(tried[:, None] * np.arange(1, most + 1)).astype(int)].mean(axis=1)
    best = float(tried[found <= found.min() * (1.0 + 1e-9)].mean())
    return round(best * _FINER) / _FINER


@functools.lru_cache(maxsize=REMEMBERED)
def in_cycle(course: str, period: float, ahead: int) -> InCycle | None:
    """What a cycle of `period` bins foretells for `ahead` bins and as many more; None where it does not hold."""
    whole = round(period)
    if whole < SHORTEST_BINS:
        return None
    reach = ahead + 1 + _LATE_BINS
    first = math.ceil((ahead + reach) / period)  # cycles back to the latest that is over at twice the horizon
    cycles = min(_MOST_CYCLES, int((len(course) - (PERIODS_FORETOLD + 1) * whole - ahead) // period) - first + 1)
    if cycles < 1:
        return None
    logs, seen = _logs(course, whole), np.array([each != UNSEEN for each in course[-PERIODS_FORETOLD * whole :]])
    sums = np.concatenate((np.zeros(1), np.cumsum(logs)))
    means = np.concatenate((np.zeros(whole - 1), (sums[whole:] - sums[:-whole]) / whole))
    back = np.rint(np.arange(first, first + cycles) * period).astype(int)[:, None]
    last = len(logs) - 1
    judged = np.arange(len(logs) - PERIODS_FORETOLD * whole, len(logs))
    by_mean = means[judged - ahead]
    foretold = by_mean + (logs[judged - back] - means[judged - ahead - back]).mean(axis=0)
    if not _foretells(logs[judged] - foretold, logs[judged] - by_mean, seen):
        return None
    scatter = _scatter(logs[judged], foretold)
    coming = np.arange(ahead + reach + 1)
    found = means[last] + (logs[np.minimum(last, last + coming - back)] - means[last - back]).mean(axis=0)
    return None if scatter is None else InCycle(float(found[: reach + 1].max()), float(found.max()), scatter)


def _foretells(errors: Logs, of_mean: Logs, seen: NDArray[np.bool_]) -> bool:
    """Whether errors are far smaller than those of the mean, over all periods and in each, as far as it was seen."""
    observed = seen.reshape(PERIODS_FORETOLD, -1)
    left = (observed * errors.reshape(observed.shape) ** 2).sum(axis=1)
    before = (observed * of_mean.reshape(observed.shape) ** 2).sum(axis=1)
    was_seen = bool((observed.mean(axis=1) >= _SEEN_OF_ONE).all())
    return was_seen and bool(left.sum() < _LEFT * before.sum()) and bool((left < _LEFT_OF_ONE * before).all())


def _scatter(came: Logs, foretold: Logs) -> float | None:
    """How far requests exceeded what was foretold, as a standard deviation; None where the last moments broke it.

    Replicas come early and are held for longer than a bin: what comes a bin too early or too late is no error.
    """
    around = np.stack((foretold, np.append(foretold[1:], foretold[-1]), np.append(foretold[0], foretold[:-1])))
    above, below = came - around.max(axis=0), around.min(axis=0) - came
    requests = np.exp(came - came.max())
    squares = requests * np.maximum(0.0, above) ** 2
    usual = math.sqrt(2.0 * float(squares[:-1].sum() / requests[:-1].sum()))
    if above[-1] > max(_LEAST_BREAK, _BREAK * usual) or below[-2:].min() > max(_LEAST_BREAK, _BREAK * usual):
        return None
    return max(_LEAST_SCATTER, math.sqrt(2.0 * float(squares.sum() / requests.sum())))


def _logs(course: str, period: int = 0) -> Logs:
    """Log rates of a course; a bin that nobody saw is as one period earlier, or else as the bin before.

    Those before the first that was seen are as that one.
    """
    codes = np.frombuffer(course.encode("latin-1", "replace"), np.uint8)
    unseen = ord(UNSEEN)
    for _ in range(PERIODS_NEEDED if period and UNSEEN in course else 0):
        codes = np.where(codes > unseen, codes, np.concatenate((codes[:period], codes[:-period])))
    first = int(np.argmax(codes > unseen)) if len(codes) else 0
    known = np.maximum.accumulate(np.where(codes > unseen, np.arange(len(codes)), first))
    return LEAST_LOG + STEP * (codes[known].astype(np.float64) - unseen - 1)
