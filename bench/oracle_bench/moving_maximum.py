"""The simplest policy at its best: the largest need of a window that has passed, times a factor.

Window and factor are tuned in hindsight. It begins as if the need had been the same before the trace: with the largest
one of its first window, and of the time that its first replicas take to start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from weft.twin.hindsight.oracle import paid_seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weft.twin.hindsight.oracle import PoolNeed, Terms

HOUR = 3600.0
WINDOWS_SECONDS = (30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1200.0, 1800.0, 3600.0)
MOST_FACTOR, FACTOR_PRECISION = 64.0, 0.005


@dataclass(frozen=True, slots=True)
class MovingMaximum:
    """GPU-hours of the best window and factor."""

    hours: float
    window_seconds: float
    factor: float


def moving_maximum(pool: PoolNeed, requests: NDArray[np.float64], terms: Terms) -> MovingMaximum | None:
    """The cheapest that loses no more than allowed, never over the peak of the need; None if none does."""
    found = (_with_window(pool, requests, terms, window) for window in WINDOWS_SECONDS)
    return min((each for each in found if each), key=lambda each: each.hours, default=None)


def _with_window(
    pool: PoolNeed, requests: NDArray[np.float64], terms: Terms, window_seconds: float
) -> MovingMaximum | None:
    """The smallest factor that is enough."""
    bins = max(1, round(window_seconds / terms.bin_seconds))
    at_first = float(pool.needed[: 1 + max(bins, start_up_bins(terms))].max())
    allowed = (1.0 - terms.attainment) * float(requests.sum())

    def counts(factor: float) -> NDArray[np.int64]:
        return asked(pool, seen(pool.needed, bins, at_first), factor)

    def is_enough(factor: float) -> bool:
        return bool(pool.lost(requests, ready(counts(factor), terms)).sum() <= allowed)

    low, high = 1.0, MOST_FACTOR
    if not is_enough(high):
        return None
    while high / low > 1.0 + FACTOR_PRECISION:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    starts_are_asked_for = replace(terms, start_up_seconds=0.0)
    return MovingMaximum(paid_seconds(pool, counts(high), starts_are_asked_for) / HOUR, window_seconds, high)


def seen(needed: NDArray[np.float64], bins: int, at_first: float) -> NDArray[np.float64]:
    """The largest need of so many bins before each, and `at_first` before the first."""
    padded = np.concatenate([np.full(bins, at_first), needed[:-1]])
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, bins).max(axis=1))


def start_up_bins(terms: Terms) -> int:
    """Bins until a replica is there, whole ones."""
    return math.ceil(terms.start_up_seconds / terms.bin_seconds)


def asked(pool: PoolNeed, largest: NDArray[np.float64], factor: float) -> NDArray[np.int64]:
    """Replicas asked for in each bin."""
    most = max(pool.least, math.ceil(pool.needed.max()))
    return np.clip(np.ceil(factor * largest), pool.least, most).astype(np.int64)


def ready(counts: NDArray[np.int64], terms: Terms) -> NDArray[np.int64]:
    """Those asked for as long as they take to start, or since the trace began."""
    bins = start_up_bins(terms)
    padded = np.concatenate([np.full(bins, counts[0]), counts])
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, bins + 1).min(axis=1))
