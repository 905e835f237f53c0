"""What every scheduler adapter answers, and the values it is asked with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.domain.cluster import PodRecord
    from weft.domain.queueing import AdmissionRecord, Queueing
    from weft.domain.reasons import Explanation
    from weft.domain.shape import Shape
    from weft.domain.spec import Pairs, PlacementSpec
    from weft.domain.status import Handover


@dataclass(frozen=True, slots=True)
class Site:
    """A node that a replica could run on: its NVLink domain, and the label (key, value) that names its accelerator."""

    domain: str
    labels: Mapping[str, str]
    product: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Ask:
    """A replica that wants nodes. `sites` are all nodes that it may use, free or not; `queueing` None: not asked."""

    namespace: str
    shape: Shape
    placement: PlacementSpec
    sites: tuple[Site, ...]
    queueing: Queueing | None


@dataclass(frozen=True, slots=True)
class ReplicaPod:
    """One pod of a replica. `group` is the name of the replica, `node` is set where Weft picked one.

    `clique` is the NVLink clique in which that node has to be, empty where it does not matter.
    """

    group: str
    rank: int
    node: str | None
    handover: Handover | None
    node_selector: Pairs
    clique: str = ""


@dataclass(frozen=True, slots=True)
class Marks:
    """What a pod carries for its scheduler, in addition to what Weft sets on every pod.

    `gates` are scheduling gates; `fields` and `expressions` are (key, values) of one required node affinity term.
    """

    labels: Pairs = ()
    annotations: Pairs = ()
    gates: tuple[str, ...] = ()
    node_selector: Pairs = ()
    fields: tuple[tuple[str, tuple[str, ...]], ...] = ()
    expressions: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Eviction:
    """A replica that its scheduler gave up. `fault` says whether the next attempt should wait because of it."""

    message: str
    fault: bool


class SchedulerAdapter(Protocol):
    """The adapter of one scheduler. Every method is a pure function of its arguments."""

    def hand_over(self, ask: Ask) -> Handover | Explanation | None:
        """What a new replica asks for, or why it cannot; None where Weft picks the nodes."""

    def marks(self, member: ReplicaPod) -> Marks:
        """What one pod carries so that this scheduler does with it what was decided."""

    def waits_for(self, handover: Handover, admission: AdmissionRecord | None) -> str:
        """What a replica that may not run yet waits for, in the scheduler's words; empty where it waits for nothing."""

    def taken(self, pods: Sequence[PodRecord], admission: AdmissionRecord | None) -> Eviction | None:
        """Why the scheduler gave a replica up, or None while it did not."""
