"""What is due at which time: calls, and checks of engines in which a request may have ended."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.twin.serving.served import ServedEngine

    Act = Callable[[float], None]


class Agenda:
    """Two heaps ordered by time; of calls that are due at the same time, the one scheduled first runs first."""

    __slots__ = ("_order", "calls", "looks")

    def __init__(self) -> None:
        """Start with nothing due."""
        self._order = count()
        self.calls: list[tuple[float, int, Act]] = []
        self.looks: list[tuple[float, int, ServedEngine]] = []

    def call(self, at: float, act: Act) -> None:
        """Schedule a call of `act` at a time, which is passed to it."""
        heappush(self.calls, (at, next(self._order), act))

    def look(self, served: ServedEngine, at: float) -> None:
        """Schedule a check of an engine, unless an earlier one is scheduled already."""
        if at < served.wake:
            served.wake = at
            heappush(self.looks, (at, served.number, served))

    def next_call(self) -> None:
        """Run the call that is due first."""
        at, _, act = heappop(self.calls)
        act(at)

    def next_look(self) -> ServedEngine | None:
        """Pop the engine that is due for a check; None where an earlier check has replaced this one."""
        at, _, served = heappop(self.looks)
        if served.wake != at:
            return None
        served.wake = math.inf
        return served
