"""Replicas that move so that another one fits."""

from __future__ import annotations

from dataclasses import dataclass

HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class MoveBudget:
    """How many replicas may begin to move in any hour, over all pools, and in one pass. The default allows none."""

    per_hour: int = 0
    per_decision: int = 8


@dataclass(frozen=True, slots=True)
class Relocation:
    """A replica that moves once its replacement serves. `since` is epoch seconds.

    `beneficiary` is the pool that gets its slot, as `namespace/name`.
    """

    replica: int
    since: float
    beneficiary: str

    def is_recent(self, now: float) -> bool:
        """Whether it counts against the budget of this hour."""
        return now - self.since < HOUR_SECONDS
