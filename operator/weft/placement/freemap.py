"""What is still free while one decision reserves GPUs: the only mutable value of the core, local to one pass."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.domain.values.made_often import made_often

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weft.domain.fabric import Fabric

    # GPUs that pods hold by node and owner, or a function that finds them, as most passes name nobody.
    Occupants = Mapping[str, Mapping[str, int]] | Callable[[], Mapping[str, Mapping[str, int]]]

MEMORY = "memory"  # the resource, as nodes offer it and pods need it


@made_often
@dataclass(frozen=True, slots=True)
class Hold:
    """GPUs of one node that are reserved for a pod, or held by one. `holder` is named in messages: `pool team/chat`.

    `joins` is 1 where the node also joins a ComputeDomain with them; a node can be in one only. `memory` is what the
    pod needs of the node's own memory, in bytes; 0 where it names none.
    """

    node: str
    gpus: int
    holder: str
    joins: int = 0
    memory: int = 0


_SPARES = "spares of "


def spares_of(pool: str) -> str:
    """The holder name of nodes that a pool keeps idle as spares."""
    return f"{_SPARES}{pool}"


def are_spares(holder: str) -> bool:
    """Whether a holder name stands for nodes kept idle as spares."""
    return holder.startswith(_SPARES)


class FreeMap:
    """Free GPUs by node: what is free in the fabric minus what is reserved.

    Memory of nodes counts beside them: what nodes have in all minus what pods of pools need that name it; what others
    hold is not known. `occupants` name who runs where, for messages. Answers that depend on the fabric alone are cached
    in `eligible`; those in `tallies` are updated by reading in `changes` what happened since they were last used; those
    in `refusals` hold until something changes, as many replicas of one kind are refused for the same reason.
    """

    __slots__ = (
        "_domain_of",
        "_free",
        "_holders",
        "_joined",
        "_memory_taken",
        "_occupants",
        "_reserved",
        "_vacated",
        "changes",
        "eligible",
        "fabric",
        "refusals",
        "tallies",
    )

    def __init__(self, fabric: Fabric, occupants: Occupants) -> None:
        """Start from what pods hold; reservations follow through `reserve`."""
        self.fabric = fabric
        self.eligible: dict[Any, Any] = {}
        self.tallies: dict[Any, Any] = {}
        self.refusals: dict[Any, tuple[int, Any]] = {}  # with the number of changes before them
        # (node, GPUs that became free, ComputeDomains, bytes of memory that were taken), in order
        self.changes: list[tuple[str, int, int, int]] = []
        self._domain_of = {node.name: index for index, domain in enumerate(fabric.domains) for node in domain.nodes}
        self._free = {node.name: node.total - node.used for domain in fabric.domains for node in domain.nodes}
        nodes = fabric.nodes().values()
        self._joined = Counter({each.name: len(each.compute_domains) for each in nodes if each.compute_domains})
        self._memory_taken: Counter[str] = Counter()  # bytes, by node
        self._vacated: dict[str, list[Hold]] = defaultdict(list)
        self._occupants = occupants
        self._holders: dict[str, list[str]] = defaultdict(list)
        self._reserved: dict[str, Counter[str]] = defaultdict(Counter)  # GPUs by node and holder

    @classmethod
    def of(cls, fabric: Fabric, reserved: Iterable[Hold] = (), occupants: Occupants | None = None) -> FreeMap:
        """The fabric's free GPUs minus what is already reserved."""
        free = cls(fabric, occupants or {})
        for hold in reserved:
            free.reserve(hold)
        return free

    def on(self, node: str) -> int:
        """Free GPUs of a node; 0 for an unknown one."""
        return max(0, self._free.get(node, 0))

    @property
    def left(self) -> Mapping[str, int]:
        """Free GPUs by node, negative where more is reserved than exists."""
        return self._free

    def each(self, nodes: Sequence[str], *, joins: bool = False, memory: int = 0) -> list[int]:
        """Free GPUs of given nodes of the fabric, in order: 0 for those that may not take a pod whatever is free.

        With `joins` these are nodes that are in a ComputeDomain; with `memory`, nodes that have less left than that.
        """
        if (joins and self._joined) or (memory and self._memory_taken):
            barred = ((joins and self.has_joined(node)) or self.lacks_memory(node, memory) for node in nodes)
            return [0 if bars else max(0, self._free[node]) for node, bars in zip(nodes, barred, strict=True)]
        return [left if (left := self._free[node]) > 0 else 0 for node in nodes]

    def memory_left(self, node: str) -> float:
        """Bytes of memory that pools leave of what a node has in all; infinite where that is not known."""
        known = self.fabric.nodes().get(node)
        in_all = math.inf if known is None or known.left is None else dict(known.left).get(MEMORY, 0.0)
        return in_all - self._memory_taken[node]

    def lacks_memory(self, node: str, needed: int) -> bool:
        """Whether pools leave a node too little memory for one more pod."""
        return needed > 0 and self._memory_taken[node] > 0 and self.memory_left(node) < needed

    def take_memory(self, hold: Hold) -> None:
        """Count the memory of a pod that is there, as the fabric counts its GPUs alone."""
        if hold.memory:
            self.shift(hold.node, 0, memory=hold.memory)

    def has_joined(self, node: str) -> bool:
        """Whether a node is in a ComputeDomain, or reserved for one, so that it cannot join another.

        False where NVLink ends at the node, or nothing forms ComputeDomains, as that excludes nobody.
        """
        return self._joined[node] > 0 and self.fabric.nodes()[node].shares_memory

    def domain_of(self, node: str) -> int | None:
        """Position of a node's domain in the fabric."""
        return self._domain_of.get(node)

    def domains_of(self, nodes: Iterable[str]) -> list[int]:
        """Positions of the domains of nodes, in their order; unknown nodes are skipped."""
        return [home for home in map(self._domain_of.get, nodes) if home is not None]

    def reserve(self, hold: Hold) -> None:
        """Reserve GPUs."""
        self.shift(hold.node, -hold.gpus, hold.joins, hold.memory)
        self._holders[hold.node].append(hold.holder)
        self._reserved[hold.node][hold.holder] += hold.gpus

    def release(self, hold: Hold) -> None:
        """Cancel a reservation."""
        self.shift(hold.node, hold.gpus, -hold.joins, -hold.memory)
        self._holders[hold.node].remove(hold.holder)
        self._reserved[hold.node][hold.holder] -= hold.gpus

    def shift(self, node: str, gpus: int, joins: int = 0, memory: int = 0) -> None:
        """Count so many more GPUs as free (fewer, if negative) without a holder: for `supposing`.

        `joins` is the change in the number of ComputeDomains that the node is in, `memory` that in the bytes taken.
        """
        self._free[node] = self._free.get(node, 0) + gpus
        if joins:
            self._joined[node] += joins
        if memory:
            self._memory_taken[node] += memory
        self.changes.append((node, gpus, joins, memory))

    def suppose_gone(self, holds: Iterable[Hold]) -> None:
        """Count the GPUs and the memory of these holds as free: for `supposing`."""
        for hold in holds:
            self.shift(hold.node, hold.gpus, -hold.joins, -hold.memory)

    @contextmanager
    def supposing(self) -> Iterator[None]:
        """A context that undoes every `shift` made inside it at the end, for what-if questions."""
        mark = len(self.changes)
        try:
            yield
        finally:
            for node, gpus, joins, memory in reversed(self.changes[mark:]):
                self.shift(node, -gpus, -joins, -memory)

    def reserved(self, node: str, beside: str) -> int:
        """GPUs of a node that are reserved but not yet held by a pod, as the holder `beside` has to count them.

        Reservations of others in place of their own terminating pods do not count, as those pods are counted as used.
        """
        known = self.fabric.nodes().get(node)
        if known is None:
            return 0
        others = self._reserved[node].items() if node in self._reserved else ()
        leave = ((name, gpus) for name, gpus in others if name != beside and name in self._vacated)
        in_place = sum(min(gpus, self.leaving(node, name)) for name, gpus in leave)
        return known.total - known.used - self._free[node] - in_place

    def leaving(self, node: str, holder: str) -> int:
        """GPUs of a node held by a holder's own terminating pods."""
        return sum(hold.gpus for hold in self.vacated(holder) if hold.node == node)

    def vacate(self, hold: Hold) -> None:
        """Note that pods of a holder terminate: what they hold until then may be reserved for it again."""
        self._vacated[hold.holder].append(hold)

    def vacated(self, holder: str) -> Sequence[Hold]:
        """What a holder's own terminating pods hold."""
        return self._vacated.get(holder, ())

    def holders(self, node: str) -> tuple[str, ...]:
        """Holders of GPUs of a node, by pods or by reservation, each once and sorted."""
        return tuple(sorted({*self._occupants_of(node), *self._holders.get(node, ())}))

    def held(self, node: str, holders: Iterable[str]) -> int:
        """GPUs of a node that these holders have, by pods or by reservation."""
        by_pods, reserved = self._occupants_of(node), self._reserved.get(node, Counter[str]())
        return sum(by_pods.get(holder, 0) + reserved.get(holder, 0) for holder in holders)

    def _occupants_of(self, node: str) -> Mapping[str, int]:
        if callable(self._occupants):
            self._occupants = self._occupants()
        return self._occupants.get(node, {})
