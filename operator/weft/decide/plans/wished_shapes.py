"""Pools planned in a shape that is no choice of the planner's: for want of room, or because they outgrew theirs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.decide.plans.facts import shape_request
from weft.decide.plans.planning import planned_for
from weft.decide.plans.support import refuse_what_the_engine_cannot
from weft.domain.errors import Blocked, Invalid
from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import Candidate
from weft.domain.spec import ShapePins
from weft.shaping import choose

if TYPE_CHECKING:
    from weft.decide.plans.facts import Facts
    from weft.decide.plans.planning import Planned
    from weft.domain.shape import Plan, Shape
    from weft.domain.spec import PoolSpec
    from weft.domain.workload import Workload
    from weft.shaping import ShapeRequest, Supply


@dataclass(frozen=True, slots=True)
class WishedShape:
    """A shape that is no choice of the planner's, and why it is taken all the same."""

    shape: Shape
    why: Explanation


def plan_as(planned: Planned, wish: WishedShape, facts: Facts, live: Workload | None) -> Planned | None:
    """The same pool in another shape; None where its spec, the model or the engine does not allow that."""
    if not allows(planned.spec, wish.shape):
        return None
    try:
        request = request_as(planned, wish, facts)
        chosen = choose(request, facts.catalog)
        refuse_what_the_engine_cannot(planned.spec, chosen, request.architecture.checkpoint_precision)
    except (Invalid, Blocked):
        return None
    taken = taken_instead(planned.plan, chosen, wish)
    return None if taken is None else planned_for(planned, taken, request, facts.catalog, live)


def request_as(planned: Planned, wish: WishedShape | None, facts: Facts) -> ShapeRequest:
    """What the plan is chosen from where only the wished shape is left; raises as `shape_request` does."""
    spec = planned.spec if wish is None else pinned_to(planned.spec, wish.shape)
    request = shape_request(spec, facts, None, planned.plan.engine)
    if wish is not None:
        request = replace(request, supplies=_of_its_pods(wish.shape, request.supplies))
    return replace(request, calibration=planned.pool.status.calibration, managed=planned.managed)


def _of_its_pods(shape: Shape, supplies: tuple[Supply, ...]) -> tuple[Supply, ...]:
    """The supply of the smallest nodes that hold a pod of the shape: on larger ones the same sizes have other pods."""
    holding = (each for each in supplies if each.gpus_per_node >= shape.gpus_per_pod)
    found = min(holding, key=lambda each: each.gpus_per_node, default=None)
    return supplies if found is None else (found,)


def taken_instead(best: Plan, chosen: Plan, wish: WishedShape | None) -> Plan | None:
    """What was chosen instead of the best, with why and beside what would be better.

    None if it misses a target that the best one meets.
    """
    if chosen.verdict.reason is Reason.BestEffort and best.verdict.reason is not Reason.BestEffort:
        return None
    if wish is None:
        return chosen
    others = (each for each in best.alternatives if each.shape != wish.shape)
    better = Candidate(best.shape, Explanation(Reason.NoSlot, wish.why.message), best.prediction)
    told = (*([better] if best.shape != wish.shape else []), *others)
    return replace(chosen, verdict=wish.why, alternatives=told[: len(best.alternatives)])


def allows(spec: PoolSpec, shape: Shape) -> bool:
    """Whether the spec leaves the choice of this shape to Weft."""
    precisions = (spec.model.precision,) if spec.model.precision else spec.model.precisions
    return (
        spec.placement.allows(shape.accelerator)
        and spec.engine.name in {None, shape.engine}
        and (not precisions or shape.precision in precisions)
        and spec.shape.allow(shape)
    )


def pinned_to(spec: PoolSpec, shape: Shape) -> PoolSpec:
    """The spec pinned to this shape, its precision and its accelerator."""
    return replace(
        spec,
        shape=ShapePins.of(shape),
        model=replace(spec.model, precision=shape.precision, precisions=()),
        placement=replace(spec.placement, accelerators=(shape.accelerator,)),
    )
