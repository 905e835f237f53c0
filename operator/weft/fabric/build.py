"""Nodes, pods and what others report -> Fabric. Pure, deterministic and linear in its input."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from weft.domain.fabric import Fabric, FabricNode, NvlinkDomain
from weft.domain.reasons import Explanation, Reason
from weft.domain.reports import Reports
from weft.fabric.contradictions import (
    beside_a_clique,
    cliques_of_racks,
    of_a_node,
    one_name_twice,
    replicas_apart,
    within_a_domain,
)
from weft.fabric.members import Member, member_of
from weft.fabric.membership import NODE
from weft.fabric.network import levels_of, shared_tiers
from weft.fabric.reported import NOTHING, by_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weft.catalog import Catalog
    from weft.domain.cluster import NodeRecord, PodRecord
    from weft.fabric.membership import Membership
    from weft.fabric.network import Levels

NO_REPORTS = Reports()


@dataclass(frozen=True, slots=True)
class _Use:
    """What pods do with nodes: devices that they hold, by (node, resource), and where one that holds some is ready."""

    held: dict[tuple[str, str], int]
    serving: frozenset[str]


def build_fabric(
    nodes: Iterable[NodeRecord], pods: Iterable[PodRecord], catalog: Catalog, reports: Reports = NO_REPORTS
) -> Fabric:
    """Every node with accelerators in its NVLink domain, what anyone's pods hold there, and notes on what looks odd.

    A pod holds its devices from binding or nomination until it has ended; a terminating one still holds them.
    """
    held = tuple(pods)
    members, notes = _members(_each_once(nodes), catalog, reports)
    levels = levels_of((member.labels for member in members), reports.topologies)
    use, cliques = _use_of(held), cliques_of_racks(members)
    domains: dict[str, NvlinkDomain] = {}
    for (source, value), group in sorted(_groups(members).items()):
        if source != NODE:
            notes += [*within_a_domain(value, group), *beside_a_clique(source, value, group, cliques)]
        for name, part in _coherent_parts(value, group):
            unique = _unlike(domains, name, source)
            domains[unique] = _domain(unique, part, use, levels)
    home = {node.name: domain.name for domain in domains.values() for node in domain.nodes}
    notes += [*one_name_twice(members), *replicas_apart(held, home), *_refused(reports)]
    return Fabric(tuple(sorted(domains.values(), key=attrgetter("name"))), tuple(notes))


def _each_once(nodes: Iterable[NodeRecord]) -> tuple[NodeRecord, ...]:
    """By name; of two with one name, which only a file can hold, the first by UID."""
    listed = sorted(nodes, key=lambda node: (node.name, node.uid), reverse=True)
    return tuple(reversed({node.name: node for node in listed}.values()))


def _members(nodes: Iterable[NodeRecord], catalog: Catalog, reports: Reports) -> tuple[list[Member], list[Explanation]]:
    """The accelerator nodes, and notes on those that only seem to be some and on what each contradicts itself in."""
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


def _groups(members: Iterable[Member]) -> dict[Membership, list[Member]]:
    groups: dict[Membership, list[Member]] = defaultdict(list)
    for each in members:
        groups[each.membership].append(each)
    return groups


def _use_of(pods: Iterable[PodRecord]) -> _Use:
    held: dict[tuple[str, str], int] = defaultdict(int)
    serving = set()
    for pod in pods:
        if pod.node is not None and pod.holds_devices:
            for resource, count in pod.requests:
                held[pod.node, resource] += max(0, count)
            if pod.ready:
                serving.add(pod.node)
    return _Use(held, frozenset(serving))


def _coherent_parts(value: str, members: list[Member]) -> Iterator[tuple[str, list[Member]]]:
    """A domain by its name, or cut by zone and accelerator where labels mix them: NVLink joins neither.

    Nodes that name no zone are taken to be in the zone of the others.
    """
    zones = {member.zone for member in members}
    if len(zones) == 2 and "" in zones:  # noqa: PLR2004 - one zone beside none
        members = [replace(member, zone=max(zones)) for member in members]
    kinds = sorted({member.kind for member in members})
    if len(kinds) == 1:
        yield value, members
        return
    for zone, accelerator in kinds:
        part = [member for member in members if member.kind == (zone, accelerator)]
        yield "/".join(filter(None, (value, zone, accelerator))), part


def _unlike(taken: Mapping[str, NvlinkDomain], name: str, source: str) -> str:
    """A name that no other domain has: a label may be spelt like a node, or like a part of another domain."""
    while name in taken:
        name = f"{name} ({source})"
    return name


def _domain(name: str, members: Sequence[Member], use: _Use, levels: Levels) -> NvlinkDomain:
    zone, accelerator = members[0].kind
    nodes = tuple(_node(name, member, use, levels) for member in members)
    return NvlinkDomain(name, zone, accelerator, nodes, shared_tiers([node.tiers for node in nodes]))


def _node(domain: str, member: Member, use: _Use, levels: Levels) -> FabricNode:
    node, devices = member.node, member.devices
    state = member.states[node.name in use.serving]
    return FabricNode(
        name=node.name,
        domain=domain,
        zone=member.zone,
        accelerator=devices.accelerator.name,
        resource=devices.resource,
        memory_bytes=devices.memory_bytes,
        total=member.total,
        used=use.held.get((node.name, devices.resource), 0),
        labels=node.labels,
        taints=node.taints,
        shared=devices.shared,
        unusable=state.unusable,
        left=_left(node, use),
        tiers=levels.tiers(member.zone, member.labels),
        nics=member.nics,
        leaving=state.leaving,
        impaired=state.impaired,
        capacity=dict(node.capacity).get(devices.resource, 0),
    )


def _left(node: NodeRecord, use: _Use) -> tuple[tuple[str, float], ...] | None:
    if node.offers is None:
        return None
    return tuple((name, amount - use.held.get((node.name, name), 0)) for name, amount in node.offers)


def _refused(reports: Reports) -> Iterator[Explanation]:
    for kind in sorted(set(reports.refused)):
        yield Explanation(
            Reason.NotPermitted, f"Weft may not list {kind}: the fabric is read without them; grant list and watch"
        )
