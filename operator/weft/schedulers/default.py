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
    from weft.schedulers.protocol import Ask, Member, Taken


class Default:
    """Nothing to ask, and one node to name."""

    def hand_over(self, ask: Ask) -> None:
        """Weft picks the nodes itself."""
        del ask

    def marks(self, member: Member) -> Marks:
        """The node that was promised. A field, not a label: a node may be labelled with the name of another.

        Beside it the clique for which it was chosen: one that has left it would cut the replica's NVLink.
        """
        clique = ((CLIQUE, (member.clique,)),) if member.clique else ()
        return Marks(fields=(("metadata.name", (member.node or "",)),), expressions=clique)

    def waits_for(self, handover: Handover, admission: AdmissionRecord | None) -> str:
        """Nobody stands between the release of a pod and its binding."""
        del handover, admission
        return ""

    def taken(self, pods: Sequence[PodRecord], admission: AdmissionRecord | None) -> Taken | None:
        """Whoever evicts a pod here is somebody else."""
        del pods, admission
        return None
