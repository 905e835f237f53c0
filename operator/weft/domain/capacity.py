"""Requests a second that replicas serve within the SLO: it has to be asked with how many there are (ADR 0113)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.domain.values.made_often import made_often

# How much more one of so many replicas carries behind a front that goes by load than alone: of one, of two, ...; none
# is below the one before, and more replicas than there are entries carry as the last. Empty: no more than alone.
Gains = tuple[float, ...]

_MOST_NEEDED = 1_000_000  # any larger need is a broken metric; bounds cut it further
_ROUNDING = 1e-9  # of replicas


@made_often
@dataclass(frozen=True, slots=True)
class Capacity:
    """What replicas of one shape serve: `alone` is of one with a random share of the requests, in requests a second.

    `alone` compares single replicas. What several serve is `of` them, and how many a rate takes is `needed`.
    """

    alone: float
    gains: Gains = ()

    @property
    def is_known(self) -> bool:
        """Whether a replica is known to serve anything."""
        return 0.0 < self.alone < math.inf

    def gain(self, replicas: int) -> float:
        """How much more each of so many replicas serves than one alone."""
        return self.gains[min(replicas, len(self.gains)) - 1] if self.gains and replicas > 0 else 1.0

    def each(self, replicas: int) -> float:
        """Requests a second that each of so many replicas serves."""
        return self.gain(replicas) * self.alone

    def of(self, replicas: int) -> float:
        """Requests a second that so many replicas serve together."""
        return replicas * self.gain(replicas) * self.alone

    def needed(self, requests_per_second: float) -> int:
        """The fewest replicas that serve a rate, at least 1; `alone` is above 0."""
        exact = self.exactly(requests_per_second)
        return max(1, min(_MOST_NEEDED, math.ceil(exact - _ROUNDING))) if math.isfinite(exact) else _MOST_NEEDED

    def exactly(self, requests_per_second: float) -> float:
        """The same before it is rounded up, as a line goes from what n replicas serve to what n + 1 do."""
        alone = requests_per_second / self.alone
        before = 0.0
        for replicas, gain in enumerate(self.gains, 1):
            if alone <= replicas * gain:
                return replicas - 1 + (alone - before) / (replicas * gain - before)
            before = replicas * gain
        return alone / self.gain(len(self.gains))

    def instead_of(self, replicas: int, before: Capacity) -> int:
        """The fewest replicas that serve what so many of another capacity do, 0 for none; `alone` is above 0."""
        return math.ceil(self.exactly(before.of(replicas)) - _ROUNDING)

    def at_most(self, each: float) -> Capacity:
        """The same where none of any number serves more than `each` requests a second, which is above 0."""
        if self.each(len(self.gains)) <= each:
            return self
        alone = min(self.alone, each)
        return Capacity(alone, tuple([min(gain * self.alone, each) / alone for gain in self.gains]))

    def at_least(self, each: tuple[float, ...]) -> Capacity:
        """The same where one, two, ... replicas serve no fewer than so many requests a second each.

        More replicas than are told serve no fewer than the last; none of them is below the one before.
        """
        known = [max(self.each(replicas), least) for replicas, least in enumerate(each, 1)]
        known += [max(self.each(replicas), each[-1]) for replicas in range(len(each) + 1, len(self.gains) + 1)]
        return Capacity(known[0], tuple([rate / known[0] for rate in known]))

    def lone(self) -> Capacity:
        """The same of replicas that share no queue."""
        return Capacity(self.alone) if self.gains else self
