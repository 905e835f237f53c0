"""Counts by the clock: a calendar, or the answer of an oracle that knew the traffic."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.twin.policies.policy import PoolView


@dataclass(frozen=True, slots=True)
class ScheduledChange:
    """From `at` seconds on, these (pool, replicas); a pool that is not named keeps its count."""

    at: float
    counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """Changes in order of time, counted from `begin`, which is when the policy is first asked unless it is given.

    Raises `ValueError` for changes whose times go back.
    """

    changes: tuple[ScheduledChange, ...]
    begin: float | None = None
    every_seconds: float = 5.0

    def __post_init__(self) -> None:
        times = [change.at for change in self.changes]
        if times != sorted(times):
            raise ValueError("the changes of a schedule are in order of time")

    def policy(self) -> Schedule:
        """One that was not asked yet."""
        return Schedule(self)


class Schedule:
    """Asks for what its last change named; bounds of a pool hold."""

    name = "schedule"

    def __init__(self, options: ScheduleOptions) -> None:
        """Nothing was asked for yet."""
        self.options = options
        self._times = [change.at for change in options.changes]
        self._begin = options.begin
        self._done = 0
        self._counts: dict[str, int] = {}

    @property
    def every_seconds(self) -> float:
        return self.options.every_seconds

    def counts(self, now: float, pools: tuple[PoolView, ...]) -> Mapping[str, int]:
        if self._begin is None:
            self._begin = now
        reached = bisect_right(self._times, now - self._begin)
        for change in self.options.changes[self._done : reached]:
            self._counts.update(change.counts)
        self._done = max(self._done, reached)
        return {view.name: view.clamp(self._counts[view.name]) for view in pools if view.name in self._counts}
