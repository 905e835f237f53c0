"""What an external scheduler such as Kueue shows: its queues, and the admission of each replica."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Stated:
    """One condition of another controller's object; `holds` says whether its status is True."""

    kind: str
    holds: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class AdmissionRecord:
    """The admission of one group of pods by a scheduler, such as a Workload of Kueue."""

    namespace: str
    name: str
    stated: tuple[Stated, ...] = ()

    def says(self, kind: str) -> Stated | None:
        """Its condition of this kind, or None."""
        return next((each for each in self.stated if each.kind == kind), None)


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """A queue that a namespace may use, such as a LocalQueue of Kueue."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Queueing:
    """All that is known of one external scheduler.

    `installed` says whether its CRDs exist in the cluster, `refused` names the kinds that RBAC denies us. `topologies`
    are lists of node labels, each naming levels of the network from the outermost to the innermost.
    """

    installed: bool = False
    refused: tuple[str, ...] = ()
    queues: tuple[QueueRecord, ...] = ()
    admissions: Mapping[tuple[str, str], AdmissionRecord] = field(default_factory=dict, hash=False)
    topologies: tuple[tuple[str, ...], ...] = ()

    def admission(self, namespace: str, group: str) -> AdmissionRecord | None:
        """The admission of one group of pods so far, or None."""
        return self.admissions.get((namespace, group))
