"""Reconciles rack labels, of a cloud or topograph, with the cliques of the nodes in each rack.

A rack label says that all of its nodes share NVLink. Where some of them are labelled with a clique, a node without one
has no fabric that NVML has seen: it is a domain by itself, whatever the rack. A clique found by a ComputeDomain, which
knows only the nodes of its pods, separates them from the rest of a rack only where there is another clique.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from weft.fabric.membership import CLIQUE, NODE, RACK_LABELS, clique_of, rack_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.fabric.members import AcceleratorNode
    from weft.fabric.membership import Membership


@dataclass(slots=True)
class _Cliques:
    """The cliques in one rack: those of node labels, and those that ComputeDomains found on nodes without a label."""

    labelled: set[str] = field(default_factory=set)
    found: set[str] = field(default_factory=set)

    @property
    def all(self) -> frozenset[str]:
        return frozenset(self.labelled | self.found)


@dataclass(frozen=True, slots=True)
class Apart:
    """Nodes that are domains by themselves, though a rack label joins them with nodes of these cliques."""

    rack: Membership
    members: tuple[AcceleratorNode, ...]
    cliques: frozenset[str]


def by_racks(members: Iterable[AcceleratorNode]) -> tuple[list[AcceleratorNode], list[Apart]]:
    """Settle each node's membership by the cliques in its rack, and list nodes that become domains by themselves."""
    given = list(members)
    racks = _racks(given)
    settled, apart = [], defaultdict(list)
    for member in given:
        rack = rack_of(member.labels, member.devices.accelerator)
        membership = member.membership if rack is None else _membership(member, rack, racks)
        settled.append(member if membership == member.membership else replace(member, membership=membership))
        if rack is not None and membership[0] == NODE:
            apart[rack].append(member)
    return settled, [Apart(rack, tuple(each), racks[rack].all) for rack, each in sorted(apart.items())]


def _racks(members: Iterable[AcceleratorNode]) -> Mapping[Membership, _Cliques]:
    """Collect the cliques by every rack label of each node, as some nodes may lack the most trusted label."""
    racks: dict[Membership, _Cliques] = defaultdict(_Cliques)
    for member in members:
        source, clique = member.membership
        for label in RACK_LABELS:
            if source == CLIQUE and (rack := member.labels.get(label)):
                known = racks[label, rack]
                (known.labelled if clique_of(member.labels) else known.found).add(clique)
    return racks


def _membership(member: AcceleratorNode, rack: Membership, racks: Mapping[Membership, _Cliques]) -> Membership:
    known = racks.get(rack, _Cliques())
    if clique_of(member.labels):
        return member.membership
    if member.membership[0] == CLIQUE:
        return member.membership if len(known.all) > 1 or known.labelled else rack
    return (NODE, member.node.name) if known.labelled or len(known.found) > 1 else rack
