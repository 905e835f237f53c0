"""Pods that are still there long after their grace period: nobody waits for their end any more.

A device hangs, their node does not answer, or somebody's finalizer holds them.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.cluster import PodRecord

OVERDUE_SECONDS = 60.0  # beyond the grace period


def is_overdue(pod: PodRecord, now: float) -> bool:
    """Whether a terminating pod should have been gone long ago."""
    return overdue_in_seconds(pod, now) <= 0.0


def overdue_in_seconds(pod: PodRecord, now: float) -> float:
    """Seconds until a terminating pod is overdue, below 0 once it is; infinite if nobody deletes it."""
    return pod.gone_by + OVERDUE_SECONDS - now if pod.gone_by is not None else inf
