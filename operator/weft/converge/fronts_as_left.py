"""Fronts of a split that its spec does not tell: they stay, and get whole pairs only.

Its spec cannot be read, or asks for another type of front, which does not serve yet. Routers and a route are left as
they are. What the Service and a Gateway's InferencePool select is not a wish, but follows from replicas, so it is kept
true: half a pair would answer nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.converge.generations import generations_of
from weft.converge.objects import OF_GATEWAYS, OF_ROUTERS
from weft.converge.serving import front_trouble
from weft.converge.split_routing import Routing, lacks_for_a_gateway
from weft.domain.spec import RouterKind
from weft.render import ENDPOINTS, front_pair, pair_of, render_split_service, show_pair, shown_pair, split_labels

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from weft.converge.children import SideState
    from weft.converge.generations import Generation
    from weft.converge.objects import Kind, ObjectsAround
    from weft.domain.snapshot import SplitRecord
    from weft.render import Json

DEPLOYMENT = ("apps/v1", "Deployment")


@dataclass(frozen=True, slots=True)
class FrontBefore:
    """The front of the type that an edit replaces: how it serves, and what it chooses.

    Objects of these `kinds` are kept.
    """

    routing: Routing
    chosen: Json
    kinds: Collection[Kind]


def front_before(
    split: SplitRecord, sides: Sequence[SideState], routing: Routing, around: ObjectsAround
) -> FrontBefore | None:
    """The front of another type than the spec's while a pair is left behind it, until the current one is reached.

    That `routing` is by the type that the spec asks for. A pair is left as long as both halves are to stay, also while
    nobody of one answers: whoever does a moment later would find no front.
    """
    if routing.serves_the_current:
        return None
    halves, to_gateway = [side.replicas for side in sides], split.router_kind is RouterKind.Gateway
    known = generations_of(pair_of(split), halves)
    fronts = _routers(split, known, around) if to_gateway else _picker(split, pair_of(split), sides, around)
    for left, chosen in fronts:
        behind = [each for each in left.known if each.pair in left.routers]
        if any(min(each.assigned) > 0 or each.is_pair for each in behind):
            kinds = OF_ROUTERS if to_gateway else OF_GATEWAYS
            return FrontBefore(replace(left, taken=around.taken((chosen,))), chosen, kinds)
    return None


def fronts_as_left(
    split: SplitRecord, sides: Sequence[SideState], around: ObjectsAround
) -> tuple[Routing, tuple[Json, ...]]:
    """Routing by the fronts that are there, and the objects by which these choose only whole pairs.

    Between two types of routers both are there: the answer is about the one that serves, if one does.
    """
    halves = [side.replicas for side in sides]
    current = next((side.pool.spec.pair for side in sides if side.pool is not None and side.pool.spec is not None), "")
    current = current or shown_pair(around.mine(*ENDPOINTS, split.key.name))
    known = generations_of(current, halves)
    found = (*_routers(split, known, around), *_picker(split, current, sides, around))
    if not found:
        return _chosen_by_clients(known, sides), ()
    bodies = tuple(body for _, body in found)
    taken = around.taken(bodies)
    routings = [replace(routing, taken=taken) for routing, _ in found]
    return next((each for each in routings if each.serves), routings[0]), bodies


def _routers(
    split: SplitRecord, known: tuple[Generation, ...], around: ObjectsAround
) -> Iterator[tuple[Routing, Json]]:
    """Routing by the split's routers, and its Service; nothing if it has neither."""
    records = [record for known_as, record in around.found.items() if known_as[:2] == DEPLOYMENT]
    routers = dict.fromkeys((front_pair(record.body) for record in records if around.may_touch(record)), 1)
    if routers or around.mine("v1", "Service", split.key.name) is not None:
        trouble = {each.pair: front_trouble(around, each.pair) for each in known}
        routing = Routing(known, routers, trouble, managed=True)
        yield routing, render_split_service(split, paired=bool(routing.pairs), only=routing.only)


def _picker(
    split: SplitRecord, current: str, sides: Sequence[SideState], around: ObjectsAround
) -> Iterator[tuple[Routing, Json]]:
    """Routing by an endpoint picker, and the InferencePool by which it chooses; nothing if there is none."""
    endpoints = around.mine(*ENDPOINTS, split.key.name)
    if endpoints is not None:
        routing = Routing.at_a_gateway(current, sides, around)
        shown, paired = next(iter(routing.routers)), bool(routing.pairs)
        yield routing, show_pair(endpoints, split.key, split_labels(split), shown, paired=paired)


def _chosen_by_clients(known: tuple[Generation, ...], sides: Sequence[SideState]) -> Routing:
    """Routing where clients choose pods themselves, or a Gateway's objects cannot be seen."""
    lacks = lacks_for_a_gateway(sides)
    return Routing(known, {each.pair: 1 for each in known}, {each.pair: lacks for each in known}, lacks)
