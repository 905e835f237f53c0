"""What rules remember: values of the last seconds, and when something is due again."""

from __future__ import annotations

import math
from collections import deque
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLOSE = 1e-9  # of a replica, or a second: sums of floats are that far off


class Recent:
    """Values of the last `seconds`, oldest first; one that is exactly so old is gone, as in Kubernetes."""

    __slots__ = ("_kept", "_seconds")

    def __init__(self, seconds: float) -> None:
        """Nothing is remembered yet."""
        self._seconds = seconds
        self._kept: deque[tuple[float, float]] = deque()

    def add(self, now: float, value: float) -> None:
        """Remember a value; times never go back."""
        self._kept.append((now, value))
        self.forget(now)

    def forget(self, now: float) -> None:
        """Let go of what is too old."""
        while self._kept and self._kept[0][0] <= now - self._seconds + _CLOSE:
            self._kept.popleft()

    def __iter__(self) -> Iterator[float]:
        return (value for _, value in self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def mean(self) -> float:
        """Of all values, each counting the same; NaN without any."""
        return fmean(self) if self._kept else math.nan


class Timer:
    """Says when so many seconds have passed again."""

    __slots__ = ("_next", "_seconds")

    def __init__(self, seconds: float, first: float = -math.inf) -> None:
        """Due from `first` on."""
        self._seconds, self._next = seconds, first

    def due(self, now: float) -> bool:
        """Whether it is time; the next time is counted from now."""
        if now < self._next - _CLOSE:
            return False
        self._next = now + self._seconds
        return True


def replicas_for(load: float, each: float) -> int:
    """The fewest replicas for a load of which each carries so much."""
    return math.ceil(load / each - _CLOSE)
