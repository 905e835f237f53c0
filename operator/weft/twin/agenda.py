"""What is due when: calls, and looks at engines where somebody may have ended."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.twin.served import ServedEngine

    Act = Callable[[float], None]


class Agenda:
    """Heaps by time; of calls that are due together the first that was put down goes first."""

    __slots__ = ("_order", "calls", "looks")

    def __init__(self) -> None:
        """Nothing is due."""
        self._order = count()
        self.calls: list[tuple[float, int, Act]] = []
        self.looks: list[tuple[float, int, ServedEngine]] = []

    def call(self, at: float, act: Act) -> None:
        """Call it then, with the time."""
        heappush(self.calls, (at, next(self._order), act))

    def look(self, served: ServedEngine, at: float) -> None:
        """Look at an engine then, or before if that was put down already."""
        if at < served.wake:
            served.wake = at
            heappush(self.looks, (at, served.number, served))

    def next_call(self) -> None:
        """Do what is due first."""
        at, _, act = heappop(self.calls)
        act(at)

    def next_look(self) -> ServedEngine | None:
        """The engine to look at first; None where it was looked at since."""
        at, _, served = heappop(self.looks)
        if served.wake != at:
            return None
        served.wake = math.inf
        return served
