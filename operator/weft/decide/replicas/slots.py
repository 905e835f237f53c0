"""Whether a replica has a slot, as the fabric is or once some of what is held is free."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.replicas.promises import holders_beside
from weft.engines.kv.host_memory import pod_memory, pod_needs
from weft.placement import ALONE, Hold, Neighbours, PlacementRefusal, Slot, find_slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.decide.plans.planning import Planned
    from weft.domain.spec import PlacementSpec
    from weft.placement import FreeMap

NOTHING: Sequence[Hold] = ()


def slot_with(  # noqa: PLR0913 - as `find_slot` takes it
    holds: Sequence[Hold],
    planned: Planned,
    placement: PlacementSpec,
    free: FreeMap,
    neighbours: Neighbours,
    *,
    tells: bool = True,
) -> Slot | PlacementRefusal:
    """A slot for one replica as if these holds were free, placed by these terms; `tells` is as in `find_slot`."""
    with free.supposing():
        free.suppose_gone(holds)
        needs = pod_needs(planned.spec, planned.plan)
        own = holders_beside(planned.pool)
        return find_slot(planned.plan.shape, placement, free, neighbours, needs, own=own, tells=tells)


def fits_in_place(planned: Planned, own: Sequence[Hold], free: FreeMap) -> bool:
    """Whether a replacement has a place, spares included, once what is kept or held for it (`own`) is free."""
    placement = replace(planned.spec.placement, spare_nodes_per_domain=0)
    return isinstance(slot_with(own, planned, placement, free, ALONE), Slot)


def have_room(replicas: int, planned: Planned, own: Sequence[Hold], free: FreeMap) -> bool:
    """Whether so many replacements have a place, spares included, once what these hold (`own`) is free."""
    return len(slots_of(replicas, planned, own, free)) == replicas


def slots_of(replicas: int, planned: Planned, own: Sequence[Hold], free: FreeMap) -> tuple[Slot, ...]:
    """The places that so many replacements have, as far as there is room; as `have_room`."""
    placement, found = replace(planned.spec.placement, spare_nodes_per_domain=0), list[Slot]()
    with free.supposing():
        free.suppose_gone(own)
        for _ in range(replicas):
            slot = slot_with(NOTHING, planned, placement, free, ALONE)
            if isinstance(slot, PlacementRefusal):
                break
            suppose_taken(slot, planned, free)
            found.append(slot)
    return tuple(found)


def suppose_taken(slot: Slot, planned: Planned, free: FreeMap) -> None:
    """Count as taken what a replica takes there, memory and its place in a ComputeDomain with it."""
    shape = planned.plan.shape
    joins = shape.pods > 1 or bool(planned.spec.placement.nvlink_domain)
    memory = pod_memory(planned.spec, planned.plan)
    for node in slot.nodes:
        free.shift(node, -shape.gpus_per_pod, int(joins), memory)
