"""What DRA drivers and ComputeDomains report, by node."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.domain.reports import ComputeDomainReport, DeviceReport, DomainMember, Reports


@dataclass(frozen=True, slots=True)
class Reported:
    """What is reported about one node.

    `products` are its whole GPUs as (driver's name of the product, bytes of memory) with their count; `lost` the
    devices that a taint takes out, by key; `cliques` what ComputeDomains name; `fell_out_of` those in which this node
    is not ready and another is, `waits_in` those in which none is.
    """

    driver: str = ""
    products: tuple[tuple[tuple[str, int], int], ...] = ()
    parts: int = 0
    lost: tuple[tuple[str, int], ...] = ()
    cliques: tuple[str, ...] = ()
    fell_out_of: tuple[str, ...] = ()
    waits_in: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        """Whole GPUs that the DRA driver offers."""
        return sum(count for _, count in self.products)


NOTHING = Reported()


def by_node(reports: Reports) -> Mapping[str, Reported]:
    """Reports of every node that anybody reports about."""
    devices: dict[str, list[DeviceReport]] = defaultdict(list)
    for device in _newest(reports.devices):
        devices[device.node].append(device)
    memberships: dict[str, list[tuple[str, DomainMember, bool]]] = defaultdict(list)
    for domain in sorted(reports.compute_domains, key=str):
        for name, member, up in _memberships(domain):
            memberships[member.node].append((name, member, up))
    return {node: _reported(devices[node], memberships[node]) for node in sorted({*devices, *memberships})}


def _newest(devices: Iterable[DeviceReport]) -> list[DeviceReport]:
    """Slices of a pool's newest generation: older ones are about to be deleted."""
    listed = sorted(devices, key=lambda each: (each.node, each.driver, each.pool, each.name))
    newest: dict[tuple[str, str], int] = {}
    for each in listed:
        key = (each.driver, each.pool)
        newest[key] = max(newest.get(key, each.generation), each.generation)
    return [each for each in listed if each.generation == newest[each.driver, each.pool]]


def _memberships(domain: ComputeDomainReport) -> Iterable[tuple[str, DomainMember, bool]]:
    """Each member with the domain's name and whether any member is ready."""
    up = any(member.ready for member in domain.members)
    return ((str(domain), member, up) for member in domain.members)


def _reported(devices: list[DeviceReport], memberships: list[tuple[str, DomainMember, bool]]) -> Reported:
    products: Counter[tuple[str, int]] = Counter()
    lost: Counter[str] = Counter()
    for device in devices:
        for product, memory, count in device.gpus:
            products[product, memory] += count
        lost.update(dict(device.lost))
    broken = [(name, up) for name, member, up in memberships if not member.ready]
    return Reported(
        driver=", ".join(sorted({device.driver for device in devices})),
        products=tuple(sorted(products.items())),
        parts=sum(device.parts for device in devices),
        lost=tuple(sorted(lost.items())),
        cliques=tuple(sorted({member.clique for _, member, _ in memberships if member.clique})),
        fell_out_of=tuple(name for name, up in broken if up),
        waits_in=tuple(name for name, up in broken if not up),
    )
