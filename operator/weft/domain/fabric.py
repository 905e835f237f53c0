"""The fabric: zone > NVLink domain > node > GPU, with what is free on each. Built by `fabric/`, read by the core."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.domain.cluster import Taint
    from weft.domain.reasons import Explanation
    from weft.domain.spec import Pairs


@dataclass(frozen=True, slots=True)
class FabricNode:
    """A node with accelerators. `total` is allocatable devices, `used` what pods hold (anyone's).

    `unusable` explains why nothing new may go here (not ready, cordoned); taints and labels are matched per pool.
    `shared` marks time-sliced, MPS or MIG devices, which never serve TP > 1. `left` is what else pods may ask for:
    of extended resources what pods do not hold, of CPU and memory all there is, as nobody counts who has it; None where
    nobody knows.
    """

    name: str
    domain: str
    zone: str
    accelerator: str
    resource: str
    memory_bytes: int
    total: int
    used: int
    labels: Pairs = field(default=(), repr=False)
    taints: tuple[Taint, ...] = ()
    shared: bool = False
    unusable: Explanation | None = None
    left: tuple[tuple[str, float], ...] | None = field(default=None, repr=False)

    @property
    def free(self) -> int:
        """Devices nobody holds, never negative (allocatable may fall below what runs)."""
        return max(0, self.total - self.used)


@dataclass(frozen=True, slots=True)
class NvlinkDomain:
    """GPUs that reach each other over NVLink: one board (its node) or a rack clique. Nodes are sorted by name."""

    name: str
    zone: str
    accelerator: str
    nodes: tuple[FabricNode, ...]

    @property
    def total(self) -> int:
        """Allocatable devices of all nodes."""
        return sum(node.total for node in self.nodes)

    @property
    def free(self) -> int:
        """Free devices of usable nodes."""
        return sum(node.free for node in self.nodes if node.unusable is None)


@dataclass(frozen=True, slots=True)
class Fabric:
    """All domains, sorted by name, and what looked odd while reading the cluster (contradicting labels, say)."""

    domains: tuple[NvlinkDomain, ...]
    notes: tuple[Explanation, ...] = ()
    _by_name: Mapping[str, FabricNode] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index the nodes once: they are looked up for every replica."""
        index = {node.name: node for domain in self.domains for node in domain.nodes}
        object.__setattr__(self, "_by_name", index)

    def nodes(self) -> Mapping[str, FabricNode]:
        """Every accelerator node by name."""
        return self._by_name
