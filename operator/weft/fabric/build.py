"""Nodes and pods -> Fabric. Pure, deterministic and linear in its input."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from weft.domain.fabric import Fabric, FabricNode, NvlinkDomain
from weft.domain.reasons import Explanation, Reason
from weft.fabric.devices import read_devices
from weft.fabric.membership import NODE, membership, topograph_domain, zone_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weft.catalog import Catalog
    from weft.domain.cluster import NodeRecord, PodRecord
    from weft.fabric.devices import Devices, Labels
    from weft.fabric.membership import Membership

NAMED_NODES = 4  # how many nodes a note names


@dataclass(frozen=True, slots=True)
class _Member:
    """A node with usable labels, before its domain has a name."""

    node: NodeRecord
    labels: Labels
    devices: Devices
    zone: str

    @property
    def kind(self) -> tuple[str, str]:
        """What all nodes of one NVLink domain have in common."""
        return self.zone, self.devices.accelerator.name


def build_fabric(nodes: Iterable[NodeRecord], pods: Iterable[PodRecord], catalog: Catalog) -> Fabric:
    """Every node with accelerators in its NVLink domain, what anyone's pods hold there, and notes on odd labels.

    A pod holds its devices from binding or nomination until it has ended; a terminating one still holds them.
    """
    used = _devices_in_use(pods)
    notes: list[Explanation] = []
    groups: dict[Membership, list[_Member]] = defaultdict(list)
    for node in sorted(nodes, key=attrgetter("name")):
        labels = dict(node.labels)
        devices = read_devices(node, labels, catalog)
        if isinstance(devices, Explanation):
            notes.append(devices)
        elif devices is not None:
            member = _Member(node, labels, devices, zone_of(labels))
            groups[membership(node.name, labels, devices.accelerator)].append(member)
    domains: dict[str, NvlinkDomain] = {}
    for (source, value), members in sorted(groups.items()):
        notes.extend(_contradictions(value, members) if source != NODE else ())
        for name, part in _coherent_parts(value, members):
            unique = name if name not in domains else f"{name} ({source})"
            domains[unique] = _domain(unique, part, used)
    return Fabric(tuple(sorted(domains.values(), key=attrgetter("name"))), tuple(notes))


def _devices_in_use(pods: Iterable[PodRecord]) -> Mapping[tuple[str, str], int]:
    """Devices held, by (node, resource)."""
    used: dict[tuple[str, str], int] = defaultdict(int)
    for pod in pods:
        if pod.node is not None and pod.holds_devices:
            for resource, count in pod.requests:
                used[pod.node, resource] += count
    return used


def _coherent_parts(value: str, members: list[_Member]) -> Iterator[tuple[str, list[_Member]]]:
    """A domain by its name, or cut by zone and accelerator where labels mix them: NVLink joins neither.

    Nodes that name no zone are taken to be in the zone of the others.
    """
    zones = {member.zone for member in members} - {""}
    if len(zones) == 1:
        members = [replace(member, zone=min(zones)) for member in members]
    kinds = sorted({member.kind for member in members})
    if len(kinds) == 1:
        yield value, members
        return
    for zone, accelerator in kinds:
        part = [member for member in members if member.kind == (zone, accelerator)]
        yield "/".join(filter(None, (value, zone, accelerator))), part


def _domain(name: str, members: list[_Member], used: Mapping[tuple[str, str], int]) -> NvlinkDomain:
    zone, accelerator = members[0].kind
    return NvlinkDomain(name, zone, accelerator, tuple(_node(name, member, used) for member in members))


def _node(domain: str, member: _Member, used: Mapping[tuple[str, str], int]) -> FabricNode:
    node, devices = member.node, member.devices
    return FabricNode(
        name=node.name,
        domain=domain,
        zone=member.zone,
        accelerator=devices.accelerator.name,
        resource=devices.resource,
        memory_bytes=devices.memory_bytes,
        total=dict(node.allocatable).get(devices.resource, 0),
        used=used.get((node.name, devices.resource), 0),
        labels=node.labels,
        taints=node.taints,
        shared=devices.shared,
        unusable=_unusable(node),
        left=_left(node, used),
    )


def _left(node: NodeRecord, used: Mapping[tuple[str, str], int]) -> tuple[tuple[str, float], ...] | None:
    if node.offers is None:
        return None
    return tuple((name, amount - used.get((node.name, name), 0)) for name, amount in node.offers)


def _unusable(node: NodeRecord) -> Explanation | None:
    if not node.ready:
        return Explanation(Reason.NodeNotReady, f"node {node.name} is not ready")
    if node.cordoned:
        return Explanation(Reason.NodeCordoned, f"node {node.name} is cordoned")
    return None


def _contradictions(domain: str, members: list[_Member]) -> Iterator[Explanation]:
    """What the labels of one multi-node domain disagree about; only what costs the reader a decision."""
    claims = (
        ("zones", {member.zone for member in members}, "read as separate domains"),
        ("accelerators", {member.devices.accelerator.name for member in members}, "read as separate domains"),
        ("topograph domains", {topograph_domain(member.labels) or "" for member in members}, "the clique is believed"),
    )
    named = ", ".join(member.node.name for member in members[:NAMED_NODES])
    named += ", ..." if len(members) > NAMED_NODES else ""
    for what, values, reading in claims:
        if len(values - {""}) > 1:
            listed = ", ".join(sorted(values - {""}))
            yield Explanation(
                Reason.LabelsContradict, f"NVLink domain {domain} ({named}) has different {what} ({listed}): {reading}"
            )
    devices = sum(max(dict(member.node.capacity).get(member.devices.resource, 0), 0) for member in members)
    largest = max(member.devices.accelerator.domain_gpus for member in members)
    whole = not any(member.devices.shared for member in members)
    if whole and devices > largest > 1:
        yield Explanation(
            Reason.LabelsContradict,
            f"NVLink domain {domain} ({named}) has {devices} GPUs, more than the {largest} that NVLink joins",
        )
