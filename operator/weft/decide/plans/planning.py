"""What every pool shall run: its plan, its revision and what one replica serves under the traffic there is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.decide.plans.facts import kept_engine, shape_request
from weft.decide.plans.kept_shapes import left_lately, stays_in_its_shape
from weft.decide.plans.support import refuse_a_half_alone_over_nvlink, refuse_unsupported, refuse_what_the_engine_cannot
from weft.domain.calibration import CalibrationSubject
from weft.domain.capacity import Capacity
from weft.domain.errors import Blocked, Invalid
from weft.domain.reasons import Explanation, Reason
from weft.domain.values.changed import changed
from weft.domain.values.made_often import made_often
from weft.domain.values.remembered import LastAnswers
from weft.perf import estimated_start
from weft.render import revision
from weft.shaping import (
    ShapeRequest,
    Supply,
    capacity_of,
    choose,
    outline,
    planned_capacity,
    what_matters,
)

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.decide.plans.facts import Facts
    from weft.domain.calibration import Calibrated
    from weft.domain.shape import EngineRelease, Plan, Prediction
    from weft.domain.snapshot import PoolRecord
    from weft.domain.spec import PoolSpec
    from weft.domain.start_up import StartUp
    from weft.domain.status import LeftShape
    from weft.domain.workload import Workload

# Predictions that moved by less are the same: the persisted plan stays, and nothing is written.
NOTABLE_CHANGE = 0.05


@made_often
@dataclass(frozen=True, slots=True)
class Planned:
    """A pool with what it shall run, and what its metrics will be about.

    `capacity` is what replicas serve of the traffic in force and `declared` of what the user expects; `before` is that
    of the persisted plan's replicas, None without one. `start_up` is what a start should take. Their router, or
    that of their split, may be `managed`: of Weft's choice.
    """

    pool: PoolRecord
    spec: PoolSpec
    plan: Plan
    revision: str
    capacity: Capacity
    declared: Capacity
    before: Capacity | None
    subject: CalibrationSubject
    start_up: StartUp
    managed: bool = False

    def needed(self, requests_per_second: float) -> int:
        """Replicas for a rate with the user's headroom; the capacity is above 0."""
        return self.spec.scaling.needed(requests_per_second, self.capacity)

    @property
    def earlier(self) -> tuple[Plan, Capacity] | None:
        """The persisted plan, and what its replicas serve."""
        before = self.pool.status.plan
        return None if before is None or self.before is None else (before, self.before)

    def sharing_no_queue(self) -> Planned:
        """The same where a router does not go by load, whatever it is."""
        before = None if self.before is None else self.before.lone()
        return changed(self, managed=False, capacity=self.capacity.lone(), declared=self.declared.lone(), before=before)


