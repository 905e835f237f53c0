"""The part of each NVLink domain that a search may use: nodes that the pool may use, less those kept as spares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.placement.eligibility import amount_of, eligible_domains, memory_of
from weft.placement.freemap import MEMORY
from weft.placement.names import natural

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from weft.domain.fabric import FabricNode, NvlinkDomain
    from weft.domain.shape import Shape
    from weft.domain.spec import Pairs, PlacementSpec
    from weft.placement.eligibility import EligibleDomain
    from weft.placement.freemap import FreeMap


@dataclass(frozen=True, slots=True)
class Room:
    """A domain as one search sees it: usable `nodes`, free `spares` that stay so, `passed_over` nodes with reasons.

    `spares_due` is how many spares the pool wants; nodes that become wholly free fill them up first.
    """

    domain: NvlinkDomain
    nodes: tuple[FabricNode, ...]
    spares: tuple[FabricNode, ...]
    spares_due: int
    passed_over: tuple[tuple[FabricNode, Explanation], ...]

    @property
    def name(self) -> str:
        """Name of the domain."""
        return self.domain.name

    @property
    def zone(self) -> str:
        """Zone of the domain."""
        return self.domain.zone


def rooms_for(shape: Shape, placement: PlacementSpec, free: FreeMap, needs: Pairs = ()) -> tuple[Room, ...]:
    """Every domain of the fabric as a search for this shape and pool may use it."""
    rooms = tuple(room_in(each, placement, free) for each in eligible_domains(shape, placement, free, needs))
    if (memory := memory_of(needs)) > 0:
        rooms = tuple(_without(room, _full_of_memory(room, free, memory)) for room in rooms)
    if shape.pods > 1:
        return tuple(_without_joined(room, free) for room in rooms)
    return tuple(_without_joined(room, free, 1) for room in rooms) if placement.nvlink_domain else rooms


def _without_joined(room: Room, free: FreeMap, least: int = 0) -> Room:
    """The room without nodes in a ComputeDomain, or reserved for one: for pods that share memory over NVLink.

    Pods of a split are in one ComputeDomain with each other, and nodes full of them are not excluded for being in it:
    only nodes with `least` free GPUs are.
    """
    every = (*room.nodes, *room.spares)
    joined = [node for node in every if free.has_joined(node.name) and free.on(node.name) >= least]
    return _without(room, [(node, _is_joined(node, free)) for node in joined])


def _without(room: Room, barred: Sequence[tuple[FabricNode, Explanation]]) -> Room:
    if not barred:
        return room
    nodes = [node for node, _ in barred]
    return replace(
        room,
        nodes=tuple(node for node in room.nodes if node not in nodes),
        spares=tuple(node for node in room.spares if node not in nodes),
        passed_over=(*room.passed_over, *barred),
    )


def _full_of_memory(room: Room, free: FreeMap, needed: int) -> list[tuple[FabricNode, Explanation]]:
    """The nodes of a room with GPUs left, and too little memory for one more pod beside those of pools."""
    every = (node for node in (*room.nodes, *room.spares) if free.on(node.name) > 0)
    return [(node, _lacks_memory(node, free, needed)) for node in every if free.lacks_memory(node.name, needed)]


def _lacks_memory(node: FabricNode, free: FreeMap, needed: int) -> Explanation:
    there, asked = amount_of(MEMORY, free.memory_left(node.name)), amount_of(MEMORY, needed)
    told = f"node {node.name} has {there} {MEMORY} beside what pools count on there, not {asked}"
    return Explanation(Reason.NodeLacksResource, told)


def _is_joined(node: FabricNode, free: FreeMap) -> Explanation:
    which = " and ".join(node.compute_domains) or f"one of {' and '.join(free.holders(node.name))}"
    return Explanation(
        Reason.NodeInComputeDomain, f"node {node.name} is in ComputeDomain {which}, and can be in one only"
    )


def room_in(each: EligibleDomain, placement: PlacementSpec, free: FreeMap) -> Room:
    """One domain as a search may use it: racks keep as many spare nodes as the pool wants, boards none."""
    due = placement.spare_nodes_per_domain if len(each.domain.nodes) > 1 else 0
    if due < 1:
        return Room(each.domain, each.nodes, (), 0, each.passed_over)
    kept = frozenset(node.name for node in spare_nodes(each.nodes, due, free))
    return Room(
        each.domain,
        tuple(node for node in each.nodes if node.name not in kept),
        tuple(node for node in each.nodes if node.name in kept),
        due,
        each.passed_over,
    )


def spare_nodes(nodes: Collection[FabricNode], count: int, free: FreeMap) -> list[FabricNode]:
    """The nodes of a rack to keep as spares: the last idle ones in natural order, at most `count`.

    A node that has lost a GPU is never one, as it can replace none of the others.
    """
    whole = max((node.total for node in nodes), default=0)
    idle = [node for node in nodes if free.on(node.name) == node.total == whole > 0]
    idle.sort(key=lambda node: natural(node.name))
    return idle[len(idle) - min(count, len(idle)) :]
