"""What every pool shall run: its plan, its revision and what one replica serves under the traffic there is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from weft.decide.kept_shapes import left_lately, stays_in_its_shape
from weft.decide.support import refuse_a_half_alone_over_nvlink, refuse_unsupported, refuse_what_the_engine_cannot
from weft.domain.calibration import Subject
from weft.domain.changed import changed
from weft.domain.errors import Blocked, Invalid
from weft.domain.made_often import made_often
from weft.domain.reasons import Explanation, Reason
from weft.domain.remembered import LastAnswers
from weft.domain.shape import Candidate
from weft.domain.spec import ShapePins
from weft.perf import estimated_start
from weft.placement import no_supplier, suppliers
from weft.render import revision
from weft.shaping import (
    ShapeRequest,
    Supply,
    capacity_of,
    choose,
    outline,
    refuse_lengths,
    resolve_architecture,
    what_matters,
)

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.domain.calibration import Calibrated
    from weft.domain.fabric import Fabric
    from weft.domain.shape import EngineRelease, Plan, Prediction, Shape
    from weft.domain.snapshot import PoolRecord
    from weft.domain.spec import EngineSpec, PlacementSpec, PoolSpec
    from weft.domain.start_up import StartUp
    from weft.domain.status import LeftShape
    from weft.domain.workload import Workload

# Predictions that moved by less are the same: the persisted plan stays, and nothing is written.
NOTABLE_CHANGE = 0.05
# Of one NVLink domain: a node that tells of more is wrong, and shapes of every size up to that are looked at.
MOST_GPUS = 4096


@dataclass(frozen=True, slots=True)
class Facts:
    """What planning reads beside the pool itself. `supplies` keeps what was found for each placement in this pass.

    `now` is epoch seconds, or 0 where nothing runs whose shape may have changed lately.
    """

    fabric: Fabric
    catalog: Catalog
    supplies: dict[PlacementSpec, tuple[Supply, ...]] = field(default_factory=dict, compare=False)
    now: float = 0.0

    def supplies_for(self, placement: PlacementSpec) -> tuple[Supply, ...]:
        """What a pool with this placement could use, free or not.

        Raises `Invalid` (SpecInvalid) for a name that the catalog lacks, `Blocked` (NoAccelerator) for nothing.
        """
        self._refuse_unknown(placement)
        if not self.supplied(placement):
            why = no_supplier(self.fabric, placement)
            raise Blocked(why.reason, why.message)
        return self.supplies[placement]

    def supplied(self, placement: PlacementSpec) -> bool:
        """Whether a pool with this placement could use anything, free or not."""
        if placement not in self.supplies:
            self.supplies[placement] = tuple(
                Supply(
                    each.accelerator,
                    each.memory_bytes,
                    min(each.largest_domain_gpus, MOST_GPUS),
                    min(each.gpus_per_node, MOST_GPUS),
                    each.shared,
                    alone=_is_alone(each.accelerator, self.fabric),
                )
                for each in suppliers(self.fabric, placement)
            )
        return bool(self.supplies[placement])

    def _refuse_unknown(self, placement: PlacementSpec) -> None:
        for name in placement.accelerators:
            try:
                self.catalog.accelerator(name)
            except Invalid as error:
                raise Invalid(Reason.SpecInvalid, f"spec.placement.accelerators: {error.message}") from None


@made_often
@dataclass(frozen=True, slots=True)
class Planned:
    """A pool with what it shall run, and what its metrics will be about.

    `capacity` is requests per second of one replica under the traffic in force, `start_up` what a start should take.
    """

    pool: PoolRecord
    spec: PoolSpec
    plan: Plan
    revision: str
    capacity: float
    subject: Subject
    start_up: StartUp


@made_often
@dataclass(frozen=True, slots=True)
class Asked:
    """What the choice for one pool depends on beside the hardware; fields as in its status.

    `left` is the shape that it left within the hour.
    """

    spec: PoolSpec
    before: Plan | None
    engine: EngineRelease | None
    calibration: tuple[Calibrated, ...]
    paired: Plan | None
    left: LeftShape | None


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """What a pool shall run, and the request that it answers; `under_way` is what capacities are asked with."""

    request: ShapeRequest
    under_way: ShapeRequest
    plan: Plan
    revision: str
    subject: Subject
    start_up: StartUp


REMEMBERED = 16_384  # pools
_LAST_CHOICE: LastAnswers[tuple[Asked, tuple[Supply, ...], Catalog], Chosen] = LastAnswers(REMEMBERED)
_LAST_CAPACITY: LastAnswers[tuple[Chosen, Workload | None, Catalog], float] = LastAnswers(REMEMBERED)


def plan_pool(
    pool: PoolRecord, facts: Facts, live: Workload | None = None, paired: Plan | None = None
) -> Planned | Explanation:
    """The plan of a pool, or why there is none.

    `live` is the measured workload, which changes what a replica is expected to serve but never the shape: a shape
    follows what the user declared, so that neither noise nor a restart rolls a pool. `paired` is what was chosen for
    this half of a split together with the other; a pool of its own keeps the release in its status.
    """
    if pool.spec is None:
        return pool.problem or Explanation(Reason.SpecInvalid, "the spec cannot be understood")
    status, left = pool.status, pool.status.left_shape
    if left is not None:
        left = left_lately(left, facts.now)
    asked = Asked(_whoever_scales(pool.spec), status.plan, status.engine, status.calibration, paired, left)
    try:
        chosen = _chosen_for(pool.key.uid, asked, facts)
        capacity = _LAST_CAPACITY.ask(pool.key.uid, (chosen, live, facts.catalog), _capacity_of)
        return Planned(pool, pool.spec, chosen.plan, chosen.revision, capacity, chosen.subject, chosen.start_up)
    except (Invalid, Blocked) as error:
        return Explanation(error.reason, error.message)


def _whoever_scales(spec: PoolSpec) -> PoolSpec:
    """The spec without the replica count of External mode: it changes often, and nothing here depends on it."""
    return spec if spec.scaling.replicas is None else changed(spec, scaling=changed(spec.scaling, replicas=None))


def _chosen_for(pool_uid: str, asked: Asked, facts: Facts) -> Chosen:
    """What a pool shall run: what was chosen last time, as long as nothing that it depends on has changed."""
    if not facts.supplied(asked.spec.placement):
        return _chosen(asked, facts)  # which says why
    question = asked, facts.supplies_for(asked.spec.placement), facts.catalog
    return _LAST_CHOICE.ask(pool_uid, question, lambda _: _chosen(asked, facts))


def _chosen(asked: Asked, facts: Facts) -> Chosen:
    spec = asked.spec
    refuse_unsupported(spec)
    refuse_a_half_alone_over_nvlink(spec)
    release = asked.paired.engine if asked.paired else kept_engine(spec.engine, asked.engine, facts.catalog)
    request = shape_request(spec, facts, asked.before, release)
    request = replace(request, calibration=asked.calibration, stays=stays_in_its_shape(spec, asked.before, asked.left))
    found = asked.paired or outline(request, facts.catalog)
    plan = _kept_or_new(asked.before, found)
    if plan is found and not asked.paired:
        plan = choose(request, facts.catalog)
    refuse_what_the_engine_cannot(spec, plan, request.architecture.checkpoint_precision)
    under_way, start_up = _under_way(request, plan), _start_up(request, plan, facts.catalog)
    return Chosen(request, under_way, plan, revision(spec, plan), _subject(spec, plan), start_up)


@dataclass(frozen=True, slots=True)
class Wish:
    """A shape that is no choice of the planner's, and why it is taken all the same."""

    shape: Shape
    why: Explanation