@made_often
@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What the choice for one pool depends on beside the hardware; fields as in its status.

    `left` is the shape that it left within the hour; `managed` as in `Planned`.
    """

    spec: PoolSpec
    before: Plan | None
    engine: EngineRelease | None
    calibration: tuple[Calibrated, ...]
    paired: Plan | None
    left: LeftShape | None
    managed: bool


@dataclass(frozen=True, slots=True, eq=False)
class ChosenPlan:
    """What a pool shall run; `under_way` is what capacities are asked with, `declared` and `before` as in `Planned`."""

    under_way: ShapeRequest
    plan: Plan
    revision: str
    declared: Capacity
    before: Capacity | None
    subject: CalibrationSubject
    start_up: StartUp


REMEMBERED = 16_384  # pools
_LAST_CHOICE: LastAnswers[tuple[PlanInputs, tuple[Supply, ...], Catalog], ChosenPlan] = LastAnswers(REMEMBERED)
_LAST_CAPACITY: LastAnswers[tuple[ChosenPlan, Workload | None, Catalog], Capacity] = LastAnswers(REMEMBERED)


def plan_pool(
    pool: PoolRecord,
    facts: Facts,
    live: Workload | None = None,
    paired: Plan | None = None,
    *,
    managed: bool = False,
) -> Planned | Explanation:
    """The plan of a pool, or why there is none.

    `live` is the measured workload, which changes what a replica is expected to serve but never the shape: a shape
    follows what the user declared, so that neither noise nor a restart rolls a pool. `paired` is what was chosen for
    this half of a split together with the other; a pool of its own keeps the release in its status. The router before
    either may be `managed`: of Weft's choice.
    """
    if pool.spec is None:
        return pool.problem or Explanation(Reason.SpecInvalid, "the spec cannot be understood")
    status, left = pool.status, pool.status.left_shape
    if left is not None:
        left = left_lately(left, facts.now)
    asked = PlanInputs(
        _whoever_scales(pool.spec), status.plan, status.engine, status.calibration, paired, left, managed
    )
    try:
        chosen = _chosen_for(pool.key.uid, asked, facts)
        question = chosen, live, facts.catalog
        capacity = _LAST_CAPACITY.ask(pool.key.uid, question, lambda _: _capacity(chosen, live, facts.catalog))
    except (Invalid, Blocked) as error:
        return Explanation(error.reason, error.message)
    return Planned(
        pool,
        pool.spec,
        chosen.plan,
        chosen.revision,
        capacity,
        chosen.declared,
        chosen.before,
        chosen.subject,
        chosen.start_up,
        managed,
    )


def _whoever_scales(spec: PoolSpec) -> PoolSpec:
    """The spec without the replica count of External mode: it changes often, and nothing here depends on it."""
    return spec if spec.scaling.replicas is None else changed(spec, scaling=changed(spec.scaling, replicas=None))


def _chosen_for(pool_uid: str, asked: PlanInputs, facts: Facts) -> ChosenPlan:
    """What a pool shall run: what was chosen last time, as long as nothing that it depends on has changed."""
    supplies = facts.supplied(asked.spec.placement)
    if not supplies:
        return _chosen(asked, facts)  # which says why
    facts.refuse_unknown(asked.spec.placement)
    question = asked, supplies, facts.catalog
    return _LAST_CHOICE.ask(pool_uid, question, lambda _: _chosen(asked, facts))


def _chosen(asked: PlanInputs, facts: Facts) -> ChosenPlan:
    spec = asked.spec
    refuse_unsupported(spec)
    refuse_a_half_alone_over_nvlink(spec)
    release = asked.paired.engine if asked.paired else kept_engine(spec.engine, asked.engine, facts.catalog)
    request = shape_request(spec, facts, asked.before, release)
    stays = stays_in_its_shape(spec, asked.before, asked.left)
    request = replace(request, calibration=asked.calibration, stays=stays, managed=asked.managed)
    found = asked.paired or outline(request, facts.catalog)
    plan = _kept_or_new(asked.before, found)
    if plan is found and not asked.paired:
        plan = choose(request, facts.catalog)
    refuse_what_the_engine_cannot(spec, plan, request.architecture.checkpoint_precision)
    return _chosen_to_run(spec, request, plan, asked.before, facts.catalog)


def planned_for(
    planned: Planned, chosen: Plan, request: ShapeRequest, catalog: Catalog, live: Workload | None
) -> Planned:
    """A pool with what was chosen from this request, or its persisted plan if that is expected to do about the same.

    What replicas of the persisted plan serve stays what it was.
    """
    plan = _kept_or_new(planned.pool.status.plan, chosen)
    found = _chosen_to_run(planned.spec, request, plan, None, catalog)
    return changed(
        planned,
        plan=plan,
        revision=found.revision,
        capacity=_capacity(found, live, catalog),
        declared=found.declared,
        subject=found.subject,
        start_up=found.start_up,
        managed=request.managed,
    )


def _chosen_to_run(
    spec: PoolSpec, request: ShapeRequest, plan: Plan, before: Plan | None, catalog: Catalog
) -> ChosenPlan:
    """A plan with all that follows from it, and what replicas of the one `before` it serve."""
    under_way = _under_way(request, plan)
    return ChosenPlan(
        under_way=under_way,
        plan=plan,
        revision=revision(spec, plan),
        declared=_declared(under_way, plan, catalog),
        before=None if before is None else _declared(under_way, before, catalog),
        subject=CalibrationSubject.of(spec.model.model_id, plan.engine, plan.shape),
        start_up=estimated_start(request.architecture, plan, request.spec.model.source, catalog.starting),
    )


def _kept_or_new(before: Plan | None, chosen: Plan) -> Plan:
    """The persisted plan as long as the same shape on the same engine is expected to do about the same.

    What keeps a pool from a better shape is told anew once it is something else.
    """
    if before is None or (before.shape, before.engine) != (chosen.shape, chosen.engine):
        return chosen
    then, now = before.verdict, chosen.verdict
    if Reason.Frozen in (then.reason, now.reason) and then != now:
        return chosen
    if then.reason is not now.reason and Reason.HolesTooSmall in (then.reason, now.reason):
        return chosen
    return before if _is_alike(before.prediction, chosen.prediction) else chosen


def _is_alike(before: Prediction, now: Prediction) -> bool:
    pairs = (
        (before.capacity, now.capacity),
        (before.ttft.p95, now.ttft.p95),
        (before.tpot.p95, now.tpot.p95),
        (before.weight_bytes_per_gpu, now.weight_bytes_per_gpu),
        (before.kv_tokens, now.kv_tokens),
    )
    return before.limit == now.limit and all(abs(a - b) <= NOTABLE_CHANGE * max(abs(a), abs(b)) for a, b in pairs)


def _under_way(request: ShapeRequest, plan: Plan) -> ShapeRequest:
    """The part of the request that the capacity of a running plan depends on."""
    return what_matters(replace(request, incumbent=None, engine=plan.engine, stays=False))


def _declared(under_way: ShapeRequest, plan: Plan, catalog: Catalog) -> Capacity:
    """What replicas of a plan serve, with token counts as the user expects them."""
    if not under_way.managed:
        return Capacity(plan.prediction.capacity)
    try:
        return planned_capacity(plan, under_way, catalog)
    except (Invalid, Blocked):  # its devices have left the cluster, or the catalog
        return Capacity(plan.prediction.capacity)


def _capacity(chosen: ChosenPlan, live: Workload | None, catalog: Catalog) -> Capacity:
    """What replicas of the planned shape serve, with token counts as they are measured (`live`)."""
    declared, under_way = chosen.declared, chosen.under_way
    if live is None or live == under_way.workload:
        return declared
    try:
        found = capacity_of(chosen.plan, under_way, catalog, live)
    except (Invalid, Blocked):
        return declared.lone()
    return found if found.alone > 0.0 else declared.lone()  # traffic that no shape can serve must not stop the pool
