"""Which other shapes a pool, or both halves of a split, could run on the accelerators that the cluster has now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.plans.facts import shape_request
from weft.domain.errors import Blocked, Invalid
from weft.shaping import Unpaired, choose, choose_pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.decide.plans.facts import Facts
    from weft.decide.plans.planning import Planned
    from weft.domain.shape import Candidate
    from weft.shaping import ShapeRequest


def alternatives_of(unit: Sequence[Planned], facts: Facts) -> list[tuple[Candidate, ...]]:
    """The alternatives of each pool, best first; empty where nothing can be chosen.

    They are chosen anew, because a persisted plan lists those of the time when it was chosen.
    """
    try:
        requests = [_request(planned, facts) for planned in unit]
        if len(requests) == 1:
            return [choose(requests[0], facts.catalog).alternatives]
    except (Invalid, Blocked):
        return [() for _ in unit]
    plans = choose_pair(requests[0], requests[1], facts.catalog)
    return [() for _ in unit] if isinstance(plans, Unpaired) else [plan.alternatives for plan in plans]


def _request(planned: Planned, facts: Facts) -> ShapeRequest:
    status = planned.pool.status
    request = shape_request(planned.spec, facts, status.plan, planned.plan.engine)
    return replace(request, calibration=status.calibration, managed=planned.managed)
