"""Which replicas leave when a pool shrinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.status import Assignment
    from weft.placement.freemap import FreeMap


@dataclass(frozen=True, slots=True)
class Departure:
    """A replica that could leave."""

    assignment: Assignment
    ready: bool
    outdated: bool


def choose_victims(candidates: Iterable[Departure], count: int, free: FreeMap) -> tuple[Departure, ...]:
    """The `count` replicas to remove, first to go first.

    Not ready before ready, outdated before current, then the one whose departure leaves the largest hole in its NVLink
    domain (then on a node), then the newest. Holes are judged one departure at a time.
    """
    if count <= 0:
        return ()
    domain_of = {node.name: domain for domain in free.fabric.domains for node in domain.nodes}

    def hole(assignment: Assignment) -> tuple[int, int]:
        domain = domain_of.get(assignment.nodes[0])
        around = sum(free.on(node.name) for node in domain.nodes) if domain is not None else 0
        gained = assignment.gpus_per_pod * len(assignment.nodes)
        return around + gained, max(free.on(node) for node in assignment.nodes) + assignment.gpus_per_pod

    def order(each: Departure) -> tuple[bool, bool, int, int, int]:
        domain_hole, node_hole = hole(each.assignment)
        return each.ready, not each.outdated, -domain_hole, -node_hole, -each.assignment.replica

    return tuple(sorted(candidates, key=order)[:count])
