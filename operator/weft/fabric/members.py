"""An accelerator node by itself, before its domain has a name: all that can be read from the node alone.

Results are cached: from one pass to the next nearly all nodes stay the same, and there may be thousands.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.fabric.devices import read_devices
from weft.fabric.faults import Evidence, State, state_of
from weft.fabric.membership import known_labels, membership, zone_of
from weft.fabric.network import nics_of

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.domain.cluster import NodeRecord, Taint
    from weft.fabric.devices import Devices
    from weft.fabric.membership import Membership
    from weft.fabric.parts import Labels
    from weft.fabric.reported import Reported

REMEMBERED = 16_384  # nodes kept in the cache
_SYSTEM, _LINUX = "kubernetes.io/os", "linux"  # the kubelet writes this label; engine images are for Linux only


@dataclass(frozen=True, slots=True)
class AcceleratorNode:
    """What was read of one accelerator node. `states` are those without and with a ready pod on its devices.

    `labels` leaves out the ones whose writer does not know their value.
    `taints` leaves out the ones which say that the node goes away: those are in `states`, and are no trait of the node.
    """

    node: NodeRecord
    labels: Labels
    devices: Devices
    zone: str
    reported: Reported
    membership: Membership
    total: int
    nics: tuple[tuple[str, int], ...]
    states: tuple[State, State]
    taints: tuple[Taint, ...]

    @property
    def board_gpus(self) -> int:
        """GPUs that NVLink joins where the node has several boards of them; 0 where it joins all, or there is none.

        Cards that a bridge joins in pairs reach the others over PCIe, and groups of more are made of them.
        """
        known = self.devices.accelerator
        boards = known.pcie_bandwidth is None and 1 < known.domain_gpus <= known.gpus_per_node
        offered = dict(self.node.capacity).get(self.devices.resource, 0)
        is_more = offered > known.largest_board_gpus and not (self.devices.shared or self.devices.claimable)
        return known.domain_gpus if boards and is_more else 0

    @property
    def kind(self) -> tuple[str, str]:
        """The (zone, accelerator) that all nodes of one NVLink domain share."""
        return self.zone, self.devices.accelerator.name


@functools.lru_cache(maxsize=REMEMBERED)
def member_of(node: NodeRecord, reported: Reported, catalog: Catalog) -> AcceleratorNode | Explanation | None:
    """Read one node: None for a node without accelerators, an Explanation where they cannot be used."""
    labels = known_labels(node.labels)
    devices = read_devices(node, labels, catalog, reported)
    if devices is None or isinstance(devices, Explanation):
        return devices
    if (system := labels.get(_SYSTEM, _LINUX)) != _LINUX:
        why = f"node {node.name} runs {system}, where no engine does: it is not used"
        return Explanation(Reason.AcceleratorUnknown, why)
    return AcceleratorNode(
        node=node,
        labels=labels,
        devices=devices,
        zone=zone_of(labels),
        reported=reported,
        membership=membership(node.name, labels, devices.accelerator, reported.cliques),
        total=max(0, dict(node.allocatable).get(devices.resource, 0)),
        nics=nics_of(node.allocatable),
        states=_states(node, labels, devices, reported, catalog),
        taints=tuple(taint for taint in node.taints if taint.key not in catalog.reclaim_taints),
    )


def _states(
    node: NodeRecord, labels: Labels, devices: Devices, reported: Reported, catalog: Catalog
) -> tuple[State, State]:
    taints = {taint.key: taint for taint in node.taints}
    reclaims = {key: catalog.reclaim_taints[key] for key in taints if key in catalog.reclaim_taints}
    found = Evidence(node, labels, taints, devices, reported, serves=False, reclaims=reclaims)
    return state_of(found), state_of(replace(found, serves=True))