def plan_as(planned: Planned, wish: Wish, facts: Facts, live: Workload | None) -> Planned | None:
    """The same pool in another shape; None where its spec, the model or the engine does not allow that."""
    if not allows(planned.spec, wish.shape):
        return None
    try:
        request = request_as(planned, wish, facts)
        chosen = choose(request, facts.catalog)
        refuse_what_the_engine_cannot(planned.spec, chosen, request.architecture.checkpoint_precision)
    except (Invalid, Blocked):
        return None
    return planned_as(planned, chosen, wish, request, (facts.catalog, live))


def request_as(planned: Planned, wish: Wish | None, facts: Facts) -> ShapeRequest:
    """What the plan is chosen from where only the wished shape is left; raises as `shape_request` does."""
    spec = planned.spec if wish is None else pinned_to(planned.spec, wish.shape)
    request = shape_request(spec, facts, None, planned.plan.engine)
    return replace(request, calibration=planned.pool.status.calibration)


def planned_as(
    planned: Planned, chosen: Plan, wish: Wish | None, request: ShapeRequest, terms: tuple[Catalog, Workload | None]
) -> Planned | None:
    """The pool with what was chosen instead, beside what would be better; None if it misses a target that is met now.

    `terms` are the catalog and the live workload.
    """
    pool, spec, best = planned.pool, planned.spec, planned.plan
    if chosen.verdict.reason is Reason.BestEffort and best.verdict.reason is not Reason.BestEffort:
        return None
    if wish is not None:
        others = (each for each in best.alternatives if each.shape != wish.shape)
        better = Candidate(best.shape, Explanation(Reason.NoSlot, wish.why.message), best.prediction)
        told = (*([better] if best.shape != wish.shape else []), *others)
        chosen = replace(chosen, verdict=wish.why, alternatives=told[: len(best.alternatives)])
    plan = _kept_or_new(pool.status.plan, chosen)
    catalog, live = terms
    capacity = _capacity(_under_way(request, plan), plan, live, catalog)
    start_up = _start_up(request, plan, catalog)
    return Planned(pool, spec, plan, revision(spec, plan), capacity, _subject(spec, plan), start_up)


