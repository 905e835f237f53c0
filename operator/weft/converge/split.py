"""One PDSplit: two child pools with one engine release, and a front that serves whole pairs only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.converge.answer import Convergence
from weft.converge.census import Census
from weft.converge.children import SIDES, Side, converge_children, follow
from weft.converge.conditions import said_false, stall
from weft.converge.domains import shared_domains
from weft.converge.engine_fronts import engine_of
from weft.converge.generations import (
    Generation,
    fronts_wanted,
    generations_of,
    pair_of_replica,
    shown_to_a_picker,
)
from weft.converge.objects import OF_GATEWAYS, OF_ROUTERS, ObjectsAround
from weft.converge.phases import with_phases
from weft.converge.replicas import replicas_of
from weft.converge.serving import front_trouble, image_of_front, route_trouble
from weft.domain.errors import Invalid
from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import RouterKind
from weft.domain.status import Condition, SplitProgress
from weft.render import (
    ENDPOINTS,
    SIDECAR_PORT,
    Front,
    balances,
    pair_of,
    paired_selector,
    render_child_pool,
    render_endpoints,
    render_front,
    render_front_budget,
    render_route,
    render_split_service,
    service_url,
    shown_pair,
    split_labels,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from weft.converge.objects import Kind
    from weft.domain.cluster import ObjectRecord, PodRecord
    from weft.domain.shape import EngineName
    from weft.domain.snapshot import PoolRecord, SplitRecord
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
    sides = tuple(side for side, _ in looked)
    around = ObjectsAround.of(split.key, objects)
    if split.deleting or split.spec is None or split.status.engine is None:
        return Convergence((), _progress(split, sides, None, split.decided, split.problem))
    routing = _Routing.of(split, sides, around)
    wanted, refused = _front_or_refusal(split, sides, routing, around)
    bodies = tuple(render_child_pool(split, role) for role in SIDES)
    pools, reverted = converge_children(split, sides, bodies, around)
    actions = (
        *pools,
        *shared_domains(split, sides, around),
        *around.apply(wanted),
        *(around.delete_unwanted(wanted, routing.spared(split)) if refused is None and routing.lacks is None else ()),
    )
    routing = replace(routing, taken=around.taken((*bodies, *wanted)))
    reached = split.decided if follow(sides, bodies, around) else split.reached
    again = min((again for _, again in looked if again is not None), default=None)
    return Convergence(actions, _progress(split, sides, routing, reached, refused), reverted, again)


def _side(
    split: SplitRecord, role: Role, children: Iterable[PoolRecord], pods: Sequence[PodRecord], now: float
) -> tuple[Side, float | None]:
    """The child by name and owner UID, counted; and after how many seconds it would be counted otherwise."""
    name = split.child_name(role)
    pool = next((child for child in children if child.key.name == name and child.split_uid == split.key.uid), None)
    if pool is None:
        return Side(role, None, None), None
    replicas = replicas_of(pool, pods)
    census, again = with_phases(Census.of(pool, replicas), pool, replicas, now, role.value.lower())
    return Side(role, pool, census, replicas), again


@dataclass(frozen=True, slots=True)
class _Routing:
    """Generations of a split, the current one first, which of them have a front, and why those fronts do not answer.

    Clients that choose pods themselves are their own front. `taken` is why nobody reaches any of them: a name that the
    split needs belongs to somebody else.
    """

    known: tuple[Generation, ...]
    routers: Mapping[str, int]
    trouble: Mapping[str, Explanation | None]
    lacks: Explanation | None = None  # of the cluster, for a Gateway: what is there cannot be seen then
    taken: Explanation | None = None

    @classmethod
    def of(cls, split: SplitRecord, sides: Sequence[Side], around: ObjectsAround) -> _Routing:
        known = generations_of(pair_of(split), [side.replicas for side in sides])
        if split.router_kind is RouterKind.Gateway:
            return cls._at_a_gateway(known, sides, around)
        managed = split.router_kind is RouterKind.Managed
        trouble = {each.pair: front_trouble(around, each.pair) if managed else None for each in known}
        usual = split.spec.router.replicas if split.spec is not None else 0
        serves = known[0].is_pair and trouble[known[0].pair] is None
        return cls(known, fronts_wanted(known, usual, taken_over=serves), trouble)

    @classmethod
    def _at_a_gateway(cls, known: tuple[Generation, ...], sides: Sequence[Side], around: ObjectsAround) -> _Routing:
        """One endpoint picker instead of routers, which is shown one generation."""
        desired = [side.census.desired if side.census is not None else 0 for side in sides]
        endpoints = around.mine(*ENDPOINTS, around.owner.name)
        shown = shown_to_a_picker(known, desired, shown_pair(endpoints))
        lacks = next((side.pool.lacks for side in sides if side.pool is not None), None)
        return cls(known, {shown.pair: 1}, {shown.pair: lacks or route_trouble(around)}, lacks)

    @property
    def pairs(self) -> tuple[Generation, ...]:
        """Those with a front of whom both halves answer."""
        return tuple(each for each in self.known if each.is_pair and each.pair in self.routers)

    @property
    def serves_the_current(self) -> bool:
        """Whether a front that answers stands before the current generation."""
        current = self.known[0]
        return current in self.pairs and self.trouble[current.pair] is None

    def spared(self, split: SplitRecord) -> Collection[Kind]:
        """Kinds of what stood before the split while its router was of another type, until this one serves."""
        if self.serves_the_current or not any(each.is_pair for each in self.known[1:]):
            return ()
        return OF_ROUTERS if split.router_kind is RouterKind.Gateway else OF_GATEWAYS

    @property
    def only(self) -> str:
        """The one pair that may be chosen, where a front stands before less than one; empty where all may be."""
        if not self.pairs or len(self.pairs) == len(self.routers):
            return ""
        return max(self.pairs, key=lambda each: min(each.answering)).pair


def _front(split: SplitRecord, sides: Sequence[Side], routing: _Routing, around: ObjectsAround) -> tuple[Json, ...]:
    """Service, budget and routers, once both children have a UID to select by."""
    pools = tuple(side.pool.key for side in sides if side.pool is not None)
    if split.spec is None or split.status.engine is None or split.spec.router.kind is RouterKind.Nothing:
        return ()
    every_pod = balances(split.spec.prefill) or balances(split.spec.decode)
    if split.router_kind is RouterKind.Gateway:
        whole = len(pools) == len(SIDES) and routing.lacks is None
        return _route(split, routing, every_pod=every_pod) if whole else ()
    service = render_split_service(split, paired=bool(routing.pairs), only=routing.only)
    if len(pools) < len(SIDES):
        return (service,)
    tags, router, engine = split_labels(split), split.spec.router, split.status.engine
    drain = split.spec.decode.rollout.drain_timeout_seconds
    current = routing.known[0].pair
    images = {pair: image_of_front(around, pair) if pair != current else "" for pair in routing.routers}
    fronts = [
        Front(pools, count, drain, pair, every_pod, engine.image, image=images[pair])
        for pair, count in routing.routers.items()
    ]
    engines = {pair: _engine(sides, pair, engine.name) if pair != current else engine.name for pair in routing.routers}
    rendered = [render_front(split.key, engines[front.pair], router, front, tags) for front in fronts]
    return (service, render_front_budget(split.key, router, tags), *rendered)


def _engine(sides: Sequence[Side], pair: str, current: EngineName) -> EngineName:
    """What replicas of an earlier pair run: it keeps its router where the engine changes."""
    replicas = (replica for side in sides for replica in side.replicas if pair_of_replica(replica) == pair)
    return next((engine_of(replica, current) for replica in replicas), current)


def _route(split: SplitRecord, routing: _Routing, *, every_pod: bool) -> tuple[Json, ...]:
    """What a Gateway needs to reach the generation that serves."""
    gateway = split.spec.router.gateway if split.spec is not None else None
    if gateway is None:
        return ()
    tags, (pair,) = split_labels(split), routing.routers
    selector = paired_selector(split.key, pair, every_pod=every_pod, paired=bool(routing.pairs))
    endpoints = render_endpoints(split.key, tags, selector, (SIDECAR_PORT,), gateway)
    return endpoints, render_route(split.key, tags, gateway)


def _front_or_refusal(
    split: SplitRecord, sides: Sequence[Side], routing: _Routing, around: ObjectsAround
) -> tuple[tuple[Json, ...], Explanation | None]:
    try:
        return _front(split, sides, routing, around), None
    except Invalid as error:
        return (), Explanation(error.reason, error.message)


def _progress(
    split: SplitRecord,
    sides: Sequence[Side],
    routing: _Routing | None,
    reached: int,
    refused: Explanation | None,
) -> SplitProgress:
    """What is told of a split, all of it about the generation that it has `reached`."""
    prefill, decode = sides
    managed = split.router_kind is RouterKind.Managed
    paired = routing is not None and bool(routing.pairs)
    trouble = _trouble(sides, routing)
    serves = paired and trouble is None
    latest = routing is not None and routing.serves_the_current
    return SplitProgress(
        generation=reached,
        prefill_replicas=prefill.present,
        prefill_ready=prefill.ready,
        decode_replicas=decode.present,
        decode_ready=decode.ready,
        serving_generation=(reached if latest else split.serving) if serves else None,
        url=service_url(split.key) if serves and managed else None,
        conditions=_conditions(split, sides, stall(split.conditions, split.problem or refused), trouble, paired=paired),
        decided=split.decided,
    )


def _trouble(sides: Sequence[Side], routing: _Routing | None) -> Explanation | None:
    """What keeps requests from whole pairs, or pairs from being whole."""
    return _half(sides) if routing is None else routing.taken or _half(sides) or _no_front(routing)


def _no_front(routing: _Routing) -> Explanation | None:
    """Why no pair has a front that answers; None where one has, or there is no pair."""
    troubles = [routing.trouble[each.pair] for each in routing.pairs]
    return None if None in troubles else next(iter(troubles), None)


def _half(sides: Sequence[Side]) -> Explanation | None:
    """Which half is missing while the other answers."""
    missing = [side.role.value for side in sides if side.ready == 0]
    if len(missing) != 1:
        return None
    return Explanation(Reason.HalfPair, f"no {missing[0].lower()} replica is ready: nothing is routed to half a pair")


def _conditions(
    split: SplitRecord,
    sides: Sequence[Side],
    stalled: Explanation | None,
    trouble: Explanation | None,
    *,
    paired: bool,
) -> tuple[Condition, ...]:
    counts = ", ".join(
        f"{side.ready} of {side.census.desired if side.census else 0} {side.role.value.lower()}" for side in sides
    )
    said = said_false(split.conditions, "Planned") or said_false(split.conditions, "Placed")
    waiting = next((f"; {side.census.waiting}" for side in sides if side.census and side.census.waiting), "")
    starting = said or Explanation(Reason.ReplicasStarting, f"{counts} replicas are ready{waiting}")
    not_ready = trouble if paired else stalled or trouble or starting
    serving = Condition("Ready", "True", Explanation(Reason.Serving, f"{counts} replicas serve"))
    found = (Condition("Ready", "False", not_ready) if not_ready is not None else serving,)
    if stalled is not None:
        return (*found, Condition("Stalled", "True", stalled))
    moving = _moving(sides, counts)
    return (*found, Condition("Reconciling", "True", moving)) if moving is not None else found


def _moving(sides: Sequence[Side], counts: str) -> Explanation | None:
    """What is under way on either side."""
    censuses = [side.census for side in sides if side.census is not None]
    rolling = any((census.outdated or census.undecided) and not census.paused for census in censuses)
    halted = any(census.outdated and census.paused for census in censuses)
    growing = len(censuses) < len(SIDES) or any(census.ready < max(1, census.desired) for census in censuses)
    claims = (
        (rolling, Reason.RollingOut, "replicas of an earlier revision are being replaced"),
        (halted, Reason.Paused, "replicas are of an earlier revision, and rollout.paused keeps them: unset it"),
        (growing, Reason.Scaling, f"{counts} replicas are ready"),
        (any(census.leaving for census in censuses), Reason.Draining, "replicas are leaving"),
    )
    return next((Explanation(reason, message) for holds, reason, message in claims if holds), None)
