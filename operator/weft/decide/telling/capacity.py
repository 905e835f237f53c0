"""What would have to be added for replicas that nothing has room for: GPUs, or what nodes lack besides them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.replicas.slots import suppose_taken
from weft.domain.decision import CapacityRequest
from weft.domain.spec import DomainRule
from weft.engines.kv.host_memory import pod_needs
from weft.placement import ALONE, Slot, find_slot, lacking_besides_gpus

if TYPE_CHECKING:
    from weft.decide.course import Growth
    from weft.domain.spec import Pairs
    from weft.placement import FreeMap


def capacity_request(growth: Growth, free: FreeMap) -> CapacityRequest | None:
    """What a cluster autoscaler, or a person, would have to add; None while nothing is missing in the fabric."""
    missing = growth.missing - len(growth.added)
    if not growth.lacks_a_slot or missing < 1:
        return None
    planned, stages = growth.planned, 1
    shape, placement = planned.plan.shape, planned.spec.placement
    if placement.domain is DomainRule.Preferred:
        stages = shape.pods // max(1, shape.domain_group_gpus // shape.gpus_per_pod)
    request = CapacityRequest(shape.accelerator, missing * stages, shape.pods // stages, shape.gpus_per_pod)
    lacking = lacking_besides_gpus(shape, placement, free, pod_needs(planned.spec, planned.plan))
    if lacking.ever:
        placed = _with_what_is_lacking(growth, missing, lacking.ever, free)
        return replace(request, besides=lacking.ever, on_free_gpus=placed * stages)
    if lacking.now and _with_what_is_lacking(growth, 1, lacking.now, free):
        return replace(request, besides=lacking.now)
    return request


def _with_what_is_lacking(growth: Growth, missing: int, lacking: Pairs, free: FreeMap) -> int:
    """How many of so many missing replicas would have a place if no node lacked these resources."""
    planned = growth.planned
    needs = tuple(pair for pair in pod_needs(planned.spec, planned.plan) if pair not in lacking)
    with free.supposing():
        free.suppose_gone((*growth.spares, *growth.opened))
        for placed in range(missing):
            slot = find_slot(planned.plan.shape, planned.spec.placement, free, ALONE, needs, tells=False)
            if not isinstance(slot, Slot):
                return placed
            suppose_taken(slot, planned, free)
    return missing
