"""Parts of GPUs in a simulated cluster: an engine on a part gets its share of the GPU, as its plan says."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from weft.fabric import build_fabric
from weft.placement import suppliers

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.domain.cluster import NodeRecord
    from weft.domain.fabric import Fabric
    from weft.domain.shape import Plan
    from weft.domain.spec import PoolSpec


class Parts:
    """The devices of a cluster whose nodes may offer MIG devices, time slices or AMD partitions."""

    def __init__(self, nodes: tuple[NodeRecord, ...], catalog: Catalog) -> None:
        """`nodes` are those of the start: a failed node comes back as it was then."""
        self._nodes, self._catalog = nodes, catalog

    @cached_property
    def _fabric(self) -> Fabric:
        return build_fabric(self._nodes, (), self._catalog)

    def device_bytes(self, plan: Plan, spec: PoolSpec) -> int | None:
        """Return the memory of the device that a plan was made for, the smallest allowed one; None for whole GPUs."""
        kinds = suppliers(self._fabric, spec.placement)
        found = next((each for each in kinds if each.accelerator == plan.shape.accelerator), None)
        return found.memory_bytes if found is not None and found.shared else None
