"""What is still free while one decision promises GPUs: the only mutable value of the core, local to one pass."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.domain.fabric import Fabric


@dataclass(frozen=True, slots=True)
class Hold:
    """GPUs of one node that are promised to a pod which is not bound yet. `holder` is who to name: `pool team/chat`."""

    node: str
    gpus: int
    holder: str


class FreeMap:
    """Free GPUs by node: what the fabric shows minus what is promised.

    `occupants` name who runs where, for messages.
    """

    __slots__ = ("_free", "_holders", "_occupants", "eligible", "fabric")

    def __init__(self, fabric: Fabric, occupants: Mapping[str, tuple[str, ...]]) -> None:
        """Start from what pods hold; promises follow through `reserve`."""
        self.fabric = fabric
        self.eligible: dict[Any, Any] = {}  # answers of `eligibility`, which depend on the fabric alone
        self._free = {node.name: node.total - node.used for domain in fabric.domains for node in domain.nodes}
        self._occupants = occupants
        self._holders: dict[str, list[str]] = defaultdict(list)

    @classmethod
    def of(
        cls, fabric: Fabric, reserved: Iterable[Hold] = (), occupants: Mapping[str, tuple[str, ...]] | None = None
    ) -> FreeMap:
        """The fabric's free GPUs minus what is already promised."""
        free = cls(fabric, occupants or {})
        for hold in reserved:
            free.reserve(hold)
        return free

    def on(self, node: str) -> int:
        """Free GPUs of a node; 0 for an unknown one."""
        return max(0, self._free.get(node, 0))

    def reserve(self, hold: Hold) -> None:
        """Promise GPUs."""
        self._free[hold.node] = self._free.get(hold.node, 0) - hold.gpus
        self._holders[hold.node].append(hold.holder)

    def release(self, hold: Hold) -> None:
        """Take a promise back."""
        self._free[hold.node] += hold.gpus
        self._holders[hold.node].remove(hold.holder)

    def holders(self, node: str) -> tuple[str, ...]:
        """Who holds GPUs of a node, by pods or by promise, each once and sorted."""
        return tuple(sorted({*self._occupants.get(node, ()), *self._holders.get(node, ())}))
