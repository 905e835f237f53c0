"""What replicas of an earlier shape count for beside those of the planned one (ADR 0071, 0121).

In a rollout it is their GPUs or what they serve, whichever is less; in budgets their GPUs. Where `maxGPUs` pays for no
replica of the planned shape, those that it pays for stay, and nothing comes.
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
    """What a replica of an earlier shape counts for beside those of the plan: its GPUs, or what it serves if less.

    By GPUs, many that serve little each would leave for a few that serve much, before those serve. By what it serves
    alone where that shape was too small (ADR 0093). Of shapes before the last one it is not known what they serve.
    """
    by_gpus, now = share_of(assignment, planned.plan), planned.declared.alone
    serves, alone = _serves(assignment, planned)
    if min(serves, now) <= 0.0:
        return by_gpus
    return min(1.0 if alone else by_gpus, serves / now)


def _serves(assignment: Assignment, planned: Planned) -> tuple[float, bool]:
    """Requests a second of a replica of the last shape, or 0, and whether they alone count."""
    status = planned.pool.status
    before, left = status.plan, status.left_shape
    if before is not None and before.shape != planned.plan.shape:
        known = planned.before if assignment.revision == status.revision else None
        return (known.alone if known else 0.0), goes_by_what_it_serves(planned)
    known_before = left is not None and assignment.revision == left.revision
    return (left.capacity, left.outgrown) if left is not None and known_before else (0.0, False)


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
