"""The fabric: zone > NVLink domain > node > GPU, with what is free on each. Built by `fabric/`, read by the core."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.domain.cluster import Taint
    from weft.domain.reasons import Explanation
    from weft.domain.spec import Pairs


Tiers = tuple[str, ...]  # a location in the network, outermost first: the zone, then the network's levels


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice that a node will go: after at most `seconds` from `began` (epoch seconds).

    `began` is when its taints were last written if the notice itself has no time; None where unknown.
    """

    seconds: float
    began: float | None = None

    def left(self, now: float, since: float | None = None) -> float:
        """Seconds until the node goes, at most; `since` is the time to count from for a notice without one."""
        began = self.began if self.began is not None else since
        return self.seconds if began is None else min(self.seconds, began + self.seconds - now)


@dataclass(frozen=True, slots=True)
class FabricNode:
    """A node with accelerators. `total` is allocatable devices, `used` what pods hold (anyone's).

    `unusable` explains why nothing new may go here (not ready, faulty); taints and labels are matched per pool.
    `leaving` explains why replicas here must be replaced before the node is lost (cordoned, reclaimed, a lost GPU):
    such a node is also unusable. `impaired` explains a problem of a node that is used all the same.
    `shared` marks time-sliced, MPS or MIG devices, which never serve TP > 1. `left` is what pods may request besides:
    of extended resources what pods do not hold, of CPU and memory the whole amount, as their use is not tracked; None
    where unknown. `tiers` have the same levels on every node of a fabric, with an empty string where a level is not
    named. `nics` counts network devices for RDMA by resource. `capacity` is devices, healthy or not. `shares_memory`
    says that pods on several nodes of its NVLink domain can be given a ComputeDomain; `compute_domains` are those that
    it is in, as namespace/name. `notice` says how long a node that is `leaving` still exists, where that is known.
    `board_gpus` is how many of its GPUs NVLink joins where the node has several boards, and 0 where it joins all.
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
    tiers: Tiers = ()
    nics: tuple[tuple[str, int], ...] = ()
    leaving: Explanation | None = None
    impaired: Explanation | None = None
    capacity: int = field(default=0, repr=False)
    shares_memory: bool = False
    compute_domains: tuple[str, ...] = ()
    notice: Notice | None = None
    board_gpus: int = 0

    @property
    def installed(self) -> int:
        """Devices that the node has when all are healthy."""
        return max(self.total, self.capacity)

    @property
    def most_of_a_pod(self) -> int:
        """Devices that one pod of a group may have here when all are healthy: no more than NVLink joins."""
        return min(self.installed, self.board_gpus) if self.board_gpus else self.installed

    @property
    def free(self) -> int:
        """Devices that no pod holds, never negative (allocatable may fall below what runs)."""
        return max(0, self.total - self.used)


@dataclass(frozen=True, slots=True)
class NvlinkDomain:
    """GPUs that reach each other over NVLink: one board (its node) or a rack clique. Nodes are sorted by name.

    `tiers` are the network tiers common to all of its nodes.
    """

    name: str
    zone: str
    accelerator: str
    nodes: tuple[FabricNode, ...]
    tiers: Tiers = ()

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
    """All domains, sorted by name, and notes on inconsistencies in the cluster, such as contradicting labels.

    `layout` identifies everything that pods do not change: fabrics with the same one differ only in use and readiness.
    None where unknown; it never changes an answer, but saves computing it again.
    """

    domains: tuple[NvlinkDomain, ...]
    notes: tuple[Explanation, ...] = ()
    layout: object | None = field(default=None, repr=False, compare=False)
    _by_name: Mapping[str, FabricNode] = field(init=False, repr=False, compare=False)
    _troubled: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index the nodes once, as they are looked up for every replica."""
        index = {node.name: node for domain in self.domains for node in domain.nodes}
        troubled = frozenset([name for name, node in index.items() if node.unusable or node.leaving])
        object.__setattr__(self, "_by_name", index)
        object.__setattr__(self, "_troubled", troubled)

    def nodes(self) -> Mapping[str, FabricNode]:
        """Every accelerator node by name."""
        return self._by_name

    def troubled(self) -> frozenset[str]:
        """Names of the nodes that are leaving or unusable; replicas on all others need no attention."""
        return self._troubled
