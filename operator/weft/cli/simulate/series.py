"""Series for the pictures of a simulation: requests in bins of time, steps without repetition, and ticks of axes."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from weft.domain.texts.figures import digits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Values = NDArray[np.float64]

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 14400, 21600, 43200)  # seconds
_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)  # steps between ticks, times a power of ten
_DENSE = 1.6  # powers of ten that an axis may span to have ticks at 1, 2 and 5


def step_of_time(seconds: float, most: int) -> float:
    """Return the shortest round step, in seconds, of which at most `most` span the whole time."""
    days = _DAY * max(1, math.ceil(seconds / _DAY / most))
    return float(next((step for step in _STEPS if seconds <= step * most), days))


def edges_of(seconds: float, most: int) -> Values:
    """Return the edges of at most `most` equal bins of time, the last one at `seconds` or later."""
    step = step_of_time(seconds, most)
    return np.asarray(step * np.arange(max(1, math.ceil(seconds / step)) + 1), dtype=np.float64)


def edges_until(last: float, edges: Values) -> Values:
    """Return the edges of bins up to the last arrival, in seconds: a bin that ends later would look like a fall.

    A bin of which less than half is left belongs to the one before.
    """
    kept = edges[: max(1, int(np.searchsorted(edges, last)))]
    if len(kept) > 1 and last - kept[-1] < (edges[1] - edges[0]) / 2.0:
        kept = kept[:-1]
    return np.append(kept, max(last, kept[-1] + 1.0))


def rates(arrived: Values, edges: Values) -> Values:
    """Return requests per second in each bin."""
    found: Values = np.histogram(arrived, edges)[0] / np.diff(edges)
    return found


def percentiles(values: ArrayLike, percents: Sequence[float]) -> list[float]:
    """Return percentiles of the finite values; NaN where there is none."""
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    return [float(each) for each in np.percentile(known, percents)] if len(known) else [math.nan] * len(percents)


def percentiles_by_bin(arrived: Values, values: ArrayLike, edges: Values, percents: Sequence[float]) -> Values:
    """Return an array of a row per percentile and a column per bin; arrivals ascend."""
    places = np.searchsorted(arrived, edges)
    kept = np.asarray(values)
    bins = [percentiles(kept[begin:end], percents) for begin, end in pairwise(places)]
    return np.array(bins, dtype=np.float64).reshape(-1, len(percents)).T


def only_changes(times: Values, values: Values) -> tuple[Values, Values]:
    """Return the first step of each run of equal values, and the last step, where all end."""
    if not len(times):
        return times, values
    kept = np.append(True, np.diff(values) != 0)
    kept[-1] = True
    return times[kept], values[kept]


def linear_ticks(high: float, about: int, *, whole: bool = False) -> list[float]:
    """Return ticks from 0 to the first one at or above `high`, about so many; `whole` numbers for counts."""
    raw = max(high / about, float(whole), 1e-12)
    power = 10.0 ** math.floor(math.log10(raw))
    steps = (each * power for each in _ROUND if each * power >= raw * (1 - 1e-9))
    step = next(each for each in steps if not whole or each.is_integer())
    return [step * index for index in range(max(1, math.ceil(high / step - 1e-9)) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return ticks from the last one at or below `low` to the first at or above `high`: decades, maybe with 2 and 5."""
    firsts = (1.0, 2.0, 5.0) if math.log10(high / low) <= _DENSE else (1.0,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    all_of_them = [first * 10.0**power for power in powers for first in firsts]
    begin = max((each for each in all_of_them if each <= low * (1 + 1e-9)), default=low)
    end = min((each for each in all_of_them if each >= high * (1 - 1e-9)), default=high)
    return [each for each in all_of_them if begin <= each <= end]


def moment(seconds: float) -> str:
    """Format a tick of time: `0`, `30 s`, `20 min`, `1 h`, `1 h 30`, or from two days on `3 d` and `3 d 12 h`."""
    whole = round(seconds)
    days, rest = divmod(whole, _DAY)
    if days > 1 and not rest % _HOUR:
        return f"{days} d {rest // _HOUR} h" if rest else f"{days} d"
    hours, minutes = divmod(whole // _MINUTE, _HOUR // _MINUTE)
    if whole % _MINUTE:
        return f"{whole} s" if whole < _MINUTE else f"{whole // _MINUTE}:{whole % _MINUTE:02d} min"
    if not hours:
        return f"{minutes} min" if minutes else "0"
    return f"{hours} h {minutes:02d}" if minutes else f"{hours} h"


def latency(seconds: float) -> str:
    """Format a tick of a latency axis, without minutes: `500 ms`, `1000 s`."""
    return f"{digits(seconds)} s" if seconds >= 1.0 else f"{digits(seconds * 1000.0)} ms"


def clock(seconds: float) -> str:
    """Format a time since the trace began: `0:05:30`."""
    whole = int(seconds)
    return f"{whole // _HOUR}:{whole % _HOUR // _MINUTE:02d}:{whole % _MINUTE:02d}"
