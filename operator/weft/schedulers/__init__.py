"""One adapter per scheduler: whether it picks nodes, what pods have to carry for it, and what its objects say.

`protocol`: what each answers. `default`: the stock scheduler. `kueue`: Kueue, and `levels`: which of its topology
levels keep a replica inside one NVLink domain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.spec import SchedulerName
from weft.schedulers.default import Default
from weft.schedulers.kueue import Kueue
from weft.schedulers.protocol import Ask, Eviction, Marks, ReplicaPod, SchedulerAdapter, Site

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Ask", "Eviction", "Marks", "ReplicaPod", "SchedulerAdapter", "Site", "scheduler_for"]

_SCHEDULERS: Mapping[SchedulerName, SchedulerAdapter] = {SchedulerName.Default: Default(), SchedulerName.Kueue: Kueue()}


def scheduler_for(name: SchedulerName) -> SchedulerAdapter:
    """The adapter of the scheduler with this name."""
    return _SCHEDULERS[name]
