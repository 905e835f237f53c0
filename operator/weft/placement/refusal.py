"""Why a replica fits nowhere, domain by domain, and what would free enough room."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import DomainRule
from weft.domain.texts.figures import agreeing
from weft.placement.freemap import are_spares
from weft.placement.names import natural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.domain.fabric import FabricNode
    from weft.domain.shape import Shape
    from weft.placement.freemap import FreeMap
    from weft.placement.rooms import Room

NAMED_HOLDERS = 3
NAMED_NODES = 3
NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PlacementRefusal:
    """Why there is no slot and what would make room, and the reason of every domain that was looked at.

    `holders` are all who would have to free GPUs to make room as the explanation says.
    """

    explanation: Explanation
    domains: tuple[tuple[str, Explanation], ...]
    holders: frozenset[str] = frozenset()


def refuse(
    shape: Shape, rooms: Sequence[Room], free: FreeMap, rule: DomainRule, own: frozenset[str] = NOBODY
) -> PlacementRefusal:
    """The explanation for the condition, and one for every domain.

    `own` are holders that are not told to make room, as the replica would serve beside theirs.
    """
    group = _group_pods(shape, rule)
    need = _need(shape, group)
    counted = [_Counted.of(room, shape, free, own) for room in rooms]
    verdicts = tuple((each.room.name, _verdict(group, need, each)) for each in counted)
    if not any(room.nodes or room.spares for room in rooms):
        message = f"{need}, but no node may take it{_passed_over(rooms, everything=True)}"
        return PlacementRefusal(Explanation(Reason.NoSlot, message), verdicts)
    remedy = _what_would_do(shape, group, counted, free, own)
    hint = _spared(shape, group, counted, free) + _spared_by_others(rooms, free)
    message = f"{need}: {remedy.message}{hint}{_passed_over(rooms)}"
    return PlacementRefusal(Explanation(Reason.NoSlot, message), verdicts, remedy.holders)


@dataclass(frozen=True, slots=True)
class _Remedy:
    """What comes nearest and what would make room there, and who holds that."""

    message: str
    holders: frozenset[str] = NOBODY


@dataclass(frozen=True, slots=True)
class _Counted:
    """A room with counts: nodes large enough for a pod (spares too), nodes on which one fits now, and free GPUs.

    `clearable` are those large enough on which one would fit if everybody else left.
    """

    room: Room
    large_enough: int
    clearable: int
    fitting: int
    free_gpus: int

    @classmethod
    def of(cls, room: Room, shape: Shape, free: FreeMap, own: frozenset[str]) -> _Counted:
        """Count one room once, as each message needs the numbers."""
        size, left = shape.gpus_per_pod, free.each([node.name for node in room.nodes])
        large_enough = [node for nodes in (room.nodes, room.spares) for node in nodes if node.total >= size]
        clearable = sum(_is_clearable(node, size, free, own) for node in large_enough)
        return cls(room, len(large_enough), clearable, len([gpus for gpus in left if gpus >= size]), sum(left))


def _is_clearable(node: FabricNode, size: int, free: FreeMap, own: frozenset[str]) -> bool:
    """Whether a node would have so many GPUs free if everybody left it but `own`."""
    return max(node.total - free.held(node.name, own), free.on(node.name)) >= size


def _need(shape: Shape, group: int) -> str:
    if shape.pods == 1:
        return f"{shape} needs {_gpus(shape.gpus_per_pod)} free on one node"
    parts = f" for each of {shape.pods // group} pipeline stages" if group < shape.pods else ""
    if group == 1:
        return f"{shape} needs a node with {_gpus(shape.gpus_per_pod)} free{parts}"
    return f"{shape} needs {group} nodes with {_gpus(shape.gpus_per_pod)} free each inside one NVLink domain{parts}"


def _group_pods(shape: Shape, rule: DomainRule) -> int:
    """Pods that must share a domain: one pipeline stage where stages may spread, else all."""
    if rule is DomainRule.Preferred:
        return max(1, shape.domain_group_gpus // shape.gpus_per_pod)
    return shape.pods


def _verdict(group: int, need: str, counted: _Counted) -> Explanation:
    room = counted.room
    if not room.nodes and not room.spares:
        return _most_common(room)
    beside = f" beside {_kept(len(room.spares))}" if room.spares else ""
    if counted.large_enough - room.spares_due < group:
        beside = f", of which spareNodesPerDomain keeps {room.spares_due} free" if room.spares_due else ""
        return Explanation(Reason.DomainTooSmall, f"{need}; {room.name} has {_such(counted.large_enough)}{beside}")
    return Explanation(
        Reason.DomainFragmented,
        f"{need}; {room.name} has {_such(counted.fitting)} and {_gpus(counted.free_gpus)} free in total{beside}",
    )


def _such(nodes: int) -> str:
    return f"{nodes} such {agreeing(nodes, 'node', 'nodes')}"


def _most_common(room: Room) -> Explanation:
    reasons = Counter(refusal.reason for _, refusal in room.passed_over)
    return max((refusal for _, refusal in room.passed_over), key=lambda refusal: reasons[refusal.reason])


def _what_would_do(
    shape: Shape, group: int, counted: Sequence[_Counted], free: FreeMap, own: frozenset[str]
) -> _Remedy:
    """What comes nearest and what to free there, without suggestions that would only fill up the spares."""
    if shape.pods > 1:
        return _room_in_a_domain(shape, group, counted, free, own)
    usable = [node for each in counted for node in each.room.nodes]
    if not usable:
        return _Remedy("every node that may take it is kept as a spare")
    largest = max(usable, key=lambda node: (free.on(node.name), node.total))
    hole = f"the largest hole is {free.on(largest.name)} of {largest.total} on {largest.name}"
    remedy = _room_on_a_node(shape, counted, free, own)
    return _Remedy(f"{hole}{remedy.message}", remedy.holders)


def _room_on_a_node(shape: Shape, counted: Sequence[_Counted], free: FreeMap, own: frozenset[str]) -> _Remedy:
    """The node that needs the least freeing, or whole nodes of a domain where freed nodes become spares first."""
    size = shape.gpus_per_pod
    helpful = [node for each in counted for node in each.room.nodes if _helps(node, each.room, shape)]
    others = [node for node in helpful if _is_clearable(node, size, free, own)]
    if others:
        node = _cheapest(others, free)
        holders = _holders_of([node], free, own)
        missing = size - free.on(node.name)
        return _Remedy(f"; to make room, free {_gpus(missing)} more on {node.name}{_held_by(holders)}", holders)
    best = _nearest(1, counted)
    if helpful or best.clearable <= best.room.spares_due < best.large_enough:
        return _Remedy(f"; {_full_of_its_own('node', shape, counted, free, own)}")
    if best.large_enough <= best.room.spares_due:
        return _Remedy(", and no node has that many at all")
    remedy = _nodes_to_free(shape, 1, best, free, own)
    return _Remedy(f"; {remedy.message}", remedy.holders)


def _full_of_its_own(what: str, shape: Shape, counted: Sequence[_Counted], free: FreeMap, own: frozenset[str]) -> str:
    """That nobody else could make room, where the replicas beside which this one would serve hold too much."""
    nodes = [node for each in counted for node in each.room.nodes if node.total >= shape.gpus_per_pod]
    mine = _named(own & _holders_of(nodes, free, NOBODY))
    add = f"a node with {_gpus(shape.gpus_per_pod)}" if what == "node" else "nodes"
    return f"its own replicas (of {mine}) hold too much of every {what} that is large enough: add {add}"


def _helps(node: FabricNode, room: Room, shape: Shape) -> bool:
    """Whether freeing the node would help: one that becomes wholly free turns into a spare while spares are due."""
    becomes_a_spare = node.total == shape.gpus_per_pod and len(room.spares) < room.spares_due
    return node.total >= shape.gpus_per_pod and not becomes_a_spare


def _room_in_a_domain(
    shape: Shape, group: int, counted: Sequence[_Counted], free: FreeMap, own: frozenset[str]
) -> _Remedy:
    best = _nearest(group, counted)
    have = f"{best.room.name} comes nearest with {best.fitting}"
    if best.fitting >= group:
        return _Remedy(f"{have}, which is too few for all stages; free more nodes of one zone")
    if not any(each.large_enough - each.room.spares_due >= group for each in counted):
        return _Remedy(f"{have}, and no NVLink domain has that many at all")
    if best.clearable - best.room.spares_due < group:
        return _Remedy(f"{have}; {_full_of_its_own('NVLink domain', shape, counted, free, own)}")
    remedy = _nodes_to_free(shape, group, best, free, own)
    return _Remedy(f"{have}; {remedy.message}", remedy.holders)


def _nearest(group: int, counted: Sequence[_Counted]) -> _Counted:
    """The domain with the least to free, preferably among those where others could make room."""
    return max(
        counted,
        key=lambda each: (each.clearable - each.room.spares_due >= group, each.fitting, each.large_enough),
    )


def _nodes_to_free(shape: Shape, group: int, counted: _Counted, free: FreeMap, own: frozenset[str]) -> _Remedy:
    """How many nodes to free: those that the group lacks, and those that spares take first."""
    room, size = counted.room, shape.gpus_per_pod
    spares = room.spares_due - len(room.spares)
    missing = group - counted.fitting + spares
    busy = [node for node in room.nodes if free.on(node.name) < size <= node.total]
    holders = _holders_of([node for node in busy if _is_clearable(node, size, free, own)], free, own)
    whose = "its nodes" if shape.pods > 1 else f"the nodes of {room.name}"
    first = f", of which spareNodesPerDomain keeps {spares}" if spares else ""
    return _Remedy(f"to make room, free {missing} more of {whose}{_held_by(holders)}{first}", holders)


def _spared(shape: Shape, group: int, counted: Sequence[_Counted], free: FreeMap) -> str:
    """The free nodes that would complete a slot, if they were not kept as spares."""
    kept: list[str] = []
    for each in counted:
        fitting = [node.name for node in each.room.spares if free.on(node.name) >= shape.gpus_per_pod]
        if each.fitting + len(fitting) >= group:
            kept += fitting
    if not kept:
        return ""
    return f"; spareNodesPerDomain keeps {_listed(kept)} free: lower it to use {'it' if len(kept) == 1 else 'them'}"


def _spared_by_others(rooms: Sequence[Room], free: FreeMap) -> str:
    """Idle nodes kept as spares by other pools, so that a reader knows why nothing is placed there."""
    kept: dict[str, list[str]] = {}
    for node in (node for room in rooms for node in room.nodes if node.used == 0 and free.on(node.name) < node.total):
        for holder in filter(are_spares, free.holders(node.name)):
            kept.setdefault(holder, []).append(node.name)
    parts = (f"; {_listed(names)} {'is' if len(names) == 1 else 'are'} kept as {each}" for each, names in kept.items())
    return "".join(parts)


def _kept(spares: int) -> str:
    return "1 spare node" if spares == 1 else f"{spares} spare nodes"


def _cheapest(nodes: Sequence[FabricNode], free: FreeMap) -> FabricNode:
    """The node that needs the least freeing; the first in order among equals."""
    return max(nodes, key=lambda node: (free.on(node.name), -len(free.holders(node.name))))


def _holders_of(nodes: Sequence[FabricNode], free: FreeMap, own: frozenset[str]) -> frozenset[str]:
    """Who holds GPUs of the nodes, without `own`."""
    return frozenset(holder for node in nodes for holder in free.holders(node.name)) - own


def _held_by(holders: frozenset[str]) -> str:
    return f" (held by {_named(holders)})" if holders else ""


def _named(holders: frozenset[str]) -> str:
    return ", ".join(sorted(holders)[:NAMED_HOLDERS]) + (", ..." if len(holders) > NAMED_HOLDERS else "")


def _passed_over(rooms: Sequence[Room], *, everything: bool = False) -> str:
    """Nodes excluded for reasons that somebody can remove; other accelerators only if `everything` is set."""
    by_reason: dict[Reason, list[tuple[FabricNode, Explanation]]] = {}
    for room in rooms:
        for node, refusal in room.passed_over:
            if everything or refusal.reason is not Reason.WrongAccelerator:
                by_reason.setdefault(refusal.reason, []).append((node, refusal))
    parts = [_counted(reason, refused) for reason, refused in sorted(by_reason.items())]
    return f"; passed over: {', '.join(parts)}" if parts else ""


def _counted(reason: Reason, refused: Sequence[tuple[FabricNode, Explanation]]) -> str:
    """One node by its own message, several by number and names; what they lack is told by the first message."""
    if len(refused) == 1:
        return refused[0][1].message
    named = f"{len(refused)} {reason.value} ({_listed([node.name for node, _ in refused])})"
    return f"{named}: {refused[0][1].message}" if reason is Reason.NodeLacksResource else named


def _listed(names: Sequence[str]) -> str:
    listed = sorted(names, key=natural)
    return ", ".join(listed[:NAMED_NODES]) + (", ..." if len(listed) > NAMED_NODES else "")


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"
