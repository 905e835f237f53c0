"""Which replicas leave when a pool shrinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.reasons import Explanation
    from weft.domain.status import Assignment
    from weft.placement.freemap import FreeMap


@dataclass(frozen=True, slots=True)
class Departure:
    """A replica that could leave: `outdated`, of an earlier revision, or `displaced`, for a reason with its node."""

    assignment: Assignment
    ready: bool
    outdated: bool
    displaced: Explanation | None = None

    @property
    def may_return(self) -> bool:
        """Whether its node only does not answer: then it is not given up before its time."""
        return self.displaced is not None and self.displaced.reason is Reason.NodeNotReady


def choose_victims(candidates: Iterable[Departure], count: int, free: FreeMap) -> tuple[Departure, ...]:
    """The `count` replicas to remove, first to go first.

    Not ready before ready, displaced and outdated before the others, then the one whose departure leaves the largest
    hole in its NVLink domain (then on a node), then the newest. Holes are judged one departure at a time.
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
        return (
            each.ready,
            not (each.outdated or each.displaced is not None),
            -domain_hole,
            -node_hole,
            -each.assignment.replica,
        )

    return tuple(sorted(candidates, key=order)[:count])
