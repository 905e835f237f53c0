"""Nodes that go away or do not answer: their replicas are replaced first and drained after."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.decide.health import Replica
    from weft.domain.fabric import Fabric
    from weft.domain.reasons import Explanation


def displacement(replica: Replica, fabric: Fabric) -> Explanation | None:
    """Why a replica has to move though nothing ended: what is said of the first of its nodes that nobody may use."""
    nodes = fabric.nodes()
    found = (nodes[name].unusable for name in replica.nodes if name in nodes)
    return next((why for why in found if why is not None), None)
