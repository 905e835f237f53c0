"""Nodes that go away or do not answer: their replicas are replaced first and drained after, if there is time for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from weft.decide.health import Replica
    from weft.domain.fabric import Fabric, FabricNode
    from weft.domain.reasons import Explanation

# No engine of a size worth scaling starts within this time: AWS' notice, the longest of a cloud for spot capacity.
NO_START_SECONDS = 120.0


def displacement(replica: Replica, fabric: Fabric) -> Explanation | None:
    """Why a replica has to move though nothing ended: what is said of the first of its nodes that goes, or is away."""
    nodes = fabric.nodes()
    found = (nodes[name].leaving or _silence(nodes[name]) for name in replica.nodes if name in nodes)
    return next((why for why in found if why is not None), None)


def is_urgent(replica: Replica, fabric: Fabric, drain_seconds: float, now: float) -> bool:
    """Whether one of its nodes goes before a successor could serve, or so soon that requests need the time to finish.

    Of a notice that nobody dates it counts how long it is in all.
    """
    nodes = fabric.nodes()
    notices = (nodes[name].notice for name in replica.nodes if name in nodes)
    enough = max(drain_seconds, NO_START_SECONDS)
    return any(notice is not None and notice.left(now) <= enough for notice in notices)


def _silence(node: FabricNode) -> Explanation | None:
    """A node that is not ready may come back, and may not; other reasons against new pods leave the old ones be."""
    silent = node.unusable is not None and node.unusable.reason is Reason.NodeNotReady
    return node.unusable if silent else None
