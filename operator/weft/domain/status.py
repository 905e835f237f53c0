"""What Weft itself wrote: the persisted part of a resource's status that decisions and convergence read back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.reasons import Explanation
    from weft.domain.shape import EngineRelease, Plan


@dataclass(frozen=True, slots=True)
class Assignment:
    """Replica -> nodes, persisted before any pod exists. `nodes[rank]` is the node of pod `rank`.

    `revision` is the hash of everything that the replica's pods are rendered from; a replica whose revision differs from
    the pool's is outdated. `since` is epoch seconds.
    """

    replica: int
    revision: str
    nodes: tuple[str, ...]
    gpus_per_pod: int
    since: float


@dataclass(frozen=True, slots=True)
class Failure:
    """The last time a replica of this revision failed, for back-off and for the reader. `count` is in a row."""

    revision: str
    count: int
    last: float
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Condition:
    """One Kubernetes condition of ours; `status` is True, False or Unknown as text; times are kept by the writer."""

    kind: str
    status: str
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """The persisted state of a pool. `next_replica` is the next unused replica id: ids are never reused."""

    desired_replicas: int = 0
    next_replica: int = 0
    revision: str = ""
    engine: EngineRelease | None = None
    plan: Plan | None = None
    assignments: tuple[Assignment, ...] = ()
    failure: Failure | None = None
    scale: Explanation | None = None


@dataclass(frozen=True, slots=True)
class SplitStatus:
    """The persisted state of a split: which engine release both sides run."""

    engine: EngineRelease | None = None
