"""One InferencePool: make its pods match its assignments."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, TypeVar

from weft.converge.answer import Convergence
from weft.converge.census import Census
from weft.converge.conditions import pool_conditions
from weft.converge.domains import delete_left_over
from weft.converge.draining import Leaving, ends_in_seconds, finishes, retire
from weft.converge.engine_fronts import EngineFronts, engine_at_a_gateway, engine_of
from weft.converge.generations import kept_for_their_front, overdue_in_seconds
from weft.converge.objects import Surroundings
from weft.converge.phases import with_phases
from weft.converge.replicas import rank_of, replicas_of
from weft.converge.serving import front_trouble, route_trouble
from weft.converge.starting import create_missing, release_whole, waits_for_domain
from weft.domain import labels
from weft.domain.errors import Blocked, Invalid
from weft.domain.reasons import Explanation
from weft.domain.spec import RouterKind
from weft.domain.status import PoolProgress
from weft.engines import LeavesBy, adapter_for, engine_label
from weft.render import (
    balances,
    leader_selector,
    pool_labels,
    render_disruption_budget,
    render_endpoints,
    render_front,
    render_front_budget,
    render_ranks_service,
    render_route,
    render_service,
    routed_selector,
    service_url,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from weft.converge.draining import Heard
    from weft.converge.replicas import Replica
    from weft.domain.cluster import ObjectRecord, PodRecord
    from weft.domain.fabric import Fabric
    from weft.domain.shape import EngineName
    from weft.domain.snapshot import PoolRecord
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
    replicas that are whole, and last new pods: what waits for its release has its place, and others may take it. `pods`
    may be everyone's; `objects` those of the namespace. A pool that is being deleted is left to garbage collection.
    Words about replicas that start, and which of those that leave are done, depend on `heard`.
    """
    known = tuple(pods)
    replicas = replicas_of(pool, known)
    around = Surroundings.of(pool.key, objects)
    if pool.deleting:
        return Convergence((), _progress(pool, Census.of(pool, replicas), None, None))
    fronts = EngineFronts.of(pool, replicas, around)
    kept = kept_for_their_front(pool, replicas, known, heard.now)
    kept += fronts.kept(pool, replicas, known, heard.now) if fronts is not None else ()
    ways = _ways_to_leave(pool, replicas, known, heard)
    spare = {each.number: _spare_seconds(each, fabric, ways[_engine(pool, each)]) for each in kept}
    kept = tuple(each for each in kept if spare[each.number] > 0.0)
    going = [(each, ways[_engine(pool, each)]) for each in replicas if each not in kept]
    retired = tuple(action for replica, leaving in going for action in retire(replica, fabric, leaving))
    wanted, front_refused = _or_refusal(lambda: wanted_objects(pool, replicas, fronts))
    created, pods_refused = _or_refusal(lambda: tuple(create_missing(pool, replicas, around)))
    applied = tuple(around.apply(wanted))
    left_over = tuple(delete_left_over(replicas, around))
    knows_what_is_wanted = front_refused is None and _can_be_read(pool)
    unwanted = tuple(around.delete_unwanted(wanted)) if knows_what_is_wanted else ()
    trouble = around.taken(wanted) or _front_trouble(pool, around, fronts)
    finishing = [(replica, leaving) for replica, leaving in going if finishes(replica, fabric, leaving)]
    census = Census.of(pool, replicas, len(finishing))
    awaited = fronts.awaited if fronts is not None else None
    census = replace(census, waiting=census.waiting or _waiting(pool, replicas, fabric, around) or awaited)
    census, again = with_phases(census, pool, replicas, heard.now)
    ends = [ends_in_seconds(replica, fabric, leaving) for replica, leaving in finishing]
    if kept:
        ends += [overdue_in_seconds(pool, known, heard.now), *(spare[each.number] for each in kept)]
    return Convergence(
        (*retired, *left_over, *applied, *unwanted, *release_whole(pool, replicas, fabric, around), *created),
        _progress(pool, census, front_refused or pods_refused, trouble),
        again_seconds=_soonest(again, *ends),
    )


def _can_be_read(pool: PoolRecord) -> bool:
    """Whether all is known by which objects are wanted: a plan that is there for replicas may be of another version."""
    has_its_plan = pool.status.plan is not None or not pool.status.assignments
    return pool.spec is not None and pool.lacks is None and has_its_plan


def _soonest(again: float | None, *ends: float) -> float | None:
    """When time alone changes something, where that is known."""
    return min((each for each in (again, *ends) if each is not None and isfinite(each)), default=None)


def wanted_objects(pool: PoolRecord, replicas: Sequence[Replica], fronts: EngineFronts | None) -> tuple[Json, ...]:
    """Everything but pods that the pool should own now; nothing while its spec cannot be read."""
    if pool.spec is None:
        return ()
    plan = pool.status.plan
    spans = plan is not None and plan.shape.pods > 1
    spanned = any(rank_of(pod) > 0 for replica in replicas for pod in replica.pods)
    only = fronts.only if fronts is not None else {}
    found = [render_service(pool, only), render_disruption_budget(pool)]
    if spans or spanned:
        found.append(render_ranks_service(pool))
    if fronts is not None:
        router, tags = pool.spec.router, pool_labels(pool)
        found += (render_front(pool.key, engine, router, front, tags) for engine, front in fronts.wanted.items())
        found.append(render_front_budget(pool.key, router, tags))
    return (*found, *_route_of(pool, replicas))


