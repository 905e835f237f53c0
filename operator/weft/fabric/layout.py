"""The part of a fabric that pods do not change: domains, their nodes, and notes on what labels and reports say.

Of thousands of nodes nearly all stay the same from one pass to the next, so the last layout is remembered.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.domain.labels import COMPUTE_DOMAIN
from weft.domain.reasons import Explanation
from weft.domain.values.remembered import LastAnswers
from weft.fabric.contradictions import (
    beside_a_clique,
    fabrics_of_a_rack,
    of_a_node,
    one_name_twice,
    several_of_one_name,
    topologies_at_odds,
    within_a_domain,
    without_a_rack,
)
from weft.fabric.members import AcceleratorNode, member_of
from weft.fabric.membership import NODE
from weft.fabric.network import levels_of, shared_tiers
from weft.fabric.racks import by_racks
from weft.fabric.reach import within_reach
from weft.fabric.reported import NOTHING, by_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weft.catalog import Catalog
    from weft.domain.cluster import NodeRecord
    from weft.domain.fabric import Tiers
    from weft.domain.reports import Reports
    from weft.fabric.membership import Membership
    from weft.fabric.network import Levels

    _Question = tuple[tuple[NodeRecord, ...], Catalog, Reports]


@dataclass(frozen=True, slots=True)
class Seat:
    """A node in its domain: its network tiers, and the ComputeDomains that it is in."""

    member: AcceleratorNode
    tiers: Tiers
    compute_domains: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Around:
    """What is needed to read any node: the network's levels, and names of ComputeDomains by UID."""

    levels: Levels
    compute_domains: Mapping[str, str]

    def seat(self, member: AcceleratorNode) -> Seat:
        """Seat one node, in the ComputeDomains that name it and the one whose UID its driver has labelled it with.

        That last one may be deleted already: then it is named by its UID.
        """
        named, uid = member.reported.compute_domains, member.labels.get(COMPUTE_DOMAIN)
        if uid:
            named = tuple(sorted({*named, self.compute_domains.get(uid, f"of UID {uid}")}))
        return Seat(member, self.levels.tiers(member.zone, member.labels), named)


@dataclass(frozen=True, slots=True)
class Part:
    """An NVLink domain without the use that pods make of it; `shares_memory` as in its nodes."""

    name: str
    zone: str
    accelerator: str
    seats: tuple[Seat, ...]
    tiers: Tiers
    shares_memory: bool


@dataclass(frozen=True, slots=True, eq=False)
class FabricLayout:
    """All domains, sorted by name, and the notes on their nodes."""

    parts: tuple[Part, ...]
    notes: tuple[Explanation, ...]
    home: Mapping[str, str]  # name of the domain by name of the node
    places: Mapping[str, int]  # position of the domain by name of the node


_LAST: LastAnswers[_Question, FabricLayout] = LastAnswers(1)


def layout_of(nodes: Iterable[NodeRecord], catalog: Catalog, reports: Reports) -> FabricLayout:
    """The layout of these nodes; the same object as long as nothing about them changes."""
    return _LAST.ask("layout", (tuple(nodes), catalog, reports), _layout)


def _layout(question: _Question) -> FabricLayout:
    nodes, catalog, reports = question
    members, notes = _members(_each_once(nodes), catalog, reports)
    notes += several_of_one_name(nodes)
    levels = levels_of((member.labels for member in members), reports.topologies)
    around = _Around(levels, {each.uid: str(each) for each in reports.compute_domains})
    settled, apart = by_racks(members)
    parts: dict[str, Part] = {}
    for (source, value), group in sorted(_groups(settled).items()):
        if source != NODE:
            notes += within_a_domain(value, group)
        for name, together in _coherent_parts(value, group):
            unique = _unlike(parts, name, source)
            parts[unique] = _part(unique, together, around)
    notes += [*map(beside_a_clique, apart), *without_a_rack(settled, apart), *fabrics_of_a_rack(settled)]
    notes += [*one_name_twice(members), *topologies_at_odds(reports.topologies)]
    ordered = tuple(parts[name] for name in sorted(parts))
    home = {seat.member.node.name: part.name for part in ordered for seat in part.seats}
    places = {seat.member.node.name: place for place, part in enumerate(ordered) for seat in part.seats}
    return FabricLayout(ordered, tuple(notes), home, places)


def _each_once(nodes: tuple[NodeRecord, ...]) -> tuple[NodeRecord, ...]:
    """Return each node once, sorted by name; of several with one name, as only a file has, the first by UID."""
    listed = sorted(nodes, key=lambda node: (node.name, node.uid), reverse=True)
    return tuple(reversed({node.name: node for node in listed}.values()))


def _members(
    nodes: Iterable[NodeRecord], catalog: Catalog, reports: Reports
) -> tuple[list[AcceleratorNode], list[Explanation]]:
    """Read the accelerator nodes, with notes on nodes that cannot be used and on contradictions within one node."""
    members, notes, reported = [], [], by_node(reports)
    for node in nodes:
        told = reported.get(node.name, NOTHING)
        found = member_of(node, told, catalog)
        if isinstance(found, Explanation):
            notes.append(found)
        elif found is not None:
            members.append(found)
            notes.extend(of_a_node(node, told, catalog))
    return members, notes


def _groups(members: Iterable[AcceleratorNode]) -> dict[Membership, list[AcceleratorNode]]:
    groups: dict[Membership, list[AcceleratorNode]] = defaultdict(list)
    for each in members:
        groups[each.membership].append(each)
    return groups


def _coherent_parts(value: str, members: list[AcceleratorNode]) -> Iterator[tuple[str, list[AcceleratorNode]]]:
    """Yield a domain by name, or cut by zone and accelerator where labels mix them, and to what NVLink reaches.

    Nodes that name no zone are taken to be in the zone of the others.
    """
    zones = {member.zone for member in members}
    if len(zones) == 2 and "" in zones:  # noqa: PLR2004 - one zone beside none
        members = [replace(member, zone=max(zones)) for member in members]
    kinds: dict[tuple[str, str], list[AcceleratorNode]] = defaultdict(list)
    for member in members:
        kinds[member.kind].append(member)
    if len(kinds) == 1:
        yield from within_reach(value, members)
        return
    for kind, part in sorted(kinds.items()):
        yield from within_reach("/".join(filter(None, (value, *kind))), part)


def _unlike(taken: Mapping[str, Part], name: str, source: str) -> str:
    """Make a name unique among domains: a label's value may equal a node's name or that of another domain's part."""
    while name in taken:
        name = f"{name} ({source})"
    return name


def _part(name: str, members: Sequence[AcceleratorNode], around: _Around) -> Part:
    seats = tuple(around.seat(member) for member in members)
    zone, accelerator = members[0].kind
    # One node with the driver is enough: a driver that restarts reports nothing for a moment.
    shares_memory = len(members) > 1 and any(member.reported.channels for member in members)
    return Part(name, zone, accelerator, seats, shared_tiers([seat.tiers for seat in seats]), shares_memory)
