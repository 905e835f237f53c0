"""What is shown beside a plan: cost per token, saturation, and what other targets, engines and forms would take."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.decide.plans.facts import Facts, shape_request
from weft.decide.plans.support import refuse_a_front_of_pairs
from weft.domain.errors import WeftError
from weft.domain.reasons import Reason
from weft.domain.spec import RouterKind, RouterSpec, ShapePins
from weft.domain.workload import Role
from weft.engines.kv.handover import wire_of
from weft.fabric import build_fabric
from weft.perf import knee
from weft.perf.service import Point, service
from weft.shaping import Unpaired, choose_pair, planned_capacity
from weft.shaping.candidates import wished_engines
from weft.shaping.outlook import DomainStep, Variation, domain_steps, largest_useful_domain, tried, variations
from weft.shaping.request import Partner
from weft.shaping.running import modelled

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from weft.catalog import Catalog
    from weft.cli.cluster.world import World
    from weft.cli.plan.planning import PlannedResource
    from weft.domain.capacity import Capacity
    from weft.domain.fabric import Fabric
    from weft.domain.shape import EngineName, Plan, Shape
    from weft.domain.snapshot import PoolRecord
    from weft.perf import ReplicaModel
    from weft.shaping import ShapeRequest

_PER_MILLION, _SECONDS_PER_HOUR = 1e6, 3600.0
_HALVES = 2


@dataclass(frozen=True, slots=True)
class Bill:
    """Replicas that run for the declared rate. `cost` is relative (an H100 is 1); costs of tokens are in H100-hours."""

    replicas: int
    gpus: int
    cost: float
    per_million_tokens: float
    per_million_output_tokens: float
    served: float = 1.0  # fraction of the declared rate, by as many replicas as are allowed


@dataclass(frozen=True, slots=True)
class OtherForm:
    """The same workload in the other form: `shapes` in words, the cost, and the fraction of the rate that it serves.

    `lacks` says of which GPUs the fabric has fewer than it takes; None where it has all.
    """

    name: str
    shapes: str
    cost: float
    served: float = 1.0
    lacks: str | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """The other form with its plans, one for a pool and two for a split, and how many GPUs of which kind it takes."""

    told: OtherForm
    plans: tuple[Plan, ...]
    gpus: Counter[str]

    def beside(self, fabric: Fabric) -> Form:
        """The form, told what it lacks: GPUs of a fabric count whether busy or free, as for the planned form."""
        has = Counter[str]()
        for domain in fabric.domains:
            has[domain.accelerator] += domain.total
        lacking = [
            f"{gpus} {name} and the fabric has {has[name]}" for name, gpus in self.gpus.items() if gpus > has[name]
        ]
        lacks = f"it needs {', '.join(lacking)}" if lacking else None
        return replace(self, told=replace(self.told, lacks=lacks))


@dataclass(frozen=True, slots=True)
class OtherEngine:
    """What an engine that Weft does not launch yet would take."""

    engine: EngineName
    shape: Shape
    gpus: int
    cost: float
    meets_slo: bool
    served: float = 1.0  # fraction of the rate


@dataclass(frozen=True, slots=True)
class Study:
    """Everything about one pool's plan that its status has no room for. Rates are requests per second of a replica."""

    request: ShapeRequest
    plan: Plan
    replica: ReplicaModel
    bill: Bill
    rate: float
    knee: float
    variations: tuple[Variation, ...]
    engines: tuple[OtherEngine, ...]
    capacity: Capacity

    @property
    def operating_point(self) -> Point | None:
        """The replica at the rate that it gets; None where it cannot keep up."""
        return service(self.replica, self.request.workload, self.request.spec.role).at_rate(self.rate)


def studied(planned: PlannedResource, world: World, catalog: Catalog) -> dict[str, Study]:
    """Study each pool that has a plan; returned by the pool's name."""
    facts = Facts(build_fabric(world.nodes, world.pods, catalog, world.reports), catalog)
    plans = {pool.key.name: decision.status.plan for pool, decision in planned.pools}
    studies = {}
    for pool, decision in planned.pools:
        others = [plan for name, plan in plans.items() if name != pool.key.name and plan is not None]
        if decision.status.plan is not None and pool.spec is not None:
            request = _asked(pool, facts, others[0] if others else None)
            request = replace(request, managed=planned.managed)
            studies[pool.key.name] = _study(request, decision.status.plan, catalog)
    return studies


def _asked(pool: PoolRecord, facts: Facts, other: Plan | None) -> ShapeRequest:
    if pool.spec is None:
        raise ValueError("a pool without a spec has no plan")
    request = shape_request(pool.spec, facts, None, None)
    if other is None:
        return request
    generation = facts.catalog.accelerator(other.shape.accelerator).generation
    return replace(request, partner=Partner(generation, other.engine.name, other.shape))


def _study(request: ShapeRequest, plan: Plan, catalog: Catalog) -> Study:
    bill = billed(plan, request, catalog)
    replica = modelled(request, plan.shape, catalog)
    return Study(
        request=request,
        plan=plan,
        replica=replica,
        bill=bill,
        rate=request.workload.requests_per_second * bill.served / bill.replicas,
        knee=knee(replica, request.workload, request.spec.role),
        variations=variations(replace(request, engine=plan.engine), catalog),
        engines=_other_engines(request, catalog),
        capacity=planned_capacity(plan, request, catalog),
    )


def whole_cost(studies: Collection[Study]) -> float:
    """Return the cost of a resource: of one pool, or of both halves of a split."""
    return sum(study.bill.cost for study in studies)


