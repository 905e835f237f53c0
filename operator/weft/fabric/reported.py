"""What DRA drivers and ComputeDomains report, grouped by node."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.fabric.membership import names_a_fabric

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.domain.reports import ComputeDomainReport, DeviceReport, DomainMember, Reports

CHANNELS = "compute-domain.nvidia.com"  # its ResourceSlices have no GPUs: they mark nodes fit for ComputeDomains


@dataclass(frozen=True, slots=True)
class Reported:
    """What is reported about one node.

    `products` counts its whole GPUs by (the driver's product name, bytes of memory); `parts` counts parts of GPUs;
    `lost` counts tainted devices by taint key; `cliques` are those that ComputeDomains name and that are a fabric.
    `fell_out_of` names the ComputeDomains in which this node is not ready and another is, `waits_in` those in which no
    node is ready. `channels` says that the node can be in a ComputeDomain made by Weft; `compute_domains` are those
    that name it.
    """

    driver: str = ""
    products: tuple[tuple[tuple[str, int], int], ...] = ()
    parts: int = 0
    lost: tuple[tuple[str, int], ...] = ()
    cliques: tuple[str, ...] = ()
    fell_out_of: tuple[str, ...] = ()
    waits_in: tuple[str, ...] = ()
    channels: bool = False
    compute_domains: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        """Count the whole GPUs that the DRA driver offers."""
        return sum(count for _, count in self.products)


NOTHING = Reported()


def by_node(reports: Reports) -> Mapping[str, Reported]:
    """Group reports by node, for every node that has any."""
    devices: dict[str, list[DeviceReport]] = defaultdict(list)
    channels = {each.node for each in reports.devices if each.driver == CHANNELS and reports.knows_compute_domains}
    for device in _newest(each for each in reports.devices if each.driver != CHANNELS):
        devices[device.node].append(device)
    memberships: dict[str, list[_Membership]] = defaultdict(list)
    for domain in sorted(reports.compute_domains, key=str):
        up = any(member.ready for member in domain.members)
        for member in domain.members:
            memberships[member.node].append(_Membership(domain, member, up))
    return {
        node: replace(_reported(devices[node], memberships[node]), channels=node in channels)
        for node in sorted({*devices, *memberships, *channels})
    }


def _newest(devices: Iterable[DeviceReport]) -> list[DeviceReport]:
    """Return the ResourceSlices of each pool's newest generation: older ones are about to be deleted."""
    listed = sorted(devices, key=lambda each: (each.node, each.driver, each.pool, each.name))
    newest: dict[tuple[str, str], int] = {}
    for each in listed:
        key = (each.driver, each.pool)
        newest[key] = max(newest.get(key, each.generation), each.generation)
    return [each for each in listed if each.generation == newest[each.driver, each.pool]]


@dataclass(frozen=True, slots=True)
class _Membership:
    """A node in a ComputeDomain, and whether any node of that domain is ready (`up`).

    A ComputeDomain that is being deleted takes its daemons down, which says nothing about the node.
    """

    domain: ComputeDomainReport
    member: DomainMember
    up: bool

    @property
    def broken(self) -> bool:
        """Whether the node is not ready in its ComputeDomain and should be."""
        return not self.member.ready and not self.domain.terminating


def _reported(devices: list[DeviceReport], memberships: list[_Membership]) -> Reported:
    products: Counter[tuple[str, int]] = Counter()
    lost: Counter[str] = Counter()
    for device in devices:
        for product, memory, count in device.gpus:
            products[product, memory] += count
        lost.update(dict(device.lost))
    broken = [(str(each.domain), each.up) for each in memberships if each.broken]
    return Reported(
        driver=", ".join(sorted({device.driver for device in devices})),
        products=tuple(sorted(products.items())),
        parts=sum(device.parts for device in devices),
        lost=tuple(sorted(lost.items())),
        cliques=tuple(sorted({each.member.clique for each in memberships if names_a_fabric(each.member.clique)})),
        fell_out_of=tuple(name for name, up in broken if up),
        waits_in=tuple(name for name, up in broken if not up),
        compute_domains=tuple(str(each.domain) for each in memberships),
    )
