"""One InferencePool: make its pods match its assignments."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, TypeVar

from weft.converge.answer import Convergence
from weft.converge.census import Census
from weft.converge.conditions import pool_conditions
from weft.converge.departures import Departures
from weft.converge.domains import delete_left_over
from weft.converge.engine_fronts import EngineFronts, engine_at_a_gateway, engine_of
from weft.converge.objects import OF_GATEWAYS, OF_ROUTERS
from weft.converge.observed_pool import ObservedPool
from weft.converge.phases import with_phases
from weft.converge.relabelling import Relabelling
from weft.converge.replicas import every_pod_is_asked
from weft.converge.serving import before_routers, front_trouble, route_trouble, service_trouble
from weft.converge.starting import create_missing, release_whole, waits_for_domain
from weft.domain import labels
from weft.domain.errors import Blocked, Invalid
from weft.domain.reasons import Explanation
from weft.domain.spec import RouterKind
from weft.domain.status import PoolProgress
from weft.engines import adapter_for, engine_label
from weft.render import (
    ENDPOINTS,
    leader_selector,
    pool_labels,
    render_disruption_budget,
    render_endpoints,
    render_front,
    render_front_budgets,
    render_ranks_service,
    render_route,
    render_service,
    routed_selector,
    service_url,
    show_chosen,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from weft.converge.leaving import Heard
    from weft.converge.objects import Kind, ObjectsAround
    from weft.converge.replicas import Replica
    from weft.domain.cluster import ObjectRecord, PodRecord
    from weft.domain.fabric import Fabric
    from weft.domain.shape import Plan
    from weft.domain.snapshot import PoolRecord, ResourceKey
    from weft.domain.spec import Pairs, PoolSpec
    from weft.render import Json

T = TypeVar("T")


def converge_pool(
    pool: PoolRecord,
    fabric: Fabric,
    pods: Iterable[PodRecord],
    objects: Iterable[ObjectRecord],
    heard: Heard,
) -> Convergence[PoolProgress]:
    """Actions that bring the pool's pods and objects to its status.

    First what keeps requests safe (unroute, delete), then what pods need (Services, budget, front), then the release of
    replicas that are whole, and last new pods: while a replica waits for its release, others may take its place. `pods`
    may be everyone's; `objects` those of the namespace. A pool that is being deleted is left to garbage collection.
    Words about starting replicas, and which leaving ones are done, depend on `heard`.
    """
    observed = ObservedPool.at(pool, fabric, pods, objects, heard)
    replicas, around = observed.replicas, observed.around
    if pool.deleting:
        return Convergence((), _progress(pool, Census.of(pool, replicas), None, None))
    fronts = EngineFronts.of(pool, replicas, around)
    departures, edited = Departures.of(observed, fronts), Relabelling.of(pool, replicas, heard.now)
    trouble = _front_trouble(pool, around, fronts)
    awaited = before_routers(around, trouble) if pool.router_kind is RouterKind.Managed else None
    directly = awaited is not None
    wanted, front_refused = _or_refusal(
        lambda: (
            *wanted_objects(pool, replicas, fronts, directly=directly),
            *(_way_by_a_gateway(pool, replicas, around) if directly else ()),
        )
    )
    created, pods_refused = _or_refusal(lambda: tuple(create_missing(pool, replicas, around)))
    knows_what_is_wanted = front_refused is None and _can_be_read(pool)
    chosen = [each for each in wanted if _is_picked(each) and around.at(each) is not None]
    others = [each for each in wanted if each not in chosen]
    actions = (
        *around.apply(chosen),  # before a picker loses those that leave, it is shown who stays
        *departures.actions(),
        *edited.actions,
        *delete_left_over(replicas, around),
        *around.apply(others),
        *(around.delete_unwanted(wanted, _spared(wanted, around, directly=directly)) if knows_what_is_wanted else ()),
        *release_whole(pool, replicas, fabric, around),
        *created,
    )
    census, phases = _counted(observed, fronts, departures)
    census = replace(census, awaited=awaited)
    again = _soonest(phases, departures.changes_after_seconds, edited.changes_after_seconds)
    named = None if _is_routed_to(pool) or pool.split_uid is not None else service_trouble(around)
    unreached = around.taken_way(wanted) or (None if directly else trouble) or named
    refused = front_refused or pods_refused or around.taken_budget(wanted)
    progress = _progress(pool, census, refused, unreached)
    return Convergence(actions, progress, again_seconds=again)


def _spared(wanted: Sequence[Json], around: ObjectsAround, *, directly: bool) -> Collection[Kind]:
    """Kinds of which nothing is deleted: a route until routers answer, and routers until the Service leads elsewhere.

    The API server may refuse the change of the Service, and requests would go to routers that are gone.
    """
    if directly:
        return OF_GATEWAYS
    services = [each for each in wanted if each["kind"] == "Service"]
    return OF_ROUTERS if any(around.is_to_change(each) for each in services) else ()


def _counted(
    observed: ObservedPool, fronts: EngineFronts | None, departures: Departures
) -> tuple[Census, float | None]:
    """The census with words on what the pool waits for, and the seconds until these change by themselves, or None."""
    census = Census.of(observed.pool, observed.replicas, departures.finishing)
    waiting = census.waiting or _waiting(observed) or (fronts.awaited if fronts is not None else None)
    return with_phases(replace(census, waiting=waiting), observed.pool, observed.replicas, observed.heard.now)


def _can_be_read(pool: PoolRecord) -> bool:
    """Whether the spec and the plan tell which objects are wanted; a plan from another version may be unreadable."""
    has_its_plan = pool.status.plan is not None or not pool.status.assignments
    return pool.spec is not None and pool.lacks is None and has_its_plan


def _soonest(*seconds: float | None) -> float | None:
    """Seconds until time alone changes something, the least of those known; None where none is."""
    return min((each for each in seconds if each is not None and isfinite(each)), default=None)


def wanted_objects(
    pool: PoolRecord, replicas: Sequence[Replica], fronts: EngineFronts | None, *, directly: bool = False
) -> tuple[Json, ...]:
    """Everything but pods that the pool should own now; nothing while its spec cannot be read.

    `directly` says that the Service leads to the replicas for as long as no router answers.
    """
    if pool.spec is None:
        return ()
    plan = pool.status.plan
    spans = plan is not None and plan.shape.pods > 1
    spanned = any(pod.rank > 0 for replica in replicas for pod in replica.pods)
    only = fronts.only if fronts is not None else {}
    every_pod = every_pod_is_asked(pool.spec, replicas)
    service = render_service(pool, only, every_pod=every_pod, directly=directly)
    found = [service, render_disruption_budget(pool)]
    if spans or spanned:
        found.append(render_ranks_service(pool))
    if fronts is not None:
        router, tags = pool.spec.router, pool_labels(pool)
        routers = [render_front(pool.key, engine, router, front, tags) for engine, front in fronts.wanted.items()]
        found += [*routers, *render_front_budgets(pool.key, routers, tags)]
    return (*found, *_route_of(pool, replicas))


def _is_picked(body: Json) -> bool:
    """Whether it is what an endpoint picker follows."""
    return (body["apiVersion"], body["kind"]) == ENDPOINTS


def _ports_of_all(replicas: Sequence[Replica]) -> int:
    """How many ports all routed pods have in common: a picker expects each port of an InferencePool at every pod."""
    routed = [pod for replica in replicas for pod in replica.live if pod.routed]
    counts = [pod.api_servers for pod in routed if pod.ready] or [pod.api_servers for pod in routed]
    return max(1, min(counts, default=1))


def _route_of(pool: PoolRecord, replicas: Sequence[Replica]) -> tuple[Json, ...]:
    """What a Gateway needs, where the cluster has its kinds."""
    spec, plan = pool.spec, pool.status.plan
    if spec is None or spec.router.gateway is None or plan is None or not _is_routed_to(pool) or pool.lacks is not None:
        return ()
    tags, (selector, ports) = pool_labels(pool), _picked(pool.key, spec, plan, replicas)
    endpoints = render_endpoints(pool.key, tags, selector, ports, spec.router.gateway)
    return endpoints, render_route(pool.key, tags, spec.router.gateway)


def _way_by_a_gateway(pool: PoolRecord, replicas: Sequence[Replica], around: ObjectsAround) -> tuple[Json, ...]:
    """The InferencePool of a route that is there until a router answers: the port may be that of another engine now."""
    spec, plan, endpoints = pool.spec, pool.status.plan, around.mine(*ENDPOINTS, pool.key.name)
    if spec is None or plan is None or endpoints is None:
        return ()
    return (show_chosen(endpoints, pool.key, pool_labels(pool), *_picked(pool.key, spec, plan, replicas)),)


def _picked(key: ResourceKey, spec: PoolSpec, plan: Plan, replicas: Sequence[Replica]) -> tuple[Pairs, range]:
    """The selector and the ports of what a picker may choose: only replicas with the port of the chosen engine."""
    engine = engine_at_a_gateway(plan.engine.name, replicas)
    port = adapter_for(engine).port
    chosen = [each for each in replicas if adapter_for(engine_of(each, engine)).port == port]
    alone = ((labels.ENGINE_NAME, engine_label(engine)),) if len(chosen) < len(replicas) else ()
    selector = (*routed_selector(key, every_pod=every_pod_is_asked(spec, replicas)), *alone)
    return selector, range(port, port + _ports_of_all(chosen))


def _or_refusal(render: Callable[[], tuple[T, ...]]) -> tuple[tuple[T, ...], Explanation | None]:
    """What was rendered and None; or nothing and the reason why it cannot be rendered."""
    try:
        return render(), None
    except (Invalid, Blocked) as error:
        return (), Explanation(error.reason, error.message)


def _is_routed_to(pool: PoolRecord) -> bool:
    """Whether the pool has a route of its own; a half of a split uses that of its split."""
    return pool.router_kind is RouterKind.Gateway and pool.split_uid is None


def _front_trouble(pool: PoolRecord, around: ObjectsAround, fronts: EngineFronts | None) -> Explanation | None:
    """What keeps requests from the replicas, beside a name that is taken."""
    if _is_routed_to(pool):
        return pool.lacks or route_trouble(around)
    if fronts is None:
        return front_trouble(around) if pool.router_kind is RouterKind.Managed else None
    return fronts.why_not


def _waiting(observed: ObservedPool) -> str | None:
    """Why the ComputeDomain of the first gated replica that has to wait for one is not ready; None where none waits."""
    gated = (replica for replica in observed.replicas if replica.complete and any(pod.gated for pod in replica.pods))
    reasons = (waits_for_domain(observed.pool, replica, observed.fabric, observed.around) for replica in gated)
    return next((why for why in reasons if why is not None), None)


def _progress(
    pool: PoolRecord, census: Census, refused: Explanation | None, trouble: Explanation | None
) -> PoolProgress:
    return PoolProgress(
        generation=pool.decided,
        replicas=census.present,
        ready_replicas=census.ready,
        selector=",".join(f"{key}={value}" for key, value in leader_selector(pool.key)),
        url=service_url(pool.key) if census.ready > 0 and trouble is None else None,
        conditions=pool_conditions(pool, census, refused, trouble),
    )