def _ports_of_all(replicas: Sequence[Replica]) -> int:
    """Ports that all pods have which may be chosen: a picker takes each of an InferencePool for one of every pod."""
    routed = [pod for replica in replicas for pod in replica.live if pod.routed]
    counts = [pod.api_servers for pod in routed if pod.ready] or [pod.api_servers for pod in routed]
    return max(1, min(counts, default=1))


def _route_of(pool: PoolRecord, replicas: Sequence[Replica]) -> tuple[Json, ...]:
    """What a Gateway needs, where the cluster knows its kinds: replicas of one engine where two have a port each."""
    spec, plan = pool.spec, pool.status.plan
    if spec is None or spec.router.gateway is None or plan is None or not _is_routed_to(pool) or pool.lacks is not None:
        return ()
    engine = engine_at_a_gateway(plan.engine.name, replicas)
    tags, port = pool_labels(pool), adapter_for(engine).port
    chosen = [each for each in replicas if adapter_for(engine_of(each, engine)).port == port]
    alone = ((labels.ENGINE_NAME, engine_label(engine)),) if len(chosen) < len(replicas) else ()
    selector = (*routed_selector(pool.key, every_pod=balances(spec)), *alone)
    ports = range(port, port + _ports_of_all(chosen))
    endpoints = render_endpoints(pool.key, tags, selector, ports, spec.router.gateway)
    return endpoints, render_route(pool.key, tags, spec.router.gateway)


def _or_refusal(render: Callable[[], tuple[T, ...]]) -> tuple[tuple[T, ...], Explanation | None]:
    """What was rendered, or nothing and the reason."""
    try:
        return render(), None
    except (Invalid, Blocked) as error:
        return (), Explanation(error.reason, error.message)


def _ways_to_leave(
    pool: PoolRecord, replicas: Iterable[Replica], known: Sequence[PodRecord], heard: Heard
) -> dict[EngineName | None, Leaving]:
    """How replicas leave, by the engine that they run."""
    engines = {_engine(pool, replica) for replica in replicas}
    return {engine: Leaving.of(pool.spec, _heeded(pool, _leaves_by(pool, engine), known), heard) for engine in engines}


def _engine(pool: PoolRecord, replica: Replica) -> EngineName | None:
    release = pool.status.engine
    return engine_of(replica, release.name) if release is not None else None


def _spare_seconds(replica: Replica, fabric: Fabric, leaving: Leaving) -> float:
    """For how long one that is kept may go on, so that requests are over before its node goes; 0 if it lost a pod."""
    return 0.0 if replica.lost_a_pod else ends_in_seconds(replica, fabric, leaving) - leaving.drain_seconds


def _leaves_by(pool: PoolRecord, engine: EngineName | None) -> LeavesBy:
    """What the front heeds that belongs to an engine.

    Endpoint pickers drop a pod that their InferencePool does not select any more, whatever it runs.
    """
    at_a_gateway = _has_a_front(pool, RouterKind.Gateway)
    return LeavesBy.Label if engine is None or at_a_gateway else adapter_for(engine).leaves_front_by


def _heeded(pool: PoolRecord, leaves_by: LeavesBy, known: Iterable[PodRecord]) -> LeavesBy | None:
    """The same, or nothing where no front is known that sees a label go: clients keep connections that they have."""
    owners = {pool.key.uid, pool.split_uid} - {None}
    routers = (pod for pod in known if pod.front_of in owners and pod.namespace == pool.key.namespace)
    heeded = _has_a_front(pool, RouterKind.Gateway) or any(not pod.ended for pod in routers)
    return leaves_by if heeded or leaves_by is LeavesBy.Deletion else None


def _has_a_front(pool: PoolRecord, kind: RouterKind = RouterKind.Managed) -> bool:
    return pool.spec is not None and pool.spec.router.kind is kind


def _is_routed_to(pool: PoolRecord) -> bool:
    """Whether it has a route of its own; that of a half is its split's."""
    return _has_a_front(pool, RouterKind.Gateway) and pool.split_uid is None


def _front_trouble(pool: PoolRecord, around: Surroundings, fronts: EngineFronts | None) -> Explanation | None:
    """What keeps requests from the replicas, beside a name that is taken."""
    if _is_routed_to(pool):
        return pool.lacks or route_trouble(around)
    if fronts is None:
        return front_trouble(around) if _has_a_front(pool) else None
    return fronts.why_not


def _waiting(pool: PoolRecord, replicas: Sequence[Replica], fabric: Fabric, around: Surroundings) -> str | None:
    """What the first replica that may not be released yet waits for, beside GPUs."""
    gated = (replica for replica in replicas if replica.complete and any(pod.gated for pod in replica.pods))
    return next(
        (why for replica in gated if (why := waits_for_domain(pool, replica, fabric, around)) is not None), None
    )


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
