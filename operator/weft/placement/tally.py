"""How many replicas of one kind every domain holds, kept up to date while reservations come and go.

A pass that places many replicas asks again and again for the tightest domain. Only domains in which something changed
are counted again, and those that are equally tight are kept together, in order.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from weft.domain.values.remembered import LastAnswers
from weft.placement.eligibility import eligibility, eligible_domains, memory_of
from weft.placement.names import natural
from weft.placement.nearness import areas_around, path_of
from weft.placement.rooms import room_in
from weft.placement.zones import BestOfZones

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from weft.domain.fabric import NvlinkDomain, Tiers
    from weft.domain.shape import Shape
    from weft.domain.spec import Pairs, PlacementSpec
    from weft.placement.eligibility import EligibleDomain
    from weft.placement.freemap import FreeMap
    from weft.placement.rooms import Room
    from weft.placement.zones import Best

# Pods that fit in a domain that holds a whole replica, and free GPUs of the nodes where they fit: less is tighter. GPUs
# on nodes that are too full for a pod are no part of the hole that it takes.
Tightness = tuple[int, int]
FULL: Tightness = (0, 0)
_Area = str | tuple[str, ...]  # a zone by its name, or a part of the network by its path
_Equals = dict[Tightness, list[tuple[int, int]]]  # (rank, position) of domains, by tightness and in order


@dataclass(frozen=True, slots=True)
class Group:
    """Pods that must share one NVLink domain: the whole replica, or one pipeline stage.

    `shares` says that they also share memory with other replicas of the domain. `memory` is what each needs of that of
    its node, in bytes.
    """

    pods: int
    gpus_per_pod: int
    shares: bool = False
    memory: int = 0

    @property
    def joins(self) -> bool:
        """Whether its pods share memory over NVLink, so that each needs a node that is in no ComputeDomain."""
        return self.pods > 1 or self.shares


@dataclass(frozen=True, slots=True)
class PlacementPreferences:
    """Criteria besides a tight fit: paths to be near to, sorted, and the number of siblings by domain or by zone."""

    near: tuple[Tiers, ...] = ()
    in_domain: Mapping[int, int] = field(default_factory=dict)
    in_zone: Mapping[str, int] = field(default_factory=dict)


NO_WISHES = PlacementPreferences()


class Merits(NamedTuple):
    """Criteria by which a domain that has room is chosen, the most important first; less is better but for `shared`.

    Sibling pods in its zone, tiers that it shares with the nearest wished path, pods that fit, free GPUs on the nodes
    where they do, sibling pods in the domain, and its rank by name.
    """

    in_zone: int
    shared: int
    pods: int
    gpus: int
    in_domain: int
    rank: int


class Tally:
    """Domains with room for one kind of replica, by location in the network and by tightness.

    Domains are named by their position in the fabric.
    """

    __slots__ = (
        "_by_area",
        "_equals",
        "_free",
        "_order",
        "_placement",
        "_seen",
        "_tight",
        "_zones",
        "domains",
        "group",
    )

    def __init__(
        self, domains: tuple[EligibleDomain, ...], group: Group, placement: PlacementSpec, free: FreeMap
    ) -> None:
        """Count every domain once."""
        self.domains, self.group = domains, group
        self._placement, self._free = placement, free
        self._order = _order_of(free)
        self._tight = self._counted()
        self._equals = _by_tightness(self._tight, self._order.entries)
        self._by_area: dict[_Area, _Equals] | None = None  # made when a location is first wished
        self._zones: BestOfZones | None = None  # made when a spread over zones is first wished
        self._seen = len(free.changes)

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
        """Whether no domain holds such a replica."""
        self.refresh()
        return not self._equals

    def tightest(self, wishes: PlacementPreferences = NO_WISHES) -> int | None:
        """The best domain: in the zone with the fewest siblings, if wished, and there nearest to the wished paths.

        Among those the one where the fewest pods fit, but a whole replica; ties are broken by free GPUs there, then the
        fewest siblings, then the name.
        """
        self.refresh()
        if not self._equals:
            return None
        if wishes.in_zone:
            return self._best_of_zones().with_fewest(wishes.in_zone)
        areas = self._nearest(wishes.near) or [self._equals]
        return min(self._best(area, wishes.in_domain) for area in areas)[-1]

    def merits(self, index: int, wishes: PlacementPreferences) -> Merits:
        """The criteria of `tightest` for one domain."""
        self.refresh()
        domain, (pods, gpus) = self.domains[index].domain, self._tight[index]
        homes = {area for home in wishes.near for area in areas_around(home)} if not wishes.in_zone else set()
        shared = max((len(area) for area in areas_around(path_of(domain)) if area in homes), default=0)
        in_zone, in_domain = wishes.in_zone.get(domain.zone, 0), wishes.in_domain.get(index, 0)
        return Merits(in_zone, shared, pods, gpus, in_domain, self._order.ranks[index])

    def _best_of_zones(self) -> BestOfZones:
        if self._zones is None:
            areas = self._areas()
            self._zones = BestOfZones({zone: _first(areas[zone]) for zone in self._order.zones if zone in areas})
        return self._zones

    def _nearest(self, homes: tuple[Tiers, ...]) -> list[_Equals]:
        """The domains with room in the deepest areas that contain one of these homes; empty where there are none."""
        areas = self._areas() if homes else {}
        shared = [area for area in {area for home in homes for area in areas_around(home)} if area in areas]
        deepest = max(map(len, shared), default=0)
        return [areas[area] for area in shared if len(area) == deepest]

    def _areas(self) -> dict[_Area, _Equals]:
        """The domains with room by every area that they are in."""
        if self._by_area is None:
            self._by_area = defaultdict(dict)
            for tight, entries in self._equals.items():
                for entry in entries:
                    for area in self._order.areas[entry[1]]:
                        self._by_area[area].setdefault(tight, []).append(entry)
        return self._by_area

    def _best(self, by_tightness: _Equals, siblings: Mapping[int, int]) -> tuple[Tightness, int, int, int]:
        tightest = min(by_tightness)
        equals = by_tightness[tightest]
        rank, index = next((each for each in equals if each[1] not in siblings), equals[0])
        crowd = siblings.get(index, 0)
        if crowd:
            crowd, rank, index = min((siblings.get(index, 0), rank, index) for rank, index in equals)
        return tightest, crowd, rank, index

    def refresh(self) -> None:
        """Count the domains again in which something changed."""
        changes = self._free.changes
        if self._seen == len(changes):
            return
        touched = {self._free.domain_of(node) for node, *_ in changes[self._seen :]}
        self._seen = len(changes)
        for index in touched:
            if index is not None:
                self._count(index)

    def _count(self, index: int) -> None:
        before, after = self._tight[index], self._tightness(index)
        if before == after:
            return
        self._tight[index], entry = after, (self._order.ranks[index], index)
        _moved(self._equals, entry, before, after)
        if self._by_area is not None:
            for area in self._order.areas[index]:
                _moved(self._by_area[area], entry, before, after)
                if not self._by_area[area]:
                    del self._by_area[area]
        if self._zones is not None:
            zone = self.domains[index].domain.zone
            self._zones.set(zone, _first(self._areas()[zone]) if zone in self._areas() else None)

    def _counted(self) -> list[Tightness]:
        """Tightness of every domain; single-node domains, of which there may be thousands, take a fast path."""
        tight, group = [FULL] * len(self.domains), self.group
        alone = not group.joins and not group.memory and self._placement.spare_nodes_per_domain < 1
        size, left = group.gpus_per_pod, self._free.left
        for index, each in enumerate(self.domains):
            names = each.names
            if alone and len(names) == 1:
                if (gpus := left[names[0]]) >= size:
                    tight[index] = gpus // size, gpus
            elif names:
                tight[index] = self._tightness(index)
        return tight

    def _tightness(self, index: int) -> Tightness:
        """Tightness of one domain; pods of one replica need a node each."""
        size, names = self.group.gpus_per_pod, self.nodes(index)
        if len(names) == 1 and not self.group.shares:  # a board
            gpus = self._free.each(names, memory=self.group.memory)[0]
            return (gpus // size, gpus) if gpus >= size and self.group.pods == 1 else FULL
        every = self._free.each(names, joins=self.group.joins, memory=self.group.memory)
        left = [gpus for gpus in every if gpus >= size]
        if len(left) < self.group.pods:
            return FULL
        return sum([gpus // size for gpus in left]), sum(left)


def tally_of(shape: Shape, placement: PlacementSpec, free: FreeMap, needs: Pairs = ()) -> Tally:
    """The tally of whole replicas of a shape under a placement and needs, created when first asked for."""
    usable, spares = eligibility(shape, placement, free, needs), placement.spare_nodes_per_domain
    key = (usable, shape.pods, shape.gpus_per_pod, spares)
    found: Tally | None = free.tallies.get(key)
    if found is None:
        group = Group(shape.pods, shape.gpus_per_pod, bool(placement.nvlink_domain), memory_of(needs))
        found = free.tallies[key] = Tally(eligible_domains(shape, placement, free, needs), group, placement, free)
    return found


def crowding(siblings: Iterable[str], free: FreeMap) -> Counter[int]:
    """The number of sibling pods in each domain, `siblings` being the node of each pod.

    Pods on nodes that take nothing new count as well: they fail with their zone like all others.
    """
    return Counter(free.domains_of(siblings))


def crowding_of_zones(siblings: Iterable[str], free: FreeMap) -> Counter[str]:
    """The number of sibling pods in each zone."""
    domains = free.fabric.domains
    return Counter([domains[home].zone for home in free.domains_of(siblings)])


def _by_tightness(tight: list[Tightness], entries: Iterable[tuple[int, int]]) -> _Equals:
    """Domains that hold at least one replica, grouped by tightness and in order."""
    found: _Equals = {}
    for entry in entries:
        each = tight[entry[1]]
        if each is not FULL:
            found.setdefault(each, []).append(entry)
    return found


def _first(equals: _Equals) -> Best:
    """The tightest domain of an area, which must have some, and the first by name among equals."""
    tightest = min(equals)
    return tightest, *equals[tightest][0]


def _moved(equals: _Equals, entry: tuple[int, int], before: Tightness, after: Tightness) -> None:
    """Move a domain from the group of its earlier tightness to that of its present one."""
    if before != FULL:
        left = equals[before]
        del left[bisect_left(left, entry)]
        if not left:
            del equals[before]
    if after != FULL:
        insort(equals.setdefault(after, []), entry)


@dataclass(frozen=True, slots=True)
class _Order:
    """Shared by all tallies of one fabric: domains in the natural order of their names, and the location of each.

    `entries` are (rank, position in the fabric), sorted; `ranks` and `areas` are by position, and a domain is in
    several areas.
    """

    entries: tuple[tuple[int, int], ...]
    ranks: tuple[int, ...]
    areas: tuple[tuple[_Area, ...], ...]
    zones: tuple[str, ...]


_LAST: LastAnswers[object, _Order] = LastAnswers(1)


def _order_of(free: FreeMap) -> _Order:
    if "order" not in free.eligible:
        fabric = free.fabric
        free.eligible["order"] = _LAST.ask("order", fabric.layout or fabric.domains, lambda _: _order(fabric.domains))
    answer: _Order = free.eligible["order"]
    return answer


def _order(domains: Sequence[NvlinkDomain]) -> _Order:
    entries = tuple(enumerate(sorted(range(len(domains)), key=lambda index: natural(domains[index].name))))
    ranks = [0] * len(domains)
    for rank, index in entries:
        ranks[index] = rank
    areas: tuple[tuple[_Area, ...], ...] = tuple((each.zone, *areas_around(path_of(each))) for each in domains)
    return _Order(entries, tuple(ranks), areas, tuple(sorted({each.zone for each in domains})))
