"""Nodes that a pool keeps free beside its replicas for the one that loses a node: nobody else is promised them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.decide.promises import holder_name
from weft.placement import Hold, eligible_domains, spare_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.decide.growth import Growth
    from weft.placement import EligibleDomain, FreeMap


def keep_spares(growths: Iterable[Growth], free: FreeMap) -> None:
    """Hold `spareNodesPerDomain` idle nodes in every rack in which a pool has replicas, or had one until just now."""
    for growth in growths:
        for hold in _missing(growth, free):
            free.reserve(hold)
            growth.spares.append(hold)


def _missing(growth: Growth, free: FreeMap) -> list[Hold]:
    planned = growth.planned
    due = planned.spec.placement.spare_nodes_per_domain
    if due < 1:
        return []
    nodes = {*growth.nodes, *(node for each in growth.replaced for node in each.nodes)}
    places = sorted({place for node in nodes if (place := free.domain_of(node)) is not None})
    usable = eligible_domains(planned.plan.shape, planned.spec.placement, free, planned.spec.engine.resources)
    racks = [each for each in (usable[place] for place in places) if len(each.domain.nodes) > 1]
    return [hold for rack in racks for hold in _in_rack(growth, rack, due, free)]


def _in_rack(growth: Growth, rack: EligibleDomain, due: int, free: FreeMap) -> list[Hold]:
    kept = {hold.node for hold in growth.spares}
    missing = due - sum(node.name in kept for node in rack.domain.nodes)
    holder = f"spares of {holder_name(growth.planned.pool)}"
    return [Hold(node.name, node.total, holder) for node in spare_nodes(rack.nodes, max(0, missing), free)]
