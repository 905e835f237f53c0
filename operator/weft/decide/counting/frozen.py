"""The count of a pool while `maxGPUs` pays for no replica of its planned shape: of what is there, which stays.

What scaling counts is in replicas of the planned shape, of which none may come. Told as it is, it would say of what
serves that it is none, and in `Auto` that it has just become none, in every pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.decide.counting.worth import paid_by
from weft.domain.reasons import Explanation, Reason
from weft.domain.scaling_spec import MOST_REPLICAS, ScalingMode
from weft.domain.texts.figures import counted
from weft.domain.values.changed import changed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.decide.plans.planning import Planned
    from weft.decide.replicas.health import AssignedReplica
    from weft.domain.pool_memory import ScaleMemory
    from weft.scaling import ScaleAnswer


def as_it_stays(
    answer: ScaleAnswer, planned: Planned, there: Sequence[AssignedReplica], before: ScaleMemory | None
) -> ScaleAnswer:
    """The answer with the count of what stays, and why it is that; news only where fewer do than in the last pass."""
    kept, was = _as_before(planned, there), planned.pool.status.desired_replicas
    if kept == answer.desired == answer.recommended:
        return answer
    held = Explanation(Reason.BudgetExhausted, f"held at {counted(kept, 'replica')}: {why_none_comes(answer)}")
    found = changed(answer, desired=kept, recommended=kept, explanation=held, changed=None)
    if kept < was and planned.spec.scaling.mode is ScalingMode.Auto:
        told = f"{was} -> {kept} replicas: more than that exceed maxGPUs or maxReplicas"
        return changed(found, changed=Explanation(Reason.ScaleDown, told))
    return changed(found, memory=changed(answer.memory, stepped=before.stepped if before else None))


def why_none_comes(answer: ScaleAnswer) -> str:
    """Why none comes: the budget of this pool, or that of the other half, is short."""
    short = answer.shortfall
    return short.message if short else "maxGPUs allows no replica of the other half's new shape"


def _as_before(planned: Planned, there: Sequence[AssignedReplica]) -> int:
    """The count while nothing may come, in replicas of what is there: all, unless fewer are wanted or paid for now."""
    scaling, status = planned.spec.scaling, planned.pool.status
    assigned = [each.assignment for each in there]
    before, wanted = max(status.desired_replicas, len(assigned)), MOST_REPLICAS
    if scaling.mode is ScalingMode.External and scaling.replicas is not None:
        wanted = scaling.replicas
    if (most := scaling.max_gpus) is not None and (paid := paid_by(most, assigned)) < len(assigned):
        ready = (each.assignment for each in there if each.ready)  # the others leave first
        before = max(paid, paid_by(most, ready))
    return min(before, scaling.max_replicas, wanted)