def _is_alone(accelerator: str, fabric: Fabric) -> bool:
    """Whether fewer than two NVLink domains have this accelerator, so that nothing can spread over them."""
    found = (domain for domain in fabric.domains if domain.accelerator == accelerator)
    return len(tuple(islice(found, 2))) < 2  # noqa: PLR2004 - a second one


def _subject(spec: PoolSpec, plan: Plan) -> Subject:
    return Subject.of(spec.model.model_id, plan.engine, plan.shape)


def _start_up(request: ShapeRequest, plan: Plan, catalog: Catalog) -> StartUp:
    return estimated_start(request.architecture, plan, request.spec.model.source, catalog.starting)


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


def kept_engine(wish: EngineSpec, release: EngineRelease | None, catalog: Catalog) -> EngineRelease | None:
    """The release in status as long as the spec asks for no other: an operator upgrade changes no image.

    An image that only the spec could have named goes with the spec's wish for it; the version stays.
    """
    if release is None or wish.name not in {None, release.name} or wish.version not in {None, release.version}:
        return None
    if wish.image is not None:
        return replace(release, image=wish.image)
    known = [image.format(version=release.version) for _, image in catalog.engine(release.name).images]
    return release if release.image in known else replace(release, image=known[0])


def shape_request(spec: PoolSpec, facts: Facts, incumbent: Plan | None, engine: EngineRelease | None) -> ShapeRequest:
    """What a shape is chosen from.

    Raises `Invalid` for a model or an accelerator that nobody knows and for lengths that the model does not take, and
    `Blocked` where there is no hardware.
    """
    architecture = resolve_architecture(spec.model, facts.catalog)
    refuse_lengths(spec, architecture)
    return ShapeRequest(
        spec=spec,
        architecture=architecture,
        workload=spec.workload,
        supplies=facts.supplies_for(spec.placement),
        incumbent=incumbent,
        engine=engine,
    )


def _kept_or_new(before: Plan | None, chosen: Plan) -> Plan:
    """The persisted plan as long as the same shape on the same engine is expected to do about the same."""
    if before is None or (before.shape, before.engine) != (chosen.shape, chosen.engine):
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


def _capacity_of(question: tuple[Chosen, Workload | None, Catalog]) -> float:
    chosen, live, catalog = question
    return _capacity(chosen.under_way, chosen.plan, live, catalog)


def _under_way(request: ShapeRequest, plan: Plan) -> ShapeRequest:
    """The part of the request that the capacity of a running plan depends on."""
    return what_matters(replace(request, incumbent=None, engine=plan.engine, stays=False))


def _capacity(under_way: ShapeRequest, plan: Plan, live: Workload | None, catalog: Catalog) -> float:
    """Requests per second of one replica of the planned shape, with token counts as they are measured."""
    if live is None or live == under_way.workload:
        return plan.prediction.capacity
    try:
        found = capacity_of(plan, under_way, catalog, live)
    except (Invalid, Blocked):
        found = 0.0
    return found or plan.prediction.capacity  # live traffic that no shape can serve must not stop the pool
