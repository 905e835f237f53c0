"""What one search may use of each NVLink domain: the nodes the pool may take, less what it keeps as spares."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.placement.eligibility import eligible_domains

if TYPE_CHECKING:
    from weft.domain.fabric import FabricNode, NvlinkDomain
    from weft.domain.reasons import Explanation
    from weft.domain.shape import Shape
    from weft.domain.spec import Pairs, PlacementSpec
    from weft.placement.eligibility import EligibleDomain
    from weft.placement.freemap import FreeMap


@dataclass(frozen=True, slots=True)
class Room:
    """A domain as one search sees it: `nodes` may be used, `spares` are free and stay so, `passed_over` have reasons.

    `spares_due` is how many the pool wants kept; nodes that become wholly free fill them up first.
    """

    domain: NvlinkDomain
    nodes: tuple[FabricNode, ...]
    spares: tuple[FabricNode, ...]
    spares_due: int
    passed_over: tuple[tuple[FabricNode, Explanation], ...]

    @property
    def name(self) -> str:
        """Name of the domain."""
        return self.domain.name

    @property
    def zone(self) -> str:
        """Zone of the domain."""
        return self.domain.zone


def rooms_for(shape: Shape, placement: PlacementSpec, free: FreeMap, needs: Pairs = ()) -> tuple[Room, ...]:
    """Every domain of the fabric as a search for this shape and pool may use it."""
    return tuple(_room(each, placement, free) for each in eligible_domains(shape, placement, free, needs))


def _room(each: EligibleDomain, placement: PlacementSpec, free: FreeMap) -> Room:
    """Wholly free nodes of a rack are kept, as many as the pool wants; a board has no spares."""
    due = placement.spare_nodes_per_domain if len(each.domain.nodes) > 1 else 0
    if due < 1:
        return Room(each.domain, each.nodes, (), 0, each.passed_over)
    idle = [node for node in sorted(each.nodes, key=by_name) if free.on(node.name) == node.total]
    kept = {node.name for node in idle[-due:]}
    return Room(
        each.domain,
        tuple(node for node in each.nodes if node.name not in kept),
        tuple(node for node in each.nodes if node.name in kept),
        due,
        each.passed_over,
    )


def by_name(node: FabricNode) -> tuple[tuple[int, str], ...]:
    """Sort key of nodes in which `tray-2` comes before `tray-10`."""
    return natural(node.name)


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Sort key in which numbers inside a name count as numbers."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name) if part)
