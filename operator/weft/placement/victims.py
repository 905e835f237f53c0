"""Which replicas leave when a pool shrinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.made_often import made_often
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.reasons import Explanation
    from weft.domain.status import Assignment
    from weft.placement.freemap import FreeMap


_BY_CHOICE = frozenset({Reason.MakesRoom, Reason.SlowerThanSiblings})


@made_often
@dataclass(frozen=True, slots=True)
class Departure:
    """A replica that could leave: `outdated`, of an earlier revision, or `displaced`, for a reason with its node.

    `bound` is where its pods are if another scheduler picked the nodes. `alone` says that it is ready and serves nobody
    yet, since the other half of its pair lacks as many; `urgent` that its node goes before a successor could serve.
    Such a one may take requests for `serves_seconds` that have time to be over, and `lasts` says that it does, as
    nobody else serves. `share` is what it serves of a replica of the planned shape, by its GPUs: at most all. It is
    `stranded` where one of its nodes is gone: it serves, and nobody knows for how long.
    """

    assignment: Assignment
    ready: bool
    outdated: bool
    displaced: Explanation | None = None
    bound: tuple[str, ...] = ()
    alone: bool = False
    urgent: bool = False
    serves_seconds: float = 0.0
    lasts: bool = False
    share: float = 1.0
    stranded: bool = False

    @property
    def may_return(self) -> bool:
        """Whether its node only does not answer: then it is not given up before its time."""
        return self.displaced is not None and self.displaced.reason is Reason.NodeNotReady

    @property
    def could_stay(self) -> bool:
        """Whether it serves where it is, and goes for the sake of another pool, or since another replica is faster."""
        return self.displaced is not None and self.displaced.reason in _BY_CHOICE

    @property
    def nodes(self) -> tuple[str, ...]:
        """Those that it holds or was promised; none while it waits in a queue."""
        return self.assignment.nodes or self.bound


def choose_victims(candidates: Iterable[Departure], count: int, free: FreeMap) -> tuple[Departure, ...]:
    """The `count` replicas to remove, first to go first.

    Stranded before not ready, as those may be what takes their place, and not ready before the others; displaced and
    outdated before the rest, then the one whose departure leaves the largest hole in its NVLink domain (then on a
    node), then the newest. Holes are judged one departure at a time, and what is free on a node that takes nothing new
    is part of none.
    """
    if count <= 0:
        return ()

    def hole(each: Departure) -> tuple[int, int]:
        if not each.nodes:
            return 0, 0
        home = free.domain_of(each.nodes[0])
        around = _room_in(home, free) if home is not None else 0
        gained = each.assignment.gpus_per_pod * len(each.nodes)
        return around + gained, max(free.on(node) for node in each.nodes) + each.assignment.gpus_per_pod

    def order(each: Departure) -> tuple[bool, bool, bool, int, int, int]:
        domain_hole, node_hole = hole(each)
        stays = not each.outdated and each.displaced is None
        return not each.stranded, each.ready, stays, -domain_hole, -node_hole, -each.assignment.replica

    return tuple(sorted(candidates, key=order)[:count])


def _room_in(domain: int, free: FreeMap) -> int:
    return sum(free.on(node.name) for node in free.fabric.domains[domain].nodes if node.unusable is None)
