"""What is still free while one decision promises GPUs: the only mutable value of the core, local to one pass."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.domain.made_often import made_often

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weft.domain.fabric import Fabric

    # Names of those who run on each node, or how to find them: most passes name nobody.
    Occupants = Mapping[str, tuple[str, ...]] | Callable[[], Mapping[str, tuple[str, ...]]]


@made_often
@dataclass(frozen=True, slots=True)
class Hold:
    """GPUs of one node that are promised to a pod, or held by one. `holder` is who to name: `pool team/chat`.

    `joins` is 1 where the node's place in a ComputeDomain goes with them: a node can be in one only.
    """

    node: str
    gpus: int
    holder: str
    joins: int = 0


_SPARES = "spares of "


def spares_of(pool: str) -> str:
    """The holder of nodes that a pool keeps idle."""
    return f"{_SPARES}{pool}"


def are_spares(holder: str) -> bool:
    """Whether what a holder has is kept idle."""
    return holder.startswith(_SPARES)


class FreeMap:
    """Free GPUs by node: what the fabric shows minus what is promised.

    `occupants` name who runs where, for messages. Answers that depend on the fabric alone are remembered in `eligible`;
    those in `tallies` follow what is free, by reading in `changes` what happened since they last looked; those in
    `refusals` hold until something changes, as many replicas of one kind are refused with the same words.
    """

    __slots__ = (
        "_domain_of",
        "_free",
        "_holders",
        "_joined",
        "_occupants",
        "_promised",
        "_vacated",
        "changes",
        "eligible",
        "fabric",
        "refusals",
        "tallies",
    )

    def __init__(self, fabric: Fabric, occupants: Occupants) -> None:
        """Start from what pods hold; promises follow through `reserve`."""
        self.fabric = fabric
        self.eligible: dict[Any, Any] = {}
        self.tallies: dict[Any, Any] = {}
        self.refusals: dict[Any, tuple[int, Any]] = {}  # with the number of changes before them
        self.changes: list[tuple[str, int, int]] = []  # (node, GPUs that became free, ComputeDomains), in order
        self._domain_of = {node.name: index for index, domain in enumerate(fabric.domains) for node in domain.nodes}
        self._free = {node.name: node.total - node.used for domain in fabric.domains for node in domain.nodes}
        nodes = fabric.nodes().values()
        self._joined = Counter({each.name: len(each.compute_domains) for each in nodes if each.compute_domains})
        self._vacated: dict[str, list[Hold]] = defaultdict(list)
        self._occupants = occupants
        self._holders: dict[str, list[str]] = defaultdict(list)
        self._promised: dict[str, Counter[str]] = defaultdict(Counter)  # GPUs by node and holder

    @classmethod
    def of(cls, fabric: Fabric, reserved: Iterable[Hold] = (), occupants: Occupants | None = None) -> FreeMap:
        """The fabric's free GPUs minus what is already promised."""
        free = cls(fabric, occupants or {})
        for hold in reserved:
            free.reserve(hold)
        return free

    def on(self, node: str) -> int:
        """Free GPUs of a node; 0 for an unknown one."""
        return max(0, self._free.get(node, 0))

    @property
    def left(self) -> Mapping[str, int]:
        """Free GPUs by node, below 0 where more is promised than there is."""
        return self._free

    def each(self, nodes: Sequence[str], *, joins: bool = False) -> list[int]:
        """Free GPUs of nodes of the fabric, in their order; for pods that join a ComputeDomain none where one is."""
        if joins and self._joined:
            return [0 if self.has_joined(node) else max(0, self._free[node]) for node in nodes]
        return [left if (left := self._free[node]) > 0 else 0 for node in nodes]

    def has_joined(self, node: str) -> bool:
        """Whether a node is in a ComputeDomain, or promised to one, so that it cannot be in another.

        Where NVLink ends at the node, or nobody forms ComputeDomains, that keeps nobody away.
        """
        return self._joined[node] > 0 and self.fabric.nodes()[node].shares_memory

    def domain_of(self, node: str) -> int | None:
        """Position of a node's domain in the fabric."""
        return self._domain_of.get(node)

    def domains_of(self, nodes: Iterable[str]) -> list[int]:
        """Positions of the domains of nodes, in their order; of unknown ones none."""
        return [home for home in map(self._domain_of.get, nodes) if home is not None]

    def reserve(self, hold: Hold) -> None:
        """Promise GPUs."""
        self.shift(hold.node, -hold.gpus, hold.joins)
        self._holders[hold.node].append(hold.holder)
        self._promised[hold.node][hold.holder] += hold.gpus

    def release(self, hold: Hold) -> None:
        """Take a promise back."""
        self.shift(hold.node, hold.gpus, -hold.joins)
        self._holders[hold.node].remove(hold.holder)
        self._promised[hold.node][hold.holder] -= hold.gpus

    def shift(self, node: str, gpus: int, joins: int = 0) -> None:
        """Count so many GPUs more as free (fewer, if negative) without naming anybody: for `supposing`.

        `joins` are ComputeDomains that the node is in from now on, or not any more.
        """
        self._free[node] = self._free.get(node, 0) + gpus
        if joins:
            self._joined[node] += joins
        self.changes.append((node, gpus, joins))

    def suppose_gone(self, holds: Iterable[Hold]) -> None:
        """Count as free what they hold: for `supposing`."""
        for hold in holds:
            self.shift(hold.node, hold.gpus, -hold.joins)

    @contextmanager
    def supposing(self) -> Iterator[None]:
        """Undo every `shift` from within at the end: to ask what would be free if."""
        mark = len(self.changes)
        try:
            yield
        finally:
            for node, gpus, joins in reversed(self.changes[mark:]):
                self.shift(node, -gpus, -joins)

    def promised(self, node: str, beside: str) -> int:
        """GPUs of a node that are promised and that no pod holds yet, as the holder `beside` has to count them.

        What others shall have in the place of their own leaving pods takes nothing from it: those pods are counted.
        """
        known = self.fabric.nodes().get(node)
        if known is None:
            return 0
        others = self._promised[node].items() if node in self._promised else ()
        leave = ((name, gpus) for name, gpus in others if name != beside and name in self._vacated)
        in_place = sum(min(gpus, self.leaving(node, name)) for name, gpus in leave)
        return known.total - known.used - self._free[node] - in_place

    def leaving(self, node: str, holder: str) -> int:
        """GPUs of a node that a holder's own leaving pods hold."""
        return sum(hold.gpus for hold in self.vacated(holder) if hold.node == node)

    def vacate(self, hold: Hold) -> None:
        """Note that pods of a holder leave: what they hold until they are gone may be promised to it again."""
        self._vacated[hold.holder].append(hold)

    def vacated(self, holder: str) -> Sequence[Hold]:
        """What a holder's own leaving pods hold."""
        return self._vacated.get(holder, ())

    def holders(self, node: str) -> tuple[str, ...]:
        """Who holds GPUs of a node, by pods or by promise, each once and sorted."""
        if callable(self._occupants):
            self._occupants = self._occupants()
        return tuple(sorted({*self._occupants.get(node, ()), *self._holders.get(node, ())}))
