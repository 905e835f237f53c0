"""What replicas of an earlier shape count for beside those of the planned one: their GPUs (ADR 0071).

What they serve counts instead where that shape had too few places (ADR 0093). Where `maxGPUs` pays for none of the
planned shape, those that it pays for stay, and nothing comes.
"""

from __future__ import annotations

from itertools import accumulate
from math import ceil
from typing import TYPE_CHECKING

from weft.decide.plans.left_shapes import goes_by_what_it_serves

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.decide.plans.planning import Planned
    from weft.domain.shape import Plan
    from weft.domain.status import Assignment

ROUNDING = 1e-9  # of sums of shares


def share_of(assignment: Assignment, plan: Plan) -> float:
    """What a replica counts for: its GPUs over those of one of the planned shape, at most 1."""
    return min(1.0, assignment.gpus_per_pod * assignment.pods / plan.shape.gpus)


def share_beside(assignment: Assignment, planned: Planned) -> float:
    """The share as in `share_of`, but by capacity instead of GPUs where that is what counts; at most 1.

    By GPUs, many that serve little each would leave for a few that serve much, before those serve.
    """
    status, plan = planned.pool.status, planned.plan
    before, left, now = status.plan, status.left_shape, plan.prediction.capacity
    if before is not None and before.shape != plan.shape:
        if now > 0 and assignment.revision == status.revision and goes_by_what_it_serves(planned):
            return min(1.0, before.prediction.capacity / now)
    elif left is not None and left.capacity > 0 and assignment.revision == left.revision and now > 0:
        return min(1.0, left.capacity / now)
    return share_of(assignment, plan)


def worth(assignments: Iterable[Assignment], plan: Plan) -> int:
    """How many replicas of the planned shape these are worth, a part of one counted as one."""
    return ceil(sum(share_of(each, plan) for each in assignments) - ROUNDING)


def stays_for_want_of_budget(planned: Planned, assignments: Iterable[Assignment]) -> bool:
    """Whether `maxGPUs` pays for some of what there is, and for no replica of the planned shape."""
    most = planned.spec.scaling.max_gpus
    if most is None or most >= planned.plan.shape.gpus:
        return False
    return any(each.gpus_per_pod * each.pods <= most for each in assignments)


def paid_by(max_gpus: int, assignments: Iterable[Assignment]) -> int:
    """How many of them so many GPUs pay for, whichever those are: the larger ones are counted first."""
    sums = accumulate(sorted((each.gpus_per_pod * each.pods for each in assignments), reverse=True))
    return sum(each <= max_gpus for each in sums)
