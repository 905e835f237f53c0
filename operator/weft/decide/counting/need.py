"""How many replicas the traffic of a pool needs now, as measured: those beyond are for what may come.

What is not measured in whole counts for the pool where it shares out what is free, and against it where it would take
from others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.scaling import backlog, is_backlog

if TYPE_CHECKING:
    from weft.decide.plans.planning import Planned
    from weft.domain.snapshot import PoolObservation


def needed_now(planned: Planned, seen: PoolObservation | None, want: int) -> int:
    """How many of `want` replicas are needed for what is measured, by the capacity of one; at least `minReplicas`.

    All of them where nobody measures, or requests wait: what a full pool answers is no demand.
    """
    capacity, rate = planned.capacity, _measured(seen)
    if seen is None or rate is None or not capacity.alone > 0.0 or _requests_wait(planned, seen):
        return want
    return min(want, max(planned.spec.scaling.min_replicas, capacity.needed(rate)))


def surely_needs_more(planned: Planned, seen: PoolObservation | None, have: int) -> bool:
    """Whether what is measured needs more than the replicas that it has; False where it is not measured in whole."""
    rate = _measured(seen)
    if seen is None or rate is None:
        return False
    return _requests_wait(planned, seen) or rate > planned.capacity.of(have)


def _measured(seen: PoolObservation | None) -> float | None:
    """Requests per second where all replicas tell, else None."""
    return seen.requests_per_second if seen is not None and seen.complete else None


def _requests_wait(planned: Planned, seen: PoolObservation) -> bool:
    return is_backlog(backlog(seen, planned.spec.role), seen.answered)
