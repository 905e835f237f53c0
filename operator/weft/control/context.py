"""What the loops share; made once at the start, never changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from weft.apply import EventRecorder, Writer
    from weft.catalog import Catalog
    from weft.control.health import Pulse
    from weft.control.metrics.telemetry import Telemetry
    from weft.control.options import RunOptions
    from weft.observe.api_server.clock import ClusterClock
    from weft.observe.collector import MetricsCollector
    from weft.observe.custom_resources.cache import ResourceCache
    from weft.observe.informers.cluster import ClusterCache
    from weft.observe.snapshot_builder import Sources
    from weft.observe.sources.downloads import Downloads
    from weft.observe.sources.past import PastTraffic
    from weft.observe.sources.pickers import Pickers


@dataclass(frozen=True, slots=True)
class Context:
    """The caches to read, the writers, and what is known about this process."""

    options: RunOptions
    catalog: Catalog
    clock: ClusterClock
    cluster: ClusterCache
    resources: ResourceCache
    sources: Sources
    pickers: Pickers
    collector: MetricsCollector
    downloads: Downloads
    past: PastTraffic
    writer: Writer
    events: EventRecorder
    telemetry: Telemetry
    pulse: Pulse
    executor: Executor  # for passes and all other blocking work
    writing: Executor  # for concurrent writes of one pass; no pass runs here, so none waits for itself

    @property
    def synced(self) -> bool:
        """Whether every cache holds one complete list: nothing may be decided or converged before."""
        return self.cluster.synced and self.resources.synced

    @property
    def observed(self) -> bool:
        """Whether the engines were asked once, too: deciding earlier would lose what the previous process observed."""
        return self.synced and self.pulse.collected is not None
