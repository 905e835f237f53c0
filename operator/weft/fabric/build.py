"""Builds the Fabric from nodes, pods and reports. Pure, deterministic and linear in its input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.fabric import Fabric, FabricNode, NvlinkDomain
from weft.domain.reasons import Explanation, Reason
from weft.domain.reports import Reports
from weft.domain.values.remembered import LastAnswers
from weft.fabric.apart import replicas_apart
from weft.fabric.layout import FabricLayout, Part, Seat, layout_of
from weft.fabric.use import Use, use_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weft.catalog import Catalog
    from weft.domain.cluster import NodeRecord, PodRecord

NO_REPORTS = Reports()
NOTHING_HELD: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, eq=False)
class _Built:
    """The last fabric's domains, and what they were made from."""

    layout: FabricLayout
    use: Use
    domains: tuple[NvlinkDomain, ...]


_Question = tuple[tuple["NodeRecord", ...], tuple["PodRecord", ...], "Catalog", Reports]
_LAST: LastAnswers[_Question, Fabric] = LastAnswers(1)
_LAST_BUILT: LastAnswers[tuple[FabricLayout, Use], _Built] = LastAnswers(1)


def build_fabric(
    nodes: Iterable[NodeRecord], pods: Iterable[PodRecord], catalog: Catalog, reports: Reports = NO_REPORTS
) -> Fabric:
    """Place every accelerator node in its NVLink domain, with the devices that pods hold, and notes on odd findings.

    A pod holds its devices from binding or nomination until it has ended; a terminating one still holds them. The
    fabric is the same object as long as nothing of this changes.
    """
    return _LAST.ask("fabric", (tuple(nodes), tuple(pods), catalog, reports), _fabric)


def _fabric(question: _Question) -> Fabric:
    nodes, held, catalog, reports = question
    layout = layout_of(nodes, catalog, reports)
    before = _LAST_BUILT.last("fabric")
    built = _LAST_BUILT.ask("fabric", (layout, use_of(held)), lambda question: _built(*question, before))
    return Fabric(built.domains, (*layout.notes, *replicas_apart(held, layout), *_refused(reports)), layout)


def _built(layout: FabricLayout, use: Use, before: _Built | None) -> _Built:
    """Build all domains; on the same layout, only those where the use of a node by pods has changed since `before`."""
    if before is None or before.layout is not layout:
        return _Built(layout, use, tuple(_domain(part, use) for part in layout.parts))
    domains = list(before.domains)
    for place in {layout.places[name] for name in use.changes_since(before.use) if name in layout.places}:
        domains[place] = _domain(layout.parts[place], use)
    return _Built(layout, use, tuple(domains))


def _domain(part: Part, use: Use) -> NvlinkDomain:
    nodes = tuple(_node(part, seat, use) for seat in part.seats)
    return NvlinkDomain(part.name, part.zone, part.accelerator, nodes, part.tiers)


def _node(part: Part, seat: Seat, use: Use) -> FabricNode:
    member, node, devices = seat.member, seat.member.node, seat.member.devices
    state, held = member.states[node.name in use.serving], use.held.get(node.name, NOTHING_HELD)
    return FabricNode(
        name=node.name,
        domain=part.name,
        zone=member.zone,
        accelerator=devices.accelerator.name,
        resource=devices.resource,
        memory_bytes=devices.memory_bytes,
        total=member.total,
        used=held.get(devices.resource, 0),
        labels=node.labels,
        taints=member.taints,
        shared=devices.shared,
        unusable=state.unusable,
        left=_left(node, held),
        tiers=seat.tiers,
        nics=member.nics,
        leaving=state.leaving,
        impaired=state.impaired,
        capacity=dict(node.capacity).get(devices.resource, 0),
        shares_memory=part.shares_memory,
        compute_domains=seat.compute_domains,
        notice=state.notice,
        board_gpus=member.board_gpus,
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
