"""The fronts of a split whose wishes nobody can tell, as its spec cannot be read: they stay, and get whole pairs only.

Its routers and its route are left as they are. What its Service and a Gateway's InferencePool select is not a wish, but
follows from replicas, so it is kept true: half a pair would answer nobody.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.converge.generations import generations_of
from weft.converge.serving import front_trouble
from weft.converge.split_routing import Routing, lacks_for_a_gateway
from weft.render import ENDPOINTS, front_pair, render_split_service, show_pair, shown_pair, split_labels

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weft.converge.children import SideState
    from weft.converge.generations import Generation
    from weft.converge.objects import ObjectsAround
    from weft.domain.snapshot import SplitRecord
    from weft.render import Json

DEPLOYMENT = ("apps/v1", "Deployment")


def fronts_as_left(
    split: SplitRecord, sides: Sequence[SideState], around: ObjectsAround
) -> tuple[Routing, tuple[Json, ...]]:
    """Routing by the fronts that are there, and the objects by which these choose only whole pairs.

    Between two types of routers both are there: the answer is about the one that serves, if one does.
    """
    halves = [side.replicas for side in sides]
    current = next((side.pool.spec.pair for side in sides if side.pool is not None and side.pool.spec is not None), "")
    known = generations_of(current or shown_pair(around.mine(*ENDPOINTS, split.key.name)), halves)
    found = (*_routers(split, known, around), *_picker(split, known, sides, around))
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
    split: SplitRecord, known: tuple[Generation, ...], sides: Sequence[SideState], around: ObjectsAround
) -> Iterator[tuple[Routing, Json]]:
    """Routing by an endpoint picker, and the InferencePool by which it chooses; nothing if there is none."""
    endpoints = around.mine(*ENDPOINTS, split.key.name)
    if endpoints is not None:
        routing = Routing.at_a_gateway(known, sides, around)
        shown, paired = next(iter(routing.routers)), bool(routing.pairs)
        yield routing, show_pair(endpoints, split.key, split_labels(split), shown, paired=paired)


def _chosen_by_clients(known: tuple[Generation, ...], sides: Sequence[SideState]) -> Routing:
    """Routing where clients choose pods themselves, or a Gateway's objects cannot be seen."""
    lacks = lacks_for_a_gateway(sides)
    return Routing(known, {each.pair: 1 for each in known}, {each.pair: lacks for each in known}, lacks)
