"""Find one slot: the tightest NVLink domain that holds the whole replica, so that big holes stay big.

Rule: best fit counted in slots of the arriving shape, the rule of Kueue's topology-aware scheduling.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.fabric import distance
from weft.domain.spec import DomainRule
from weft.placement.refusal import refuse
from weft.placement.rooms import by_name, natural, rooms_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weft.domain.fabric import FabricNode, NvlinkDomain, Tiers
    from weft.domain.reasons import Explanation
    from weft.domain.shape import Shape
    from weft.domain.spec import Pairs, PlacementSpec
    from weft.placement.freemap import FreeMap
    from weft.placement.rooms import Room


@dataclass(frozen=True, slots=True)
class Slot:
    """Nodes of one replica; `nodes[rank]` is the node of pod `rank`."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Nodes that matter to where a replica goes: of `siblings` in its pool, and of `partners` in the other half.

    Near a partner KV travels the shorter way, which counts for more than a tight fit: in its NVLink domain, below its
    leaf switch, in its block, and so on up to its zone. Where the pool wants to spread over zones, partners do not
    count.
    """

    siblings: tuple[str, ...] = ()
    partners: tuple[str, ...] = ()


ALONE = Neighbours()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no slot and what would make room, and the reason of every domain that was looked at."""

    explanation: Explanation
    domains: tuple[tuple[str, Explanation], ...]


@dataclass(frozen=True, slots=True)
class _Group:
    """Pods that must share one NVLink domain: the whole replica, or one pipeline stage."""

    pods: int
    gpus_per_pod: int


