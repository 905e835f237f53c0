"""How many replicas of one kind every domain holds, kept up to date while promises come and go.

A pass that places many replicas asks again and again for the tightest domain. Only those domains are counted anew in
which something changed, and those that are equally tight stand together, in order.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weft.placement.eligibility import eligible_domains
from weft.placement.names import natural
from weft.placement.nearness import path_of, tiers_away
from weft.placement.rooms import room_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.domain.fabric import Tiers
    from weft.domain.shape import Shape
    from weft.domain.spec import Pairs, PlacementSpec
    from weft.placement.eligibility import EligibleDomain
    from weft.placement.freemap import FreeMap
    from weft.placement.rooms import Room

# Pods that fit where a whole replica does, and GPUs of the nodes on which they do: less is tighter. GPUs on nodes that
# are too full for a pod say nothing about the hole that it takes.
Tightness = tuple[int, int]
FULL: Tightness = (0, 0)
_Place = tuple[str, "Tiers"]  # a zone, and the path through the network's tiers


@dataclass(frozen=True, slots=True)
class Group:
    """Pods that must share one NVLink domain: the whole replica, or one pipeline stage."""

    pods: int
    gpus_per_pod: int

    @property
    def joins(self) -> bool:
        """Whether its pods share memory over NVLink, so that each needs a node that is in no ComputeDomain."""
        return self.pods > 1


@dataclass(frozen=True, slots=True)
class Wishes:
    """What counts beside a tight fit: paths to be near to, sorted, and how many siblings are in a domain or a zone."""

    near: tuple[Tiers, ...] = ()
    in_domain: Mapping[int, int] = field(default_factory=dict)
    in_zone: Mapping[str, int] = field(default_factory=dict)


NO_WISHES = Wishes()


class Tally:
    """Domains with room for one kind of replica, by where they are in the network and by tightness.

    Domains go by their position in the fabric.
    """

    __slots__ = ("_free", "_ordered", "_placement", "_rank", "_seen", "_tight", "domains", "group")

    def __init__(
        self, domains: tuple[EligibleDomain, ...], group: Group, placement: PlacementSpec, free: FreeMap
    ) -> None:
        """Count every domain once."""
        self.domains, self.group = domains, group
        self._placement, self._free = placement, free
        self._rank = _ranks(free)
        self._tight = [self._tightness(index) for index in range(len(domains))]
        self._ordered: dict[_Place, dict[Tightness, list[tuple[int, int]]]] = defaultdict(dict)
        self._seen = len(free.changes)
        for entry in sorted(zip(self._rank, range(len(domains)), strict=True)):
            tight = self._tight[entry[1]]
            if tight != FULL:
                self._ordered[self._place(entry[1])].setdefault(tight, []).append(entry)

    def room(self, index: int) -> Room:
        """A domain as a search may use it now."""
        return room_in(self.domains[index], self._placement, self._free)

    def nodes(self, index: int) -> tuple[str, ...]:
        """Nodes of a domain that may be used now, in natural order."""
        if self._placement.spare_nodes_per_domain < 1:
            return self.domains[index].names
        usable = {node.name for node in self.room(index).nodes}
        return tuple(name for name in self.domains[index].names if name in usable)

    def holds_one(self, index: int) -> bool:
        """Whether a domain holds such a replica now."""
        self.refresh()
        return self._tight[index] != FULL

    def is_empty(self) -> bool:
        """Whether no domain holds one."""
        self.refresh()
        return not self._ordered

    def tightest(self, wishes: Wishes = NO_WISHES) -> int | None:
        """The domain nearest to the wished paths where the fewest pods fit, but a whole replica.

        Ties by free GPUs there, then the fewest siblings, then the name.
        """
        self.refresh()
        found = [self._in_place(place, by_tightness, wishes) for place, by_tightness in self._ordered.items()]
        return min(found)[-1] if found else None

    def _in_place(
        self, place: _Place, by_tightness: Mapping[Tightness, list[tuple[int, int]]], wishes: Wishes
    ) -> tuple[int, Tightness, int, int, int]:
        tightest = min(by_tightness)
        equals, siblings = by_tightness[tightest], wishes.in_domain
        rank, index = next((each for each in equals if each[1] not in siblings), equals[0])
        crowd = siblings.get(index, 0)
        if crowd:
            crowd, rank, index = min((siblings.get(index, 0), rank, index) for rank, index in equals)
        zone, path = place
        return tiers_away(path, wishes.near), tightest, crowd + wishes.in_zone.get(zone, 0), rank, index

    def refresh(self) -> None:
        """Count those domains anew in which something changed."""
        changes = self._free.changes
        if self._seen == len(changes):
            return
        touched = {self._free.domain_of(node) for node, _, _ in changes[self._seen :]}
        self._seen = len(changes)
        for index in touched:
            if index is not None:
                self._count(index)

    def _count(self, index: int) -> None:
        before, after = self._tight[index], self._tightness(index)
        if before == after:
            return
        place = self._place(index)
        entry, by_tightness = (self._rank[index], index), self._ordered[place]
        if before[0]:
            equals = by_tightness[before]
            del equals[bisect_left(equals, entry)]
            if not equals:
                del by_tightness[before]
        if after[0]:
            insort(by_tightness.setdefault(after, []), entry)
        if not by_tightness:
            del self._ordered[place]
        self._tight[index] = after

    def _place(self, index: int) -> _Place:
        domain = self.domains[index].domain
        return domain.zone, path_of(domain)

    def _tightness(self, index: int) -> Tightness:
        """Pods of one replica sit on nodes of their own."""
        size = self.group.gpus_per_pod
        left = [gpus for gpus in self._free.each(self.nodes(index), joins=self.group.joins) if gpus >= size]
        if len(left) < self.group.pods:
            return FULL
        return sum([gpus // size for gpus in left]), sum(left)


def tally_of(shape: Shape, placement: PlacementSpec, free: FreeMap, needs: Pairs = ()) -> Tally:
    """The tally of whole replicas of a shape under a placement and needs, made when it is first asked for."""
    key = (shape.accelerator, shape.gpus > 1, shape.pods, shape.gpus_per_pod, placement, needs)
    found: Tally | None = free.tallies.get(key)
    if found is None:
        group = Group(shape.pods, shape.gpus_per_pod)
        found = free.tallies[key] = Tally(eligible_domains(shape, placement, free, needs), group, placement, free)
    return found


def crowding(tally: Tally, siblings: Iterable[str], free: FreeMap) -> dict[int, int]:
    """How many nodes of sibling replicas each domain holds; only those that the replica might use itself."""
    counts: dict[int, int] = defaultdict(int)
    for node in set(siblings):
        index = free.domain_of(node)
        if index is not None and node in tally.nodes(index):
            counts[index] += 1
    return counts


def _ranks(free: FreeMap) -> list[int]:
    """Position of each domain in the natural order of names."""
    if "ranks" not in free.eligible:
        names = [domain.name for domain in free.fabric.domains]
        order = sorted(range(len(names)), key=lambda index: natural(names[index]))
        ranks = [0] * len(names)
        for rank, index in enumerate(order):
            ranks[index] = rank
        free.eligible["ranks"] = ranks
    answer: list[int] = free.eligible["ranks"]
    return answer
