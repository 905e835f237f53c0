"""One PDSplit: two child pools with one engine release, and a front that serves whole pairs only."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.converge.answer import Convergence
from weft.converge.census import Census
from weft.converge.children import SIDES, SideState, converge_children, follow
from weft.converge.counterparts import known_apart
from weft.converge.domains import shared_domains
from weft.converge.engine_fronts import engine_of
from weft.converge.fronts_as_left import front_before, fronts_as_left
from weft.converge.generations import pair_of_replica
from weft.converge.objects import ObjectsAround
from weft.converge.phases import with_phases
from weft.converge.replicas import every_pod_is_asked, replicas_of
from weft.converge.serving import image_of_front, service_trouble
from weft.converge.split_conditions import Told, split_conditions, why_no_requests
from weft.converge.split_routing import Routing
from weft.domain.errors import Invalid
from weft.domain.reasons import Explanation
from weft.domain.spec import RouterKind
from weft.domain.status import SplitProgress
from weft.render import (
    SIDECAR_PORT,
    FrontSpec,
    paired_selector,
    render_child_pool,
    render_endpoints,
    render_front,
    render_front_budgets,
    render_route,
    render_split_service,
    service_url,
    split_labels,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from weft.domain.cluster import ObjectRecord, PodRecord
    from weft.domain.shape import EngineName
    from weft.domain.snapshot import PoolRecord, SplitRecord
    from weft.domain.spec import SplitSpec
    from weft.domain.workload import Role
    from weft.render import Json


def converge_split(
    split: SplitRecord,
    children: Iterable[PoolRecord],
    objects: Iterable[ObjectRecord],
    pods: Sequence[PodRecord],
    now: float,
) -> Convergence[SplitProgress]:
    """Actions that bring the child pools and the front of a split to its status.

    `objects` are those of the namespace, the child InferencePools among them: a child that somebody edited is put back.
    `children` may be all pools and `pods` everyone's. `now` is epoch seconds; of all answers only the words about
    replicas that start depend on it.
    """
    known = tuple(children)
    looked = [_side(split, role, known, pods, now) for role in SIDES]
    sides = known_apart(tuple(side for side, _ in looked))
    around = ObjectsAround.of(split.key, objects)
    again = min((again for _, again in looked if again is not None), default=None)
    if split.deleting:
        return Convergence((), _progress(split, sides, None, split.decided, _told(sides, None, split.problem, around)))
    if split.spec is None or split.status.engine is None:
        routing, kept = fronts_as_left(split, sides, around)
        progress = _progress(split, sides, routing, split.decided, _told(sides, routing, split.problem, around))
        return Convergence(tuple(around.apply(kept)), replace(progress, serving_generation=split.serving), again)
    routing = Routing.of(split, sides, around)
    wanted, refused = _front_or_refusal(split, sides, routing, around)
    bodies = tuple(render_child_pool(split, role) for role in SIDES)
    routing = replace(routing, taken=around.taken_way((*bodies, *wanted)))
    blocked = refused or around.taken_budget(wanted)
    before = front_before(split, sides, routing, around)
    kept, spared = ((), ()) if before is None else ((before.chosen,), before.kinds)
    actions = (
        *converge_children(split, sides, bodies, around),
        *shared_domains(split, sides, around),
        *around.apply((*wanted, *kept)),
        *(around.delete_unwanted(wanted, spared) if refused is None and routing.lacks is None else ()),
    )
    reached = split.decided if follow(sides, bodies, around) else split.reached
    if before is None or not before.routing.serves or routing.serves:
        return Convergence(
            actions, _progress(split, sides, routing, reached, _told(sides, routing, blocked, around)), again
        )
    told = replace(_told(sides, before.routing, blocked or routing.taken, around), awaited=routing.awaited)
    progress = _progress(split, sides, before.routing, reached, told)
    serving = split.serving if progress.serving_generation is not None else None
    return Convergence(actions, replace(progress, serving_generation=serving), again)


def _told(
    sides: Sequence[SideState], routing: Routing | None, refused: Explanation | None, around: ObjectsAround
) -> Told:
    """What there is to tell of a front."""
    trouble = why_no_requests(sides, routing)
    if trouble is None and routing is not None and routing.managed and routing.pairs:
        trouble = service_trouble(around)
    return Told(refused, trouble) if routing is None else Told(refused, trouble, routing.awaited, routing.reached)


def _side(
    split: SplitRecord, role: Role, children: Iterable[PoolRecord], pods: Sequence[PodRecord], now: float
) -> tuple[SideState, float | None]:
    """One half: the child found by name and owner UID, and its census; and seconds until that changes by itself."""
    name = split.child_name(role)
    pool = next((child for child in children if child.key.name == name and child.split_uid == split.key.uid), None)
    if pool is None:
        return SideState(role, None, None), None
    replicas = replicas_of(pool, pods)
    census, again = with_phases(Census.of(pool, replicas), pool, replicas, now, role.value.lower())
    return SideState(role, pool, census, replicas), again


def _front(split: SplitRecord, sides: Sequence[SideState], routing: Routing, around: ObjectsAround) -> tuple[Json, ...]:
    """Service, budget and routers, once both children have a UID to select by."""
    pools = tuple(side.pool.key for side in sides if side.pool is not None)
    if split.spec is None or split.status.engine is None or split.spec.router.kind is RouterKind.Nothing:
        return ()
    every_pod = {pair: _asks_every_pod(split.spec, sides, pair) for pair in routing.routers}
    if split.router_kind is RouterKind.Gateway:
        whole = len(pools) == len(SIDES) and routing.lacks is None
        return _route(split, routing, every_pod) if whole else ()
    service = render_split_service(split, paired=bool(routing.pairs), only=routing.only)
    if len(pools) < len(SIDES):
        return (service,)
    tags, router, engine = split_labels(split), split.spec.router, split.status.engine
    drain = split.spec.decode.rollout.drain_timeout_seconds
    current = routing.current.pair
    images = {pair: image_of_front(around, pair) if pair != current else "" for pair in routing.routers}
    fronts = [
        FrontSpec(pools, count, drain, pair, every_pod[pair], engine.image, image=images[pair])
        for pair, count in routing.routers.items()
    ]
    engines = {pair: _engine(sides, pair, engine.name) if pair != current else engine.name for pair in routing.routers}
    rendered = [render_front(split.key, engines[front.pair], router, front, tags) for front in fronts]
    if around.taken((service,)) is not None:  # nobody would reach others than those that are there
        rendered = [each for each in rendered if around.mine("apps/v1", "Deployment", each["metadata"]["name"])]
    return (service, *render_front_budgets(split.key, rendered, tags), *rendered)


def _engine(sides: Sequence[SideState], pair: str, current: EngineName) -> EngineName:
    """The engine that replicas of an earlier pair run: the pair keeps its router where the engine changes."""
    replicas = (replica for side in sides for replica in side.replicas if pair_of_replica(replica) == pair)
    return next((engine_of(replica, current) for replica in replicas), current)


def _asks_every_pod(spec: SplitSpec, sides: Sequence[SideState], pair: str) -> bool:
    """Whether the front of a pair asks every pod: an earlier pair may not answer as the spec has it now."""
    return any(
        every_pod_is_asked(half, (each for each in side.replicas if pair_of_replica(each) == pair))
        for half, side in zip((spec.prefill, spec.decode), sides, strict=True)
    )


def _route(split: SplitRecord, routing: Routing, every_pod: Mapping[str, bool]) -> tuple[Json, ...]:
    """What a Gateway needs to reach the generation that serves."""
    gateway = split.spec.router.gateway if split.spec is not None else None
    if gateway is None:
        return ()
    tags, pair = split_labels(split), next(iter(routing.routers))  # the one that the picker is shown
    selector = paired_selector(split.key, pair, every_pod=every_pod[pair], paired=bool(routing.pairs))
    endpoints = render_endpoints(split.key, tags, selector, (SIDECAR_PORT,), gateway)
    return endpoints, render_route(split.key, tags, gateway)


def _front_or_refusal(
    split: SplitRecord, sides: Sequence[SideState], routing: Routing, around: ObjectsAround
) -> tuple[tuple[Json, ...], Explanation | None]:
    try:
        return _front(split, sides, routing, around), None
    except Invalid as error:
        return (), Explanation(error.reason, error.message)


def _progress(
    split: SplitRecord,
    sides: Sequence[SideState],
    routing: Routing | None,
    reached: int,
    told: Told,
) -> SplitProgress:
    """The progress of a split, all of it about the generation of its spec that it has `reached`."""
    prefill, decode = sides
    managed = routing is not None and routing.managed
    paired = routing is not None and bool(routing.pairs)
    serves = paired and told.trouble is None
    latest = routing is not None and routing.serves_the_current
    return SplitProgress(
        generation=reached,
        prefill_replicas=prefill.present,
        prefill_ready=prefill.ready,
        decode_replicas=decode.present,
        decode_ready=decode.ready,
        serving_generation=(reached if latest else split.serving) if serves else None,
        url=service_url(split.key) if serves and managed else None,
        conditions=split_conditions(split, sides, told, paired=paired),
        decided=split.decided,
    )
