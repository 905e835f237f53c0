"""Which shape a pool left last, what one of its replicas served, and whether that alone is what it counts for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.reasons import Reason
from weft.domain.status import LeftShape
from weft.shaping import wish_of

if TYPE_CHECKING:
    from weft.decide.plans.planning import Planned
    from weft.domain.status import PoolStatus


def shape_left(planned: Planned, now: float) -> LeftShape | None:
    """The shape that the pool left last: that of its status, left `now`, where this plan is for another one."""
    status = planned.pool.status
    before = status.plan
    if before is None or before.shape == planned.plan.shape:
        return _as_many_for_one(status, planned)
    outgrown = planned.plan.verdict.reason is Reason.Outgrown
    served = planned.before.alone if planned.before is not None else 0.0
    return LeftShape(str(before.shape), now, wish_of(planned.spec), outgrown, status.revision, served)


def _as_many_for_one(status: PoolStatus, planned: Planned) -> LeftShape | None:
    """What its replicas serve changes with what those of the plan do, as where users edit what requests are like."""
    left, before = status.left_shape, status.plan
    now = planned.plan.prediction.capacity
    if left is None or before is None or not min(left.capacity, before.prediction.capacity, now) > 0.0:
        return left
    return replace(left, capacity=left.capacity * now / before.prediction.capacity)


def goes_by_what_it_serves(planned: Planned) -> bool:
    """Whether the plan leaves a shape that was too small, or goes back to it.

    Replicas of both shapes may differ widely in capacity, so their capacities alone say how many replace how many.
    """
    return planned.plan.verdict.reason is Reason.Outgrown or comes_back(planned)


def comes_back(planned: Planned) -> bool:
    """Whether the plan goes back to the shape that the pool left last because it was too small."""
    left = planned.pool.status.left_shape
    return left is not None and left.outgrown and left.shape == str(planned.plan.shape)
