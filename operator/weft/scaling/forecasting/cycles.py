"""Short cycles of traffic, of four minutes to nearly an hour: waves and pulses that come back, learnt from a few hours.

A level and a trend follow a wave too late, so that margins buy its highest moment all the time, and they see a pulse
once it is there. Where traffic repeats itself, what comes is what came one period earlier, and how far that was off is
known as well.

The period is the first deep minimum of the mean squared difference between the course and itself shifted in time, over
the cumulative mean of that (YIN: de Cheveigné and Kawahara 2002), which is about 1 for chance, 2 after a step, 3 on a
ramp and near 0 at a period. It is only used while earlier cycles foretell each of the last three, at the horizon,
better than the mean over a period does. Where the last moments brought more than foretold, the usual forecast counts
beside it, the higher of both; where they brought less, the lower.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weft.scaling.forecasting.course import LEAST_LOG, PERIODS_FORETOLD, PERIODS_NEEDED, SHORTEST_BINS, STEP, UNSEEN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Logs = NDArray[np.float64]

_DEEP = 0.35  # of the cumulative mean of differences
_STILL = 1e-3  # mean squared difference (of logarithms) of a course that does not move
_FINER = 8  # a period is known to this part of a bin
_MOST_MULTIPLES = 4
_MOST_CYCLES = 3  # that foretell together
_MOST_JUDGED = 12  # cycles that tell how far such forecasts are off
_LEFT, _LEFT_OF_ONE = 0.5, 0.7  # of the squared errors of the mean: over all periods, and of each
_SEEN_OF_ONE = 0.5  # fraction of each period that was observed
_BREAK, _LEAST_BREAK = 4.0, 0.25  # standard deviations, and logarithm
_LEAST_OF_A_PERIOD = 4  # a cycle that comes earlier by a larger part than one over this is another one
_LATE_BINS = 1  # metrics tell of requests up to so much after they came
_LEAST_SCATTER = 0.03  # as codes are rounded
REMEMBERED = 4096  # several passes look at one bin


@dataclass(frozen=True, slots=True)
class Reach:
    """The highest log rate that a cycle foretells for some time, and the standard deviation of what exceeds it."""

    level: float
    scatter: float


@dataclass(frozen=True, slots=True)
class InCycle:
    """What a cycle foretells until the horizon, and until twice that.

    More came lately than it foretold where it `rose`, and less where it `fell`, so that it may be over.
    """

    ahead: Reach
    again: Reach
    rose: bool = False
    fell: bool = False


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
    logs, means = _with_means(course, whole)
    back = np.rint(np.arange(first, first + cycles) * period).astype(int)[:, None]
    periods = max(PERIODS_FORETOLD, min(_MOST_JUDGED, (len(logs) - ahead - int(back[-1, 0])) // whole - 1))
    judged = np.arange(len(logs) - periods * whole, len(logs))
    by_mean = means[judged - ahead]
    foretold = by_mean + (logs[judged - back] - means[judged - ahead - back]).mean(axis=0)
    off = _Judged(logs[judged], foretold, logs[judged] - by_mean, whole)
    seen = np.array([each != UNSEEN for each in course[-PERIODS_FORETOLD * whole :]])
    went = off.went(seen)
    if went is None:
        return None
    last, astray = len(logs) - 1, off.astray()
    at = last + np.arange(ahead + reach + astray + 1) - back
    found = means[last] + (logs[np.where(at > last, at - whole, at)] - means[last - back]).mean(axis=0)
    bins = (reach + 1 + astray, len(found))
    until, again = (Reach(float(found[:n].max()), off.scatter(n, period)) for n in bins)
    return InCycle(until, again, *went)


def _with_means(course: str, whole: int) -> tuple[Logs, Logs]:
    """Log rates of a course, and their mean over the period that ends with each; 0 before a whole one."""
    logs = _logs(course, whole)
    sums = np.concatenate((np.zeros(1), np.cumsum(logs)))
    return logs, np.concatenate((np.zeros(whole - 1), (sums[whole:] - sums[:-whole]) / whole))


class _Judged:
    """Log rates that `came` in the last periods, beside those that earlier ones `foretold`.

    `of_mean` is how far they are off the mean over a period. Replicas come early and are held for longer than a bin:
    what comes a bin too early or too late is no error.
    """

    def __init__(self, came: Logs, foretold: Logs, of_mean: Logs, whole: int) -> None:
        self.came, self.foretold, self.errors, self.of_mean, self.whole = (
            came,
            foretold,
            came - foretold,
            of_mean,
            whole,
        )
        around = np.stack((foretold, np.append(foretold[1:], foretold[-1]), np.append(foretold[0], foretold[:-1])))
        self.above, self.below = np.maximum(0.0, came - around.max(axis=0)), np.maximum(0.0, around.min(axis=0) - came)
        self.requests = np.exp(came - came.max())

    def went(self, seen: NDArray[np.bool_]) -> tuple[bool, bool] | None:
        """Whether it rose, and whether it fell; None where earlier cycles do not foretell the last, even without that.

        Usual errors are those before the last period, or what breaks a cycle would make itself usual.
        """
        usual = math.sqrt(2.0 * _mean(self.above[: -self.whole] ** 2, self.requests[: -self.whole]))
        most = max(_LEAST_BREAK, _BREAK * usual)
        rose, fell = bool(self.above[-1] > most), bool(self.below[-2:].min() > most)
        latest = np.arange(len(self.errors)) >= len(self.errors) - self.whole
        if not rose and not fell and self._foretells(seen, self.errors):
            return False, False
        if not fell and self._foretells(seen, np.where(latest, np.minimum(0.0, self.errors), self.errors)):
            return True, False
        if not rose and self._foretells(seen, np.where(latest, np.maximum(0.0, self.errors), self.errors)):
            return False, True
        return None

    def _foretells(self, seen: NDArray[np.bool_], errors: Logs) -> bool:
        """Whether errors are far smaller than those of the mean, over the last periods and in each, as far as seen."""
        observed = seen.reshape(PERIODS_FORETOLD, -1)
        left = (observed * errors[-seen.size :].reshape(observed.shape) ** 2).sum(axis=1)
        before = (observed * self.of_mean[-seen.size :].reshape(observed.shape) ** 2).sum(axis=1)
        was_seen = bool((observed.mean(axis=1) >= _SEEN_OF_ONE).all())
        return was_seen and bool(left.sum() < _LEFT * before.sum()) and bool((left < _LEFT_OF_ONE * before).all())

    def astray(self) -> int:
        """Bins by which any of these cycles came too early or too late: with less than half of the errors left."""
        count, most = len(self.came), self.whole // _LEAST_OF_A_PERIOD
        shifts = np.arange(-most, most + 1)[:, None]
        errors = self.came - self.foretold[np.clip(np.arange(count) + shifts, 0, count - 1)]
        left = (errors**2).reshape(len(shifts), -1, self.whole).sum(axis=2)
        off = np.where(left.min(axis=0) < _LEFT * left[most], left.argmin(axis=0) - most, 0)
        return int(np.abs(off).max())

    def scatter(self, bins: int, period: float) -> float:
        """How far requests exceeded what was foretold at the times in a cycle of so many bins, as a deviation.

        It is the wider the fewer cycles tell it, about as Student's distribution is.
        """
        count = len(self.came)
        cycles = np.arange(1, count // self.whole + 1)
        at = count - 1 + np.arange(min(bins, self.whole))[None, :] - np.rint(cycles * period).astype(int)[:, None]
        at = at[at >= 0]
        widened = math.sqrt((len(cycles) + 1.0) / (len(cycles) - 1.0))
        return max(_LEAST_SCATTER, widened * math.sqrt(2.0 * _mean(self.above[at] ** 2, self.requests[at])))


def _mean(values: Logs, weights: Logs) -> float:
    return float((values * weights).sum() / weights.sum())


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
