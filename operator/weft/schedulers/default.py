"""The stock scheduler: Weft picks the nodes and pins each pod to its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.schedulers.levels import CLIQUE
from weft.schedulers.protocol import Marks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.domain.cluster import PodRecord
    from weft.domain.queueing import AdmissionRecord
    from weft.domain.status import Handover
    from weft.schedulers.protocol import Ask, Eviction, ReplicaPod


class Default:
    """The adapter of the stock scheduler: nothing is handed over, and each pod names its one node."""

    def hand_over(self, ask: Ask) -> None:
        """None: Weft picks the nodes itself."""
        del ask

    def marks(self, member: ReplicaPod) -> Marks:
        """Node affinity to the promised node, by field and not by label: a node may carry the label of another's name.

        Also the clique for which the node was chosen: a node that has left it would cut the replica's NVLink.
        """
        clique = ((CLIQUE, (member.clique,)),) if member.clique else ()
        return Marks(fields=(("metadata.name", (member.node or "",)),), expressions=clique)

    def waits_for(self, handover: Handover, admission: AdmissionRecord | None) -> str:
        """Nothing: nobody else admits a pod between its release and its binding."""
        del handover, admission
        return ""

    def taken(self, pods: Sequence[PodRecord], admission: AdmissionRecord | None) -> Eviction | None:
        """None: this scheduler gives no replica up, and whoever evicts a pod here is somebody else."""
        del pods, admission
        return None
