"""Which replicas would have to leave a domain so that another one fits: the cheapest sets, by GPUs moved."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.placement.eligibility import memory_of
from weft.placement.search import ALONE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.domain.shape import Shape
    from weft.domain.spec import Pairs, PlacementSpec
    from weft.placement.search import Neighbours
    from weft.placement.tally import Group


@dataclass(frozen=True, slots=True)
class Requirements:
    """What one replica requires of its nodes; `needs` is what each pod requests besides accelerators."""

    shape: Shape
    placement: PlacementSpec
    needs: Pairs = ()
    neighbours: Neighbours = ALONE


@dataclass(frozen=True, slots=True)
class Movable:
    """A replica that may be moved: its owner (unique, and the last tie-break), its requirements, and its nodes.

    `joins` is 1 where it has a ComputeDomain, which its nodes leave when it moves.
    """

    owner: str
    required: Requirements
    nodes: tuple[str, ...]
    joins: int = 0

    @property
    def gpus(self) -> int:
        """GPUs of the replica, which a move holds twice."""
        return self.required.shape.gpus_per_pod * len(self.nodes)

    @property
    def gpus_per_pod(self) -> int:
        """GPUs on each of its nodes."""
        return self.required.shape.gpus_per_pod

    @property
    def memory(self) -> int:
        """Bytes of memory that it needs on each of its nodes; 0 where it names none."""
        return memory_of(self.required.needs)


Clearing = tuple[int, tuple[Movable, ...]]  # GPUs of the replicas that leave, and these replicas
Gains = tuple[int, Clearing]  # nodes that fit once those replicas have left
Cost = tuple[int, int, tuple[str, ...]]  # of a clearing: GPUs, moves, and who leaves
Best = dict[tuple[int, int], Clearing]  # the cheapest clearing by (nodes or GPUs gained, moves)


@dataclass(frozen=True, slots=True)
class Lack:
    """What a domain lacks to hold a group: how many nodes are `missing`, and GPUs lacking `by_node` where too few."""

    missing: int
    by_node: Mapping[str, int]

    @classmethod
    def of(cls, left: Mapping[str, int], group: Group) -> Lack:
        """The lack of a domain, from the free GPUs of its usable nodes."""
        by_node = {node: group.gpus_per_pod - gpus for node, gpus in left.items() if gpus < group.gpus_per_pod}
        return cls(group.pods - len(left) + len(by_node), by_node)

    @property
    def least_gpus(self) -> int:
        """A lower bound on the GPUs that have to leave: no clearing is cheaper."""
        return sum(sorted(self.by_node.values())[: self.missing])


def clearings(lack: Lack, residents: Iterable[Movable], most_moves: int) -> list[Clearing]:
    """The cheapest clearing for each number of moves, cheapest first.

    Replicas on several nodes are considered one by one, those on one node together with their neighbours there. Among
    equal ones the first in the order of `residents` is kept.
    """
    alone: dict[str, list[Movable]] = defaultdict(list)
    options: list[list[Gains]] = []
    for each in residents:
        if len(each.nodes) > 1:
            gain = _gain(each, lack.by_node)
            options += [[(gain, (each.gpus, (each,)))]] if gain else []
        elif each.nodes[0] in lack.by_node:
            alone[each.nodes[0]].append(each)
    most = sorted([gains[0][0] for gains in options] + [1] * len(alone))[-most_moves:]
    if sum(most) < lack.missing:
        return []
    for node, together in alone.items():
        options.append([(1, clearing) for clearing in _off_one_node(together, lack.by_node[node], most_moves)])
    best: Best = {(0, 0): (0, ())}
    for choices in options:
        _widen(best, choices, lack.missing, most_moves)
    return _done(best, lack.missing)


def single_clearings(lack: Lack, residents: Iterable[Movable]) -> list[Clearing]:
    """The clearings by one replica whose departure alone is enough."""
    return [(each.gpus, (each,)) for each in residents if _gain(each, lack.by_node) >= lack.missing]


def _gain(each: Movable, by_node: Mapping[str, int]) -> int:
    return sum(0 < by_node.get(node, 0) <= each.gpus_per_pod for node in each.nodes)


def _off_one_node(residents: list[Movable], lack: int, most_moves: int) -> list[Clearing]:
    """For each number of moves, the clearing with the fewest GPUs that frees enough on one node."""
    if sum(each.gpus for each in residents) < lack:
        return []
    best: Best = {(0, 0): (0, ())}
    for each in residents:
        _widen(best, [(each.gpus, (each.gpus, (each,)))], lack, most_moves)
    return _done(best, lack)


def _widen(best: Best, choices: Iterable[Gains], goal: int, most_moves: int) -> None:
    """One step of the knapsack: take one of the choices, or none."""
    for (gained, moves), (gpus, leaving) in list(best.items()):
        if gained == goal:
            continue
        for gain, (more_gpus, more) in choices:
            state = min(goal, gained + gain), moves + len(more)
            total = gpus + more_gpus
            if state[1] <= most_moves and (state not in best or total < best[state][0]):
                best[state] = total, (*leaving, *more)


def _done(best: Best, goal: int) -> list[Clearing]:
    return sorted((each for (gained, _), each in best.items() if gained == goal), key=cost)


def cost(clearing: Clearing) -> Cost:
    """Fewest GPUs first, then the fewest moves; names decide among equals."""
    return clearing[0], len(clearing[1]), tuple(each.owner for each in clearing[1])
