"""Which shape a pool left last, and whether replicas of that and of the next one are weighed by what they serve."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.reasons import Reason
from weft.domain.status import LeftShape
from weft.shaping import wish_of

if TYPE_CHECKING:
    from weft.decide.plans.planning import Planned


def shape_left(planned: Planned, now: float) -> LeftShape | None:
    """The shape that the pool left last: that of its status, left `now`, where this plan is for another one."""
    status = planned.pool.status
    before = status.plan
    if before is None or before.shape == planned.plan.shape:
        return status.left_shape
    left = LeftShape(str(before.shape), now, wish_of(planned.spec))
    if not goes_by_what_it_serves(planned):
        return left
    outgrown = planned.plan.verdict.reason is Reason.Outgrown
    return replace(left, outgrown=outgrown, revision=status.revision, capacity=before.prediction.capacity)


def goes_by_what_it_serves(planned: Planned) -> bool:
    """Whether the plan leaves a shape that was too small, or goes back to it.

    Replicas of both shapes may differ widely in capacity, so their capacities say how many replace how many.
    """
    return planned.plan.verdict.reason is Reason.Outgrown or comes_back(planned)


def comes_back(planned: Planned) -> bool:
    """Whether the plan goes back to the shape that the pool left last because it was too small."""
    left = planned.pool.status.left_shape
    return left is not None and left.outgrown and left.shape == str(planned.plan.shape)
