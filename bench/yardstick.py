"""The same small piece of Python work again and again: how fast this machine is at the moment.

Processors are shared with neighbours whom nobody on this machine sees: they take neither time off its clocks nor turns
in its queue, and everything takes up to twice as long. This yardstick beside a measurement tells both apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import process_time

OBJECTS, ROUNDS = 20_000, 2


@dataclass(frozen=True, slots=True)
class _Mark:
    """A value as the core has many of them: looked up, read and added up."""

    at: float
    name: str


class Yardstick:
    """Work on some megabytes of small objects, as passes do; `best` is the shortest time it ever took here, in ms."""

    def __init__(self) -> None:
        self._marks = [_Mark(index * 0.5, f"mark-{index}") for index in range(OBJECTS)]
        self.best = float("inf")

    def measure(self) -> float:
        """Milliseconds of processor time that it takes now, once its objects are in the caches again.

        What was measured before has pushed them out, more of them the larger it is: a first round does not count.
        """
        self._round()
        began = process_time()
        for _ in range(ROUNDS):
            self._round()
        took = (process_time() - began) * 1000.0
        self.best = min(self.best, took)
        return took

    def _round(self) -> float:
        found = {mark.name: mark.at * 1.5 for mark in self._marks}
        return sum(found[mark.name] for mark in self._marks if mark.at >= 0.0)
