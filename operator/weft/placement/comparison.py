"""Where a replica would go, and why not in each other domain: the rule of `search`, explained domain by domain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.texts.figures import counted
from weft.placement.refusal import refuse
from weft.placement.rooms import rooms_for
from weft.placement.search import ALONE, Neighbours, Slot, find_in, wishes_of
from weft.placement.tally import tally_of

if TYPE_CHECKING:
    from weft.domain.shape import Shape
    from weft.domain.spec import Pairs, PlacementSpec
    from weft.placement.freemap import FreeMap
    from weft.placement.tally import Merits


@dataclass(frozen=True, slots=True)
class Comparison:
    """A slot in a domain, and every other domain with the reason why it is not taken."""

    slot: Slot
    domain: str
    others: tuple[tuple[str, Explanation], ...]


def compare(
    shape: Shape, placement: PlacementSpec, free: FreeMap, neighbours: Neighbours = ALONE, needs: Pairs = ()
) -> Comparison | None:
    """The slot that `find_slot` picks for a whole replica, and why not the others; None where no domain holds one."""
    tally, wishes = tally_of(shape, placement, free, needs), wishes_of(placement, neighbours, free)
    slot = find_in(tally, placement, neighbours, free)
    taken = free.domain_of(slot.nodes[0]) if slot is not None else None
    if slot is None or taken is None:
        return None
    rooms = rooms_for(shape, placement, free, needs)
    refused = dict(refuse(shape, rooms, free, placement.domain).domains)
    best, name = tally.merits(taken, wishes), rooms[taken].name
    others = tuple(
        (room.name, _why_not(tally.merits(index, wishes), best, name) if tally.holds_one(index) else refused[room.name])
        for index, room in enumerate(rooms)
        if index != taken
    )
    return Comparison(slot, name, others)


def _why_not(other: Merits, best: Merits, taken: str) -> Explanation:
    """The first criterion, by priority, in which a domain that has room is worse than the best."""
    if other.in_zone != best.in_zone:
        said = f"its zone has {counted(other.in_zone, 'pod')} of the pool, that of {taken} {best.in_zone}"
    elif other.shared != best.shared:
        said = f"farther from the other half of the split than {taken}"
    elif other.pods != best.pods:
        said = f"room for {counted(other.pods, 'such pod')}, in {taken} for {best.pods}: the larger hole stays whole"
    elif other.gpus != best.gpus:
        said = f"{counted(other.gpus, 'GPU')} free, in {taken} {best.gpus}: the larger hole stays whole"
    elif other.in_domain != best.in_domain:
        said = f"{counted(other.in_domain, 'pod')} of the pool there, in {taken} {best.in_domain}"
    else:
        said = f"as good as {taken}, which comes first by name"
    return Explanation(Reason.OtherPreferred, said)
