"""Nodes that a pool keeps free beside its replicas for the one that loses a node: nobody else is promised them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.decide.plans.nvlink_domains import within_its_domain
from weft.decide.replicas.promises import held_by, holder_name
from weft.decide.replicas.slots import fits_in_place
from weft.engines.kv.host_memory import pod_needs
from weft.placement import Hold, PlacementRefusal, eligible_domains, find_slot, spare_nodes, spares_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.decide.course import Growth, Turn
    from weft.placement import Departure, EligibleDomain, FreeMap


def keep_spares(growths: Iterable[Growth], free: FreeMap) -> None:
    """Hold `spareNodesPerDomain` idle nodes in every rack in which a pool has replicas, or had one until just now."""
    for growth in growths:
        for hold in _missing(growth, free):
            free.reserve(hold)
            growth.spares.append(hold)


def gives_way_to_its_spare(each: Departure, turn: Turn, free: FreeMap) -> bool:
    """Whether a replica on a silent node is given up at once, as spares are kept beside it for that very case.

    It serves nobody. Where a stand-in has room elsewhere, it stays, as the node may answer again; its own nodes can
    have a new replica only when it goes.
    """
    planned = within_its_domain(each.assignment, turn.planned, free.fabric)
    placement = planned.spec.placement
    if placement.spare_nodes_per_domain < 1 or each.ready or not each.may_return:
        return False
    elsewhere = find_slot(planned.plan.shape, placement, free, needs=pod_needs(planned.spec, planned.plan))
    replica = next(one for one in turn.survivors.replicas if one.assignment == each.assignment)
    return isinstance(elsewhere, PlacementRefusal) and fits_in_place(
        planned, held_by(planned.pool, replica.pods, free.fabric), free
    )


def _missing(growth: Growth, free: FreeMap) -> list[Hold]:
    planned = growth.planned
    due = planned.spec.placement.spare_nodes_per_domain
    if due < 1:
        return []
    nodes = {*growth.nodes, *(node for each in growth.replaced for node in each.nodes)}
    places = sorted({place for node in nodes if (place := free.domain_of(node)) is not None})
    usable = eligible_domains(planned.plan.shape, planned.spec.placement, free, pod_needs(planned.spec, planned.plan))
    racks = [each for each in (usable[place] for place in places) if len(each.domain.nodes) > 1]
    return [hold for rack in racks for hold in _in_rack(growth, rack, due, free)]


def _in_rack(growth: Growth, rack: EligibleDomain, due: int, free: FreeMap) -> list[Hold]:
    kept = {hold.node for hold in growth.spares}
    missing = due - sum(node.name in kept for node in rack.domain.nodes)
    holder = spares_of(holder_name(growth.planned.pool))
    return [Hold(node.name, node.total, holder) for node in spare_nodes(rack.nodes, missing, free)]
