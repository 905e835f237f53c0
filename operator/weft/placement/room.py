"""How many replicas of each size would still fit: sizes are powers of two, whole nodes above one node.

A replica within a node may use any of its GPUs. A larger one takes whole nodes of one NVLink domain, so that 18 nodes
of 4 GPUs hold one of 64 GPUs, or four of 16. Taints and labels are ignored, as they differ from pool to pool.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.room import AcceleratorRoom, DomainRoom
from weft.domain.values.remembered import LastAnswers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weft.domain.fabric import NvlinkDomain
    from weft.placement.freemap import FreeMap

REMEMBERED = 16_384  # domains
_Kind = tuple[int, int, tuple[int, ...], int]  # GPUs of a node, such nodes, free GPUs of those that are usable, parts
_Count = tuple[int, tuple[tuple[int, int], ...]]  # GPUs of the largest replica, and slots by size


_LAST: LastAnswers[tuple[NvlinkDomain, tuple[int, ...]], DomainRoom] = LastAnswers(REMEMBERED)


@dataclass(frozen=True, slots=True, eq=False)
class _Rooms:
    """The last answer, and the domains and free GPUs that it was counted from."""

    domains: tuple[NvlinkDomain, ...]
    left: dict[str, int]
    rooms: tuple[DomainRoom, ...]


_LAST_ROOMS: LastAnswers[tuple[tuple[NvlinkDomain, ...], dict[str, int]], _Rooms] = LastAnswers(1)


def rooms_of(free: FreeMap) -> tuple[DomainRoom, ...]:
    """The room in every domain of the fabric, in its order, counted once for all domains that are alike.

    Domains in which nothing has changed keep their last answer, and if none has, so does the whole fabric.
    """
    before, question = _LAST_ROOMS.last("rooms"), (free.fabric.domains, dict(free.left))
    return _LAST_ROOMS.ask("rooms", question, lambda _: _rooms(free, before)).rooms


def _rooms(free: FreeMap, before: _Rooms | None) -> _Rooms:
    domains, left = free.fabric.domains, dict(free.left)
    known: dict[_Kind, _Count] = {}

    def room(question: tuple[NvlinkDomain, tuple[int, ...]]) -> DomainRoom:
        return _room(*question, known)

    found = dict(enumerate(before.rooms)) if before is not None and len(before.rooms) == len(domains) else {}
    for place in _places_that_differ(free, before):
        domain = domains[place]
        found[place] = _LAST.ask(domain.name, (domain, tuple(free.each([node.name for node in domain.nodes]))), room)
    return _Rooms(domains, left, tuple(found.values()))


def _places_that_differ(free: FreeMap, before: _Rooms | None) -> Iterable[int]:
    """Positions of domains that were replaced, or in which the free GPUs of a node have changed."""
    domains = free.fabric.domains
    if before is None or len(before.rooms) != len(domains):
        return range(len(domains))
    others = {place for place, domain in enumerate(domains) if domain is not before.domains[place]}
    nodes = [node for node, gpus in free.left.items() if before.left.get(node) != gpus]
    return others.union([place for place in map(free.domain_of, nodes) if place is not None])


def by_accelerator(rooms: Iterable[DomainRoom]) -> tuple[AcceleratorRoom, ...]:
    """Sums over the domains of each accelerator, sorted by its name."""
    found: dict[str, list[DomainRoom]] = defaultdict(list)
    for room in rooms:
        found[room.accelerator].append(room)
    return tuple(_together(name, found[name]) for name in sorted(found))


def sizes(node_gpus: int, nodes: int) -> Iterator[int]:
    """1, 2, 4, ... GPUs up to a domain of so many nodes; above a node those that fill whole ones."""
    size = 1
    while size <= node_gpus * nodes:
        if size <= node_gpus or size % node_gpus == 0:
            yield size
        size *= 2


def _room(domain: NvlinkDomain, free: tuple[int, ...], known: dict[_Kind, _Count]) -> DomainRoom:
    whole: list[int] = []  # free GPUs of the nodes with whole GPUs
    parts = 0
    for node, left in zip(domain.nodes, free, strict=True):
        if node.unusable is None and node.shared:
            parts += left  # each serves a replica of one GPU only
        elif node.unusable is None:
            whole.append(left)
    totals = [node.total for node in domain.nodes]
    # A group uses whole GPUs, so nodes that offer parts do not define the size of a node, nor does a second board.
    uncut = [min(node.total, node.most_of_a_pod) for node in domain.nodes if not node.shared] or totals
    whole.sort()
    kind = max(uncut, default=0), len(uncut), tuple(whole), parts
    found = known.get(kind)
    if found is None:
        found = known[kind] = _count(*kind)
    return DomainRoom(domain.zone, domain.name, domain.accelerator, sum(totals), sum(whole) + parts, *found)


def _count(node_gpus: int, nodes: int, whole: tuple[int, ...], parts: int) -> _Count:
    left = Counter(whole)
    slots = ((size, _slots(size, node_gpus, left)) for size in sizes(node_gpus, nodes))
    on_one = min(max(left, default=0), node_gpus) or min(1, parts)
    largest = max(on_one, left[node_gpus] * node_gpus)
    return largest, tuple((size, count + (parts if size == 1 else 0)) for size, count in slots)


def _slots(size: int, node_gpus: int, left: Mapping[int, int]) -> int:
    """Slots for replicas of `size` GPUs; `left` is the number of nodes by their free GPUs."""
    if size <= node_gpus:
        return sum(gpus // size * nodes for gpus, nodes in left.items())
    return sum(nodes for gpus, nodes in left.items() if gpus >= node_gpus) // (size // node_gpus)


def _together(accelerator: str, rooms: list[DomainRoom]) -> AcceleratorRoom:
    slots: Counter[int] = Counter()
    for alike, count in Counter(room.slots for room in rooms).items():
        slots.update({size: fitting * count for size, fitting in alike})
    return AcceleratorRoom(
        accelerator,
        sum(room.total for room in rooms),
        sum(room.free for room in rooms),
        max(room.largest for room in rooms),
        tuple(sorted(slots.items())),
    )
