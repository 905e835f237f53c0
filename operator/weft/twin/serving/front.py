"""How the front chooses an engine for each request, and how long clients wait and retry."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from weft.twin.serving.served import ServedEngine


class FrontRule(StrEnum):
    """Which engine gets a request: the next in turn, or one of those with the fewest requests inside."""

    RoundRobin = "RoundRobin"
    LeastLoad = "LeastLoad"


@dataclass(frozen=True, slots=True)
class FrontOptions:
    """How clients and the front behave. A client cancels a try without a first token after `patience_seconds`.

    It tries again up to `retries` times, `retry_after_seconds` after a try was cancelled, refused or lost with its
    engine. Requests inside an engine whose node died, or sent there, hang for the `notices_after_seconds` that the
    front needs to notice: then they are lost.
    """

    rule: FrontRule = FrontRule.LeastLoad
    patience_seconds: float = math.inf
    retries: int = 0
    retry_after_seconds: float = 1.0
    notices_after_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Raise `ValueError` for times or counts out of range."""
        if self.patience_seconds <= 0 or self.retry_after_seconds < 0 or self.notices_after_seconds < 0:
            raise ValueError("patience is above 0 seconds, and no other time is below")
        if self.retries < 0:
            raise ValueError("there are no fewer than 0 retries")


class Choice(Protocol):
    """Chooses among the engines of one pool. It is told of each request that is sent to an engine or leaves it."""

    def add(self, served: ServedEngine) -> None:
        """Let an engine be chosen from now on."""

    def remove(self, served: ServedEngine) -> None:
        """Let an engine be chosen no more; does nothing for an unknown one."""

    def choose(self) -> ServedEngine | None:
        """Return the engine for the next request; None without engines."""

    def sent(self, served: ServedEngine) -> None:
        """Take note that an engine has one more request inside."""

    def left(self, served: ServedEngine) -> None:
        """Take note that an engine has one request less inside."""


def choice(rule: FrontRule) -> Choice:
    """Make the chooser for a rule, with no engines yet."""
    return LeastLoad() if rule is FrontRule.LeastLoad else RoundRobin()


class RoundRobin:
    """Chooses each engine in turn, in the order in which they were added."""

    def __init__(self) -> None:
        """Start without engines."""
        self._turns: list[ServedEngine] = []
        self._next = 0

    def add(self, served: ServedEngine) -> None:
        self._turns.append(served)

    def remove(self, served: ServedEngine) -> None:
        if served in self._turns:
            place = self._turns.index(served)
            del self._turns[place]
            self._next -= place < self._next

    def choose(self) -> ServedEngine | None:
        if not self._turns:
            return None
        self._next %= len(self._turns)
        self._next += 1
        return self._turns[self._next - 1]

    def sent(self, served: ServedEngine) -> None:
        """Do nothing, as loads do not matter."""

    def left(self, served: ServedEngine) -> None:
        """Do nothing, as loads do not matter."""


class LeastLoad:
    """Chooses an engine with the fewest requests inside; of several, the one that has had that load the longest."""

    def __init__(self) -> None:
        """Start without engines."""
        self._levels: list[dict[ServedEngine, None]] = [{}]
        self._lowest = 0  # no engine has fewer

    def add(self, served: ServedEngine) -> None:
        self._put(served, len(served.inside))

    def remove(self, served: ServedEngine) -> None:
        for level in self._levels:
            level.pop(served, None)

    def choose(self) -> ServedEngine | None:
        levels = self._levels
        for load in range(self._lowest, len(levels)):
            if levels[load]:
                self._lowest = load
                return next(iter(levels[load]))
        return None

    def sent(self, served: ServedEngine) -> None:
        load = len(served.inside)
        if self._levels[load - 1].pop(served, self) is None:
            self._put(served, load)

    def left(self, served: ServedEngine) -> None:
        load = len(served.inside)
        if load + 1 < len(self._levels) and self._levels[load + 1].pop(served, self) is None:
            self._put(served, load)

    def _put(self, served: ServedEngine, load: int) -> None:
        while load >= len(self._levels):
            self._levels.append({})
        self._levels[load][served] = None
        self._lowest = min(self._lowest, load)
