"""Move a few replicas so that one that fits nowhere gets a slot: surge first, smallest moves first, a bounded number.

Each move starts at its target before it leaves its source. Targets are free before anything moves, so that all moves
can proceed at the same time and in any order.
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
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from weft.placement.clearing import Clearing, Cost, Movable, Requirements
    from weft.placement.freemap import FreeMap
    from weft.placement.tally import Tally

    _Waiting = tuple[Cost, int, Clearing | None]  # a domain with its lower bound, or one of its clearings

EFFORT = 200  # domains and clearings tried per replica, so that a hopeless cluster costs no more than another


@dataclass(frozen=True, slots=True)
class Move:
    """The move of one replica to other nodes; `target[rank]` is the new node of pod `rank`."""

    owner: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    gpus_per_pod: int

    @property
    def gpus(self) -> int:
        """GPUs that are held twice during the move."""
        return self.gpus_per_pod * len(self.target)


@dataclass(frozen=True, slots=True)
class Repacking:
    """Moves in any order, and the slot that is free after them; nobody else may take its free part before."""

    moves: tuple[Move, ...]
    slot: Slot

    @property
    def gpus(self) -> int:
        """GPUs of all replicas that move."""
        return sum(move.gpus for move in self.moves)


def repack(required: Requirements, movable: Iterable[Movable], free: FreeMap, most_moves: int) -> Repacking | None:
    """The cheapest set of at most `most_moves` moves found that opens a slot for `required`, or None.

    If one move is enough, one is found. There are no moves if it fits already. `free` is unchanged afterwards, and the
    answer does not depend on the order of `movable`.
    """
    fits = find_whole(required.shape, required.placement, free, required.neighbours, required.needs)
    if fits is not None:
        return Repacking((), fits)
    if most_moves < 1 or _left(required, free) < required.shape.gpus:
        return None
    search = _Search.of(required, sorted(movable, key=attrgetter("owner")), free)
    return search.cheapest(most_moves) or search.single()


def still_opens(
    wanted: tuple[Requirements, Slot], leaving: Sequence[Movable], replaced: Collection[str], free: FreeMap
) -> Repacking | None:
    """The chosen slot for `wanted`, if it is free after all have left, and moves for those not `replaced` yet.

    None where it is not free, or where one of them fits nowhere. `replaced` are owners.
    """
    required, slot = wanted
    search = _Search.among(leaving, required, _tallies(leaving, free), free)
    waiting = [each for each in leaving if each.owner not in replaced]
    return search.settle(leaving, slot.nodes, waiting) if search.opens(slot.nodes, leaving) else None


def _left(required: Requirements, free: FreeMap) -> int:
    """Free GPUs of the accelerator in the whole fabric: moves never increase that."""
    kind = required.shape.accelerator
    return sum(
        sum(free.each([node.name for node in domain.nodes]))
        for domain in free.fabric.domains
        if domain.accelerator == kind
    )


def _tallies(movable: Iterable[Movable], free: FreeMap) -> dict[int, Tally]:
    """Tallies of the replicas by `id` of their requirements."""
    wishes = {id(each.required): each.required for each in movable}
    return {known: tally_of(each.shape, each.placement, free, each.needs) for known, each in wishes.items()}


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for one repacking: where a replica fits, and who could leave which domain. `free` ends unchanged."""

    free: FreeMap
    tally: Tally
    residents: Mapping[int, Sequence[Movable]]  # by domain, only those that fit somewhere else
    tallies: Mapping[int, Tally]  # by `id` of their requirements: hashing them takes longer than the answer

    @classmethod
    def of(cls, required: Requirements, movable: Sequence[Movable], free: FreeMap) -> _Search:
        """A search among the movable replicas that fit somewhere else."""
        tallies = _tallies(movable, free)
        return cls.among(
            [each for each in movable if not tallies[id(each.required)].is_empty()], required, tallies, free
        )

    @classmethod
    def among(
        cls, movable: Iterable[Movable], required: Requirements, tallies: Mapping[int, Tally], free: FreeMap
    ) -> _Search:
        """A search among all these replicas, by the NVLink domains that they are in."""
        residents: dict[int, list[Movable]] = defaultdict(list)
        for each in movable:
            for domain in {domain for node in each.nodes if (domain := free.domain_of(node)) is not None}:
                residents[domain].append(each)
        return cls(free, tally_of(required.shape, required.placement, free, required.needs), residents, tallies)

    def cheapest(self, most_moves: int) -> Repacking | None:
        """The first repacking that works, trying the cheapest clearings of all domains first."""
        waiting: list[_Waiting] = [((lack.least_gpus, 0, ()), domain, None) for domain, lack in self._lacks()]
        heapify(waiting)
        for _ in range(EFFORT):
            if not waiting:
                break
            _, domain, clearing = heappop(waiting)
            if clearing is None:
                for found in clearings(self._lack(domain), self.residents[domain], most_moves):
                    heappush(waiting, (cost(found), domain, found))
            else:
                _, leaving = clearing
                slot = self.slot(leaving, domain)
                if slot is not None and (repacking := self.settle(leaving, slot, leaving)) is not None:
                    return repacking
        return None

    def single(self) -> Repacking | None:
        """The cheapest repacking by a single move."""
        found = [
            (cost(clearing), domain, clearing[1])
            for domain, lack in self._lacks()
            for clearing in single_clearings(lack, self.residents[domain])
        ]
        for _, domain, leaving in sorted(found, key=lambda each: each[:2]):
            for slot in (self.slot(leaving, domain), self.slot_beside(leaving[0], domain)):
                if slot is not None and (repacking := self.settle(leaving, slot, leaving)) is not None:
                    return repacking
        return None

    def _lacks(self) -> Iterator[tuple[int, Lack]]:
        """Yield the domains where moves may help, with what each lacks."""
        for domain in self.residents:
            lack = self._lack(domain)
            if len(lack.by_node) >= lack.missing:
                yield domain, lack

    def _lack(self, domain: int) -> Lack:
        nodes = self.tally.nodes(domain)
        left = self.free.each(nodes, joins=self.tally.group.joins, memory=self.tally.group.memory)
        return Lack.of(dict(zip(nodes, left, strict=True)), self.tally.group)

    def settle(self, leaving: Sequence[Movable], slot: tuple[str, ...], waiting: Sequence[Movable]) -> Repacking | None:
        """The repacking with new nodes for the `waiting` ones outside the slot and its domain's spares, or None."""
        spares = self._spares(slot, leaving)
        with self.free.supposing():
            for node, (gpus, memory) in self._beyond(slot, leaving).items():
                self.free.shift(node, -gpus, int(self.tally.group.joins), memory)
            for node in spares:
                self.free.shift(node, -self.free.on(node))
            moves = self._move_all(waiting)
        return None if moves is None else Repacking(moves, Slot(slot))

    def opens(self, slot: tuple[str, ...], leaving: Iterable[Movable]) -> bool:
        """Whether these nodes may form one slot, and are free once all of `leaving` have left."""
        group = self.tally.group
        domain = self.free.domain_of(slot[0]) if len(slot) == group.pods else None
        if domain is None:
            return False
        with self.free.supposing():
            for each in leaving:
                self._leave(each)
            left = self.free.each(slot, joins=group.joins, memory=group.memory)
            return set(slot) <= set(self.tally.nodes(domain)) and min(left) >= group.gpus_per_pod

    def slot(self, leaving: Iterable[Movable], domain: int) -> tuple[str, ...] | None:
        """The slot that would be chosen in a domain once all of `leaving` have left."""
        with self.free.supposing():
            for each in leaving:
                self._leave(each)
            if not self.tally.holds_one(domain):
                return None
            return pick(self.tally.nodes(domain), self.tally.group, self.free)

    def slot_beside(self, leaving: Movable, domain: int) -> tuple[str, ...] | None:
        """A slot that leaves the moving replica as many nodes as possible, as it may move within its domain."""
        size, own = self.tally.group.gpus_per_pod, leaving.gpus_per_pod
        with self.free.supposing():
            self._leave(leaving)
            names = self.tally.nodes(domain)
            after = self.free.each(names, joins=self.tally.group.joins, memory=self.tally.group.memory)
        before = [gpus - own * (name in leaving.nodes) for name, gpus in zip(names, after, strict=True)]
        fitting = [index for index, gpus in enumerate(after) if gpus >= size]
        fitting.sort(key=lambda index: (min(before[index], after[index] - size) < own <= before[index], after[index]))
        pods = self.tally.group.pods
        return tuple(names[index] for index in sorted(fitting[:pods])) if len(fitting) >= pods else None

    def _spares(self, slot: tuple[str, ...], leaving: Iterable[Movable]) -> tuple[str, ...]:
        """Nodes of the slot's domain that its pool keeps free, once all have left."""
        domain = self.free.domain_of(slot[0])
        with self.free.supposing():
            for each in leaving:
                self._leave(each)
            return tuple(node.name for node in self.tally.room(domain).spares) if domain is not None else ()

    def _beyond(self, slot: Iterable[str], leaving: Iterable[Movable]) -> dict[str, tuple[int, int]]:
        """GPUs and memory that the slot needs by node beyond what leaving replicas hold: no target may take them."""
        needed = dict.fromkeys(slot, (self.tally.group.gpus_per_pod, self.tally.group.memory))
        for each in leaving:
            for node in each.nodes:
                if node in needed:
                    gpus, memory = needed[node]
                    needed[node] = max(0, gpus - each.gpus_per_pod), max(0, memory - each.memory)
        return needed

    def _move_all(self, waiting: Iterable[Movable]) -> tuple[Move, ...] | None:
        """Find the tightest slot for each, the largest first, as it has the least choice; no source counts as free."""
        moves: list[Move] = []
        for each in sorted(waiting, key=lambda each: (-each.gpus, each.owner)):
            required = each.required
            slot = find_in(self.tallies[id(required)], required.placement, required.neighbours, self.free)
            if slot is None:
                return None
            for node in slot.nodes:
                self.free.shift(node, -each.gpus_per_pod, each.joins, each.memory)
            moves.append(Move(each.owner, each.nodes, slot.nodes, each.gpus_per_pod))
        return tuple(moves)

    def _leave(self, each: Movable) -> None:
        for node in each.nodes:
            self.free.shift(node, each.gpus_per_pod, -each.joins, -each.memory)
