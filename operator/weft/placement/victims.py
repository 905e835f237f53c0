"""Which replicas are removed when a pool shrinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.reasons import Reason
from weft.domain.values.made_often import made_often

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.reasons import Explanation
    from weft.domain.status import Assignment
    from weft.placement.freemap import FreeMap


_BY_CHOICE = frozenset({Reason.MakesRoom, Reason.SlowerThanSiblings})


@made_often
@dataclass(frozen=True, slots=True)
class Departure:
    """A replica that may be removed: `outdated` if of an earlier revision; `displaced` says why it must leave.

    `bound` are the nodes of its pods if another scheduler picked them. `alone` says that it is ready but serves nobody
    yet, since the other half of its pair lacks as many, and `unmatched` that this one has nobody at all; `urgent` that
    its node goes before a successor could serve. Requests that it takes within `serves_seconds` have time to finish,
    and `lasts` says that it takes them, as nobody else serves. `share` is its part of the capacity of a replica of the
    planned shape, by GPUs, at most 1. It is `stranded` if one of its nodes is gone: it still serves, for an unknown
    time. It is `unmade` if it was outdated before all of its pods were created: converging creates no more of them. It
    `may_answer_again` if it is not ready, and was. It `outlasts` the planned revision while that fails: it goes for
    none of it. It is `counted_on` if its pair in a split would serve too little without it. It is of the planned
    revision and on trial for `trial_seconds` more, in which no earlier one leaves for it.
    """

    assignment: Assignment
    ready: bool
    outdated: bool
    displaced: Explanation | None = None
    bound: tuple[str, ...] = ()
    alone: bool = False
    unmatched: bool = False
    urgent: bool = False
    serves_seconds: float = 0.0
    lasts: bool = False
    share: float = 1.0
    stranded: bool = False
    unmade: bool = False
    may_answer_again: bool = False
    outlasts: bool = False
    counted_on: bool = False
    trial_seconds: float = 0.0

    @property
    def may_return(self) -> bool:
        """Whether its node is only not ready: then it is not given up before its time."""
        return self.displaced is not None and self.displaced.reason is Reason.NodeNotReady

    @property
    def could_stay(self) -> bool:
        """Whether it could go on serving, and leaves only for another pool or since other replicas are faster."""
        return self.displaced is not None and self.displaced.reason in _BY_CHOICE

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that it holds or is assigned; none while it waits in a queue."""
        return self.assignment.nodes or self.bound


def choose_victims(candidates: Iterable[Departure], count: int, free: FreeMap) -> tuple[Departure, ...]:
    """The `count` replicas to remove, first to go first.

    Stranded ones go first, then those not ready, which may be replacements of the stranded; then displaced and outdated
    before the rest, then the one whose departure leaves the largest hole in its NVLink domain (then on a node), then
    the newest. Holes are judged one departure at a time, without what is free on nodes that take nothing new.
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
