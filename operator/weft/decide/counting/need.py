"""How many of the replicas that a pool wants its traffic needs now: the others are for what may come."""

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
    capacity, spec = planned.capacity, planned.spec
    if seen is None or not seen.complete or seen.requests_per_second is None or not capacity.alone > 0.0:
        return want
    if is_backlog(backlog(seen, spec.role), seen.answered):
        return want
    return min(want, max(spec.scaling.min_replicas, capacity.needed(seen.requests_per_second)))