def find_slot(
    shape: Shape, placement: PlacementSpec, free: FreeMap, neighbours: Neighbours = ALONE, needs: Pairs = ()
) -> Slot | Refusal:
    """Nodes for one replica of `shape`, or why there are none. Promises nothing: the caller reserves.

    Pipeline stages share a domain unless `placement.domain` is Preferred; a stage itself never leaves one. `needs`
    is what each pod asks for beside accelerators.
    """
    rooms = rooms_for(shape, placement, free, needs)
    whole = _Group(shape.pods, shape.gpus_per_pod)
    best = _tightest(rooms, whole, free, _wishes(rooms, placement, neighbours))
    if best is not None:
        return Slot(_pick(best.nodes, whole, free))
    if shape.pipeline_parallel > 1 and shape.pods > 1 and placement.domain is DomainRule.Preferred:
        stage = _Group(max(1, shape.domain_group_gpus // shape.gpus_per_pod), shape.gpus_per_pod)
        nodes = _stages_over_domains(rooms, stage, shape.pods // stage.pods, free)
        if nodes is not None:
            return Slot(nodes)
    return Refusal(*refuse(shape, rooms, free, placement.domain))


@dataclass(frozen=True, slots=True)
class _Wishes:
    """How far each room is from the other half in tiers, and how many siblings are in its part of the fabric."""

    distance: dict[str, int]
    crowding: dict[str, int]


def _tightest(rooms: Sequence[Room], group: _Group, free: FreeMap, wishes: _Wishes) -> Room | None:
    """The nearest room with the fewest slots, but at least one; ties by free GPUs, then the spread wish, then name."""
    fitting = [(_slots(room.nodes, group, free), room) for room in rooms]
    fitting = [(slots, room) for slots, room in fitting if slots > 0]
    if not fitting:
        return None
    return min(
        fitting,
        key=lambda each: (
            wishes.distance.get(each[1].name, 0),
            each[0],
            _free_gpus(each[1], free),
            wishes.crowding.get(each[1].name, 0),
            natural(each[1].name),
        ),
    )[1]


def _wishes(rooms: Sequence[Room], placement: PlacementSpec, neighbours: Neighbours) -> _Wishes:
    apart = placement.spread == "Zone" or not neighbours.partners
    far = {} if apart else _distances(rooms, set(neighbours.partners))
    return _Wishes(far, _crowding(rooms, placement, neighbours.siblings))


def _distances(rooms: Sequence[Room], partners: set[str]) -> dict[str, int]:
    """Tiers between each room and the nearest domain with a partner, which is beside it in the order of paths."""
    paths = {room.name: _path(room.domain) for room in rooms}
    homes = sorted(paths[room.name] for room in rooms if any(node.name in partners for node in room.domain.nodes))
    return {
        name: min((distance(path, home) for home in _beside(path, homes)), default=0) for name, path in paths.items()
    }


def _path(domain: NvlinkDomain) -> Tiers:
    """The tiers with the domain below them; a board is none, as its pods exchange nothing over its NVLink."""
    return (*domain.tiers, domain.name if len(domain.nodes) > 1 else "")


def _beside(path: Tiers, homes: Sequence[Tiers]) -> Sequence[Tiers]:
    at = bisect_left(homes, path)
    return homes[max(0, at - 1) : at + 1]


def _free_gpus(room: Room, free: FreeMap) -> int:
    return sum(free.on(node.name) for node in room.nodes)


def _slots(nodes: Sequence[FabricNode], group: _Group, free: FreeMap) -> int:
    """How many such groups fit; pods of one group sit on nodes of their own."""
    rooms = [free.on(node.name) // group.gpus_per_pod for node in nodes]
    return sum(rooms) // group.pods if sum(room > 0 for room in rooms) >= group.pods else 0


def _crowding(rooms: Sequence[Room], placement: PlacementSpec, siblings: Iterable[str]) -> dict[str, int]:
    """How many nodes of sibling replicas each domain (or its zone) already holds, where the pool wants to spread."""
    taken = set(siblings)
    counts = {room.name: sum(node.name in taken for node in room.nodes) for room in rooms}
    if placement.spread == "Domain":
        return counts
    if placement.spread == "Zone":
        return {room.name: sum(counts[other.name] for other in rooms if other.zone == room.zone) for room in rooms}
    return {}


def _pick(nodes: Sequence[FabricNode], group: _Group, free: FreeMap) -> tuple[str, ...]:
    """Nodes for one group in a room that holds it: the fullest that fit, as near each other by name as possible."""
    order = sorted(nodes, key=by_name)
    index = {node.name: position for position, node in enumerate(order)}
    fitting = sorted((free.on(node.name), index[node.name], node.name) for node in nodes)
    fitting = [entry for entry in fitting if entry[0] >= group.gpus_per_pod]
    if group.pods == 1:
        return (fitting[0][2],)
    roomiest = fitting[group.pods - 1][0]
    usable = sorted((position, name) for room, position, name in fitting if room <= roomiest)
    windows = [usable[start : start + group.pods] for start in range(len(usable) - group.pods + 1)]
    closest = min(windows, key=lambda window: (window[-1][0] - window[0][0], window[0][0]))
    return tuple(name for _, name in closest)


def _stages_over_domains(rooms: Sequence[Room], stage: _Group, stages: int, free: FreeMap) -> tuple[str, ...] | None:
    """Pipeline stages spread over as few domains of one zone as it takes, each stage whole inside one domain."""
    for zone in sorted({room.zone for room in rooms}):
        near = [room for room in rooms if room.zone == zone]
        slots = {room.name: _stages_in(room.nodes, stage, free) for room in near}
        if sum(slots.values()) >= stages:
            near.sort(key=lambda room: (-slots[room.name], natural(room.name)))
            return tuple(_fill(near, stage, stages, free))
    return None


def _stages_in(nodes: Sequence[FabricNode], stage: _Group, free: FreeMap) -> int:
    """How many stages of one replica fit: unlike slots of different replicas, they share no node."""
    return sum(free.on(node.name) >= stage.gpus_per_pod for node in nodes) // stage.pods


def _fill(rooms: Sequence[Room], stage: _Group, stages: int, free: FreeMap) -> list[str]:
    nodes: list[str] = []
    for room in rooms:
        left = list(room.nodes)
        while len(nodes) < stages * stage.pods and _stages_in(left, stage, free):
            taken = _pick(left, stage, free)
            left = [node for node in left if node.name not in taken]  # every pod has a node of its own
            nodes.extend(taken)
    return nodes
