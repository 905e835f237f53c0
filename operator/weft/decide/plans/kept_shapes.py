"""How long a pool keeps the shape that it has changed to (ADR 0088)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Reason
from weft.shaping import wish_of

if TYPE_CHECKING:
    from weft.domain.shape import Plan
    from weft.domain.spec import PoolSpec
    from weft.domain.status import LeftShape

# A new shape costs a start of every replica, so a pool does not change again within this time only to save GPUs.
SHAPE_STAYS_SECONDS = 3600.0


def left_lately(left: LeftShape | None, now: float) -> LeftShape | None:
    """The shape that was left, unless that is an hour ago or more."""
    return left if left is not None and 0 <= now - left.at < SHAPE_STAYS_SECONDS else None


def changes_in_seconds(left: LeftShape, now: float) -> float | None:
    """Seconds until a pool that left a shape may leave the one it has to save GPUs; None once it may."""
    return None if left_lately(left, now) is None else left.at + SHAPE_STAYS_SECONDS - now


def stays_in_its_shape(spec: PoolSpec, before: Plan | None, left: LeftShape | None) -> bool:
    """Whether a pool that `left` a shape within the hour keeps the one it has now, for all that others would save.

    Not where its spec wishes for something else since, or where it has a smaller one for want of room or as it was
    frozen in it.
    """
    if left is None or before is None or before.verdict.reason in (Reason.HolesTooSmall, Reason.Frozen):
        return False
    return left.wish == wish_of(spec)
