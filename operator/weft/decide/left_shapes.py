"""Which shape a pool left last, and whether its replicas count by what they serve beside those of the next one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.reasons import Reason
from weft.domain.status import LeftShape
from weft.shaping import wish_of

if TYPE_CHECKING:
    from weft.decide.planning import Planned


def shape_left(planned: Planned, now: float) -> LeftShape | None:
    """What the pool left last, if this plan is for another shape than before: that one, now."""
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
    """Whether a pool that changes its shape leaves one that is too small, or goes back to that.

    Replicas of one and the other may serve far more or less, so that it goes by that how many make up for how many.
    """
    return planned.plan.verdict.reason is Reason.Outgrown or comes_back(planned)


def comes_back(planned: Planned) -> bool:
    """Whether this is the shape that the pool left last, as that was too small."""
    left = planned.pool.status.left_shape
    return left is not None and left.outgrown and left.shape == str(planned.plan.shape)
