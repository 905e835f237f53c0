"""Move a few replicas so that one that fits nowhere gets a place: surge first, smallest moves first, at most so many.

Each move takes its target before it leaves its source. Moves are in an order in which they can be done one after the
other; a target may be what an earlier move left behind.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING

from weft.placement.clearing import Lack, clearings, cost, single_clearings
from weft.placement.search import Slot, find_in, find_whole, pick
from weft.placement.tally import tally_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weft.placement.clearing import Clearing, Cost, Demand, Movable
    from weft.placement.freemap import FreeMap
    from weft.placement.tally import Tally

    _Waiting = tuple[Cost, int, Clearing | None]  # a domain by what it costs at least, or one of its clearings

EFFORT = 400  # domains and clearings looked at for one replica: a cluster without hope costs no more than another
BREADTH = (
    EFFORT,
    12,
    4,
)  # of them for the replica itself, for one that leaves for it, and for one that leaves for that
UNBOUNDED = 1 << 30


@dataclass(frozen=True, slots=True)
class Move:
    """One replica from its nodes to others; `target[rank]` is the new node of pod `rank`."""

    owner: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    gpus_per_pod: int

    @property
    def gpus(self) -> int:
        """GPUs that are held twice while it goes on."""
        return self.gpus_per_pod * len(self.target)


@dataclass(frozen=True, slots=True)
class Repacking:
    """Moves in order, and the slot that is free once they are done."""

    moves: tuple[Move, ...]
    slot: Slot

    @property
    def gpus(self) -> int:
        """GPUs that move."""
        return sum(move.gpus for move in self.moves)

    @property
    def waves(self) -> tuple[tuple[Move, ...], ...]:
        """The moves by what can go on at the same time: one whose target another leaves comes a wave later."""
        waves: list[list[Move]] = []
        for move in self.moves:
            waits = [index for index, wave in enumerate(waves) for each in wave if set(each.source) & set(move.target)]
            place = max(waits, default=-1) + 1
            if place == len(waves):
                waves.append([])
            waves[place].append(move)
        return tuple(map(tuple, waves))


def repack(demand: Demand, movable: Iterable[Movable], free: FreeMap, most_moves: int) -> Repacking | None:
    """The cheapest set of at most `most_moves` moves found that opens a slot for `demand`, or None.

    First moves into what is free already; only if these do not do, moves that wait for others. Where one move is
    enough, one is found. No moves where it fits already. `free` is afterwards as it was, and the answer does not depend
    on the order of `movable`.
    """
    fits = find_whole(demand.shape, demand.placement, free, demand.neighbours, demand.needs)
    if fits is not None:
        return Repacking((), fits)
    if most_moves < 1 or _left(demand, free) < demand.shape.gpus:
        return None
    search = _Search(free, sorted(movable, key=attrgetter("owner")))
    for levels in (1, len(BREADTH)):
        found = search.open_slot(_Task(demand, most_moves, levels))
        if found is not None:
            return found
    return search.single(_Task(demand, 1, 1))


def _left(demand: Demand, free: FreeMap) -> int:
    """Free GPUs of its kind anywhere: moves never make more of them."""
    kind = demand.shape.accelerator
    return sum(
        sum(free.each([node.name for node in domain.nodes]))
        for domain in free.fabric.domains
        if domain.accelerator == kind
    )


@dataclass(frozen=True, slots=True)
class _Task:
    """A replica to make room for, in how many moves and GPUs, and through how many levels of others that make room.

    `pinned` ones stay where they are; only replicas with less than `below` GPUs leave, so that no one comes back.
    """

    demand: Demand
    most_moves: int
    levels: int
    level: int = 0
    under: int = UNBOUNDED
    below: int = UNBOUNDED
    pinned: frozenset[str] = frozenset()


class _Search:
    """What one repacking knows; `free` is changed by supposition only."""

    def __init__(self, free: FreeMap, movable: Sequence[Movable]) -> None:
        self.free = free
        self.effort = EFFORT
        self.tallies: dict[int, Tally] = {}
        self.residents: dict[int, list[Movable]] = defaultdict(list)
        for each in movable:
            for domain in {free.domain_of(node) for node in each.nodes}:
                if domain is not None:
                    self.residents[domain].append(each)

    def tally(self, demand: Demand) -> Tally:
        """Where such replicas fit; known by the object, as hashing it takes longer than the answer."""
        if id(demand) not in self.tallies:
            found = tally_of(demand.shape, demand.placement, self.free, demand.needs)
            self.tallies[id(demand)] = found
        return self.tallies[id(demand)]

    def open_slot(self, task: _Task) -> Repacking | None:
        """Try the cheapest clearings of all domains first, and stop where none can be cheaper than what is found."""
        tally, roomy = self.tally(task.demand), self._roomy(task)
        waiting: list[_Waiting] = [((least, 0, ()), domain, None) for domain, least in self._bounds(tally)]
        heapify(waiting)
        best, under, breadth = None, task.under, BREADTH[task.level]
        while waiting and waiting[0][0][0] < under and breadth and self.effort:
            _, domain, clearing = heappop(waiting)
            breadth, self.effort = breadth - 1, self.effort - 1
            if clearing is None:
                for found in self._expand(domain, task, roomy, under):
                    heappush(waiting, (cost(found), domain, found))
                continue
            repacking = self._settle(clearing, domain, task, under)
            if repacking is not None and repacking.gpus < under:
                best, under = repacking, repacking.gpus
        return best

    def single(self, task: _Task) -> Repacking | None:
        """The cheapest single move of all that there are."""
        tally, roomy = self.tally(task.demand), self._roomy(task)
        found: list[tuple[Cost, int, Clearing]] = []
        for domain, _ in self._bounds(tally):
            may_leave = [each for each in self.residents[domain] if roomy[id(each.demand)]]
            singles = single_clearings(self._lack(tally, domain), may_leave)
            found.extend((cost(clearing), domain, clearing) for clearing in singles)
        for _, domain, clearing in sorted(found, key=lambda each: each[:2]):
            repacking = self._settle(clearing, domain, task, UNBOUNDED)
            if repacking is not None:
                return repacking
        return None

    def _roomy(self, task: _Task) -> Mapping[int, bool]:
        """Kinds that could leave: those that fit somewhere else, or all if others may make room for them."""
        if task.level + 1 < task.levels:
            return defaultdict(lambda: True)
        demands = {id(each.demand): each.demand for here in self.residents.values() for each in here}
        return {name: self.tally(demand).tightest() is not None for name, demand in demands.items()}

    def _bounds(self, tally: Tally) -> Iterator[tuple[int, int]]:
        """Domains where moves may help, with the GPUs that have to leave at least."""
        for domain in self.residents:
            lack = self._lack(tally, domain)
            if len(lack.by_node) >= lack.missing:
                yield domain, lack.least_gpus

    def _lack(self, tally: Tally, domain: int) -> Lack:
        nodes = tally.nodes(domain)
        return Lack.of(dict(zip(nodes, self.free.each(nodes), strict=True)), tally.group)

    def _expand(self, domain: int, task: _Task, roomy: Mapping[int, bool], under: int) -> list[Clearing]:
        may_leave = [
            each
            for each in self.residents[domain]
            if each.gpus < task.below and each.owner not in task.pinned and roomy[id(each.demand)]
        ]
        return clearings(self._lack(self.tally(task.demand), domain), may_leave, task.most_moves, under)

    def _settle(self, clearing: Clearing, domain: int, task: _Task, under: int) -> Repacking | None:
        """Find new places for those that leave, with either of two ways to choose the nodes of the slot."""
        for nodes in self._slots(clearing, domain, self.tally(task.demand)):
            with self.free.supposing():
                moves = self._move_all(clearing, nodes, task, under)
            if moves is not None:
                return Repacking(moves, Slot(nodes))
        return None

    def _slots(self, clearing: Clearing, domain: int, tally: Tally) -> list[tuple[str, ...]]:
        """Nodes as they would be chosen once all have left, and nodes that spare a place for the largest to leave."""
        _, leaving = clearing
        known = tally.domains[domain].names
        before = dict(zip(known, self.free.each(known), strict=True))
        with self.free.supposing():
            for each in leaving:
                self._shift(each.nodes, each.gpus_per_pod)
            if not tally.holds_one(domain):
                return []
            names = tally.nodes(domain)
            usual = pick(names, tally.group, self.free)
            after = self.free.each(names)
        size = max(leaving, key=attrgetter("gpus")).gpus_per_pod
        fitting = [
            (before[name] >= size, gpus, position)
            for position, (name, gpus) in enumerate(zip(names, after, strict=True))
            if gpus >= tally.group.gpus_per_pod
        ]
        sparing = tuple(names[position] for _, _, position in sorted(fitting)[: tally.group.pods])
        return [usual] if set(sparing) == set(usual) else [usual, sparing]

    def _move_all(self, clearing: Clearing, slot: tuple[str, ...], task: _Task, under: int) -> tuple[Move, ...] | None:
        """Largest first, as it has the least choice; what the slot needs beyond their GPUs is nobody's target."""
        gpus, leaving = clearing
        due = _Due(dict.fromkeys(slot, task.demand.shape.gpus_per_pod))
        for node, beyond in due.beyond(leaving).items():
            self.free.shift(node, -beyond)
            due.take(node, beyond)
        pinned = task.pinned | {each.owner for each in leaving}
        moves: list[Move] = []
        for rank, each in enumerate(sorted(leaving, key=lambda each: (-each.gpus, each.owner))):
            spare = task.most_moves - len(moves) - (len(leaving) - rank)
            inner = _Task(each.demand, spare, task.levels, task.level + 1, under - gpus, each.gpus, pinned)
            found = self._place(each, inner)
            if found is None:
                return None
            moves += found
            gpus += sum(move.gpus for move in found[:-1])
            pinned |= {move.owner for move in found}
            for node in each.nodes:
                self.free.shift(node, each.gpus_per_pod - due.take(node, each.gpus_per_pod))
        return tuple(moves)

    def _place(self, each: Movable, task: _Task) -> list[Move] | None:
        """Where it fits now, or where it fits after moves of smaller ones; its target is taken, its source not left."""
        slot = find_in(self.tally(each.demand), each.demand.placement, each.demand.neighbours, self.free)
        before: tuple[Move, ...] = ()
        if slot is None:
            opened = self.open_slot(task) if task.level < task.levels and task.most_moves > 0 else None
            if opened is None:
                return None
            before, slot = opened.moves, opened.slot
            for move in before:
                self._shift(move.target, -move.gpus_per_pod)
                self._shift(move.source, move.gpus_per_pod)
        self._shift(slot.nodes, -each.gpus_per_pod)
        return [*before, Move(each.owner, each.nodes, slot.nodes, each.gpus_per_pod)]

    def _shift(self, nodes: Iterable[str], gpus: int) -> None:
        for node in nodes:
            self.free.shift(node, gpus)


@dataclass(frozen=True, slots=True)
class _Due:
    """GPUs that a slot still has to get, by node."""

    by_node: dict[str, int]

    def beyond(self, leaving: Iterable[Movable]) -> dict[str, int]:
        """What it needs of each node on top of what these leave there."""
        left = dict(self.by_node)
        for each in leaving:
            for node in each.nodes:
                if node in left:
                    left[node] = max(0, left[node] - each.gpus_per_pod)
        return left

    def take(self, node: str, gpus: int) -> int:
        """Take at most so many GPUs of a node for the slot; returns how many."""
        taken = min(self.by_node.get(node, 0), gpus)
        if taken:
            self.by_node[node] -= taken
        return taken