def whole_served(studies: Collection[Study]) -> float:
    """Return the fraction of the declared rate that a resource serves: the smaller one of a split's halves."""
    return min((study.bill.served for study in studies), default=1.0)


def billed(plan: Plan, request: ShapeRequest, catalog: Catalog) -> Bill:
    """Return what the declared rate takes of a plan's replicas; costs per token are of the tokens that they serve."""
    workload, capacity = request.workload, planned_capacity(plan, request, catalog)
    scaling, shape = request.spec.scaling, plan.shape
    replicas = scaling.running(workload.requests_per_second, capacity, shape.gpus, shape.pods)
    gpus = replicas * shape.gpus
    cost = gpus * catalog.accelerator(plan.shape.accelerator).cost
    rate = min(workload.requests_per_second, capacity.of(replicas))
    served = rate * _SECONDS_PER_HOUR / _PER_MILLION
    part = rate / workload.requests_per_second if workload.requests_per_second > 0 else 1.0
    tokens = {
        Role.Aggregated: workload.input_tokens + workload.output_tokens,
        Role.Prefill: workload.input_tokens,
        Role.Decode: workload.output_tokens,
    }[request.spec.role]
    return Bill(replicas, gpus, cost, _per(cost, served * tokens), _per(cost, served * workload.output_tokens), part)


def _per(cost: float, millions: float) -> float:
    return cost / millions if millions > 0 else 0.0


def _other_engines(request: ShapeRequest, catalog: Catalog) -> tuple[OtherEngine, ...]:
    """Return other engines, only where the engine is left open and for a pool alone: halves of a split share theirs."""
    if request.spec.engine.name is not None or request.spec.engine.version is not None or request.partner is not None:
        return ()
    known = wished_engines(request, catalog)
    found = []
    for engine in (facts.name for facts in catalog.engines if facts.name not in known):
        spec = replace(request.spec, engine=replace(request.spec.engine, name=engine))
        chosen = tried(replace(request, spec=spec), catalog)
        if chosen is not None:
            scored = chosen.scored
            gpus = scored.replicas * scored.shape.gpus
            found.append(OtherEngine(engine, scored.shape, gpus, scored.cost, scored.meets_slo, scored.served))
    return tuple(found)


def other_form(studies: dict[str, Study], catalog: Catalog) -> Form | None:
    """Plan a pool as a split, or a split as a pool; None where that is impossible, or the shape is pinned."""
    requests = [replace(study.request, partner=None) for study in studies.values()]
    if not requests or any(request.spec.shape != ShapePins() for request in requests):
        return None
    if len(requests) > 1:
        return _as_a_pool(requests[0], catalog)
    return _as_a_split(requests[0], catalog) if requests[0].spec.role is Role.Aggregated else None


def _as_a_pool(request: ShapeRequest, catalog: Catalog) -> Form | None:
    """Plan one pool of replicas that do both prefill and decode."""
    aggregated = replace(request, spec=replace(request.spec, role=Role.Aggregated))
    found = tried(aggregated, catalog)
    if found is None or not found.scored.meets_slo:
        return None
    bill = billed(found.plan, aggregated, catalog)
    told = OtherForm("InferencePool", f"{bill.replicas} x {found.plan.shape}", bill.cost, bill.served)
    return Form(told, (found.plan,), Counter({found.plan.shape.accelerator: bill.gpus}))


def _as_a_split(request: ShapeRequest, catalog: Catalog) -> Form | None:
    """Plan separate pools for prefill and decode."""
    behind = replace(request, managed=True)
    halves = [replace(behind, spec=replace(request.spec, role=role)) for role in (Role.Prefill, Role.Decode)]
    return _as_halves(halves, catalog)


def over_rdma(studies: dict[str, Study], catalog: Catalog) -> OtherForm | None:
    """Plan a split whose KV goes over TCP as one that has devices for RDMA; None for all else."""
    requests = [replace(study.request, partner=None) for study in studies.values()]
    if len(requests) < _HALVES or any(wire_of(request.spec) != "TCP" for request in requests):
        return None
    wide = [replace(each, spec=replace(each.spec, kv=replace(each.spec.kv, transport="RDMA"))) for each in requests]
    found = _as_halves(wide, catalog)
    return found.told if found is not None else None


def _as_halves(halves: Sequence[ShapeRequest], catalog: Catalog) -> Form | None:
    """Plan these two halves together; None where no two shapes meet the SLO."""
    try:
        plans = choose_pair(halves[0], halves[1], catalog)
        if not isinstance(plans, Unpaired):
            refuse_a_front_of_pairs(RouterSpec(RouterKind.Managed), plans[0].engine.name)
    except WeftError:
        return None
    if isinstance(plans, Unpaired) or any(plan.verdict.reason is Reason.BestEffort for plan in plans):
        return None
    bills = [billed(plan, half, catalog) for plan, half in zip(plans, halves, strict=True)]
    words = f"prefill {bills[0].replicas} x {plans[0].shape}, decode {bills[1].replicas} x {plans[1].shape}"
    served = min(bill.served for bill in bills)
    told = OtherForm("PDSplit", words, sum(bill.cost for bill in bills), served)
    gpus = Counter[str]()
    for bill, plan in zip(bills, plans, strict=True):
        gpus[plan.shape.accelerator] += bill.gpus
    return Form(told, plans, gpus)


def domains(study: Study, catalog: Catalog) -> tuple[tuple[DomainStep, ...], int | None]:
    """Return the cost with NVLink domains of each size, and the size beyond which a larger one buys nothing."""
    steps = domain_steps(study.request, catalog)
    return steps, largest_useful_domain(steps)
