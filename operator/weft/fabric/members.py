"""A node with usable labels, before its domain has a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord
    from weft.fabric.devices import Devices, Labels
    from weft.fabric.reported import Reported


@dataclass(frozen=True, slots=True)
class Member:
    """What was read of one accelerator node."""

    node: NodeRecord
    labels: Labels
    devices: Devices
    zone: str
    reported: Reported

    @property
    def kind(self) -> tuple[str, str]:
        """What all nodes of one NVLink domain have in common."""
        return self.zone, self.devices.accelerator.name
