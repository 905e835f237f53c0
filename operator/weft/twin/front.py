"""How the front chooses an engine for each request, and what clients put up with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from weft.twin.served import ServedEngine


class FrontRule(StrEnum):
    """Which engine gets a request: each in turn, or one of those with the fewest requests inside."""

    RoundRobin = "RoundRobin"
    LeastLoad = "LeastLoad"


@dataclass(frozen=True, slots=True)
class FrontOptions:
    """A client cancels when it has no first token after `patience_seconds`, of each try.

    It tries again up to `retries` times, `retry_after_seconds` after a try was cancelled, refused or lost with its
    engine. What is inside an engine whose node died, or is sent there, hangs for the `notices_after_seconds` that the
    front needs to notice: then it is lost.
    """

    rule: FrontRule = FrontRule.LeastLoad
    patience_seconds: float = math.inf
    retries: int = 0
    retry_after_seconds: float = 1.0
    notices_after_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Raises `ValueError` for times that no client can mean."""
        if self.patience_seconds <= 0 or self.retry_after_seconds < 0 or self.notices_after_seconds < 0:
            raise ValueError("patience is above 0 seconds, and no other time is below")
        if self.retries < 0:
            raise ValueError("there are no fewer than 0 retries")


class Choice(Protocol):
    """Chooses among the engines of one pool. It is told of every request that an engine was sent, and that left it."""

    def add(self, served: ServedEngine) -> None:
        """It may be chosen from now on."""

    def remove(self, served: ServedEngine) -> None:
        """It is chosen no more; nothing happens if it never was."""

    def choose(self) -> ServedEngine | None:
        """Who gets the next request; None without engines."""

    def sent(self, served: ServedEngine) -> None:
        """It has one request more inside."""

    def left(self, served: ServedEngine) -> None:
        """It has one less."""


def choice(rule: FrontRule) -> Choice:
    """A rule with no engines yet."""
    return LeastLoad() if rule is FrontRule.LeastLoad else RoundRobin()


class RoundRobin:
    """Each in turn, in the order in which they were added."""

    def __init__(self) -> None:
        """Nobody is there."""
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
        """Loads do not matter."""

    def left(self, served: ServedEngine) -> None:
        """Loads do not matter."""


class LeastLoad:
    """Engines by how many requests they have inside; of several with the fewest, who has had as many the longest."""

    def __init__(self) -> None:
        """Nobody is there."""
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
