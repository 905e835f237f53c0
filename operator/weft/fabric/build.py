"""Nodes, pods and what others report -> Fabric. Pure, deterministic and linear in its input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.fabric import Fabric, FabricNode, NvlinkDomain
from weft.domain.reasons import Explanation, Reason
from weft.domain.remembered import LastAnswers
from weft.domain.reports import Reports
from weft.fabric.contradictions import replicas_apart
from weft.fabric.ground import Part, Seat, ground_of
from weft.fabric.members import REMEMBERED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weft.catalog import Catalog
    from weft.domain.cluster import NodeRecord, PodRecord

NO_REPORTS = Reports()
NOTHING_HELD: Mapping[str, int] = {}

_Uses = tuple[tuple["Mapping[str, int]", bool], ...]  # by node: devices that pods hold, and whether such a pod is ready
_LAST: LastAnswers[tuple[Part, _Uses], NvlinkDomain] = LastAnswers(REMEMBERED)


@dataclass(frozen=True, slots=True)
class _Use:
    """What pods do with nodes: devices that they hold, by node and resource, and where one that holds some is ready."""

    held: Mapping[str, Mapping[str, int]]
    serving: frozenset[str]

    def on(self, part: Part) -> _Uses:
        """Of the nodes of one domain."""
        held, serving = self.held, self.serving
        names = [seat.member.node.name for seat in part.seats]
        return tuple([(held.get(name, NOTHING_HELD), name in serving) for name in names])


def build_fabric(
    nodes: Iterable[NodeRecord], pods: Iterable[PodRecord], catalog: Catalog, reports: Reports = NO_REPORTS
) -> Fabric:
    """Every node with accelerators in its NVLink domain, what anyone's pods hold there, and notes on what looks odd.

    A pod holds its devices from binding or nomination until it has ended; a terminating one still holds them.
    """
    held = tuple(pods)
    ground, use = ground_of(nodes, catalog, reports), _use_of(held)
    domains = tuple([_LAST.ask(part.name, (part, use.on(part)), _domain) for part in ground.parts])
    return Fabric(domains, (*ground.notes, *replicas_apart(held, ground.home), *_refused(reports)), ground)


def _use_of(pods: Iterable[PodRecord]) -> _Use:
    held: dict[str, dict[str, int]] = {}
    serving = set()
    for pod in pods:
        if pod.node is not None and pod.holds_devices:
            there = held.setdefault(pod.node, {})
            for resource, count in pod.requests:
                there[resource] = there.get(resource, 0) + max(0, count)
            if pod.ready:
                serving.add(pod.node)
    return _Use(held, frozenset(serving))


def _domain(question: tuple[Part, _Uses]) -> NvlinkDomain:
    part, uses = question
    nodes = tuple(_node(part.name, seat, *use) for seat, use in zip(part.seats, uses, strict=True))
    return NvlinkDomain(part.name, part.zone, part.accelerator, nodes, part.tiers)


def _node(domain: str, seat: Seat, held: Mapping[str, int], serves: bool) -> FabricNode:  # noqa: FBT001 - as `_Uses`
    member, node, devices = seat.member, seat.member.node, seat.member.devices
    state = member.states[serves]
    return FabricNode(
        name=node.name,
        domain=domain,
        zone=member.zone,
        accelerator=devices.accelerator.name,
        resource=devices.resource,
        memory_bytes=devices.memory_bytes,
        total=member.total,
        used=held.get(devices.resource, 0),
        labels=node.labels,
        taints=node.taints,
        shared=devices.shared,
        unusable=state.unusable,
        left=_left(node, held),
        tiers=seat.tiers,
        nics=member.nics,
        leaving=state.leaving,
        impaired=state.impaired,
    )


def _left(node: NodeRecord, held: Mapping[str, int]) -> tuple[tuple[str, float], ...] | None:
    if node.offers is None:
        return None
    return tuple((name, amount - held.get(name, 0)) for name, amount in node.offers)


def _refused(reports: Reports) -> Iterator[Explanation]:
    for kind in sorted(set(reports.refused)):
        yield Explanation(
            Reason.NotPermitted, f"Weft may not list {kind}: the fabric is read without them; grant list and watch"
        )
