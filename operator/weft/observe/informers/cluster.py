"""Caches of nodes, pods, fabric reports and our objects, kept current by one informer per kind."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from weft.observe.api_server.clock import ClusterClock
from weft.observe.api_server.reading import OURS, resource_path
from weft.observe.informers.gateway import GatewayCache
from weft.observe.informers.queues import QueueCache
from weft.observe.informers.quotas import QuotaCache
from weft.observe.informers.reflector import Collection, ListWatch, Reflector
from weft.observe.informers.reports import ReportCache
from weft.observe.objects.records import no_sooner_released, read_node, read_object, read_pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from weft.domain.cluster import NodeRecord, ObjectRecord, PodRecord
    from weft.domain.queueing import Queueing
    from weft.domain.quotas import QuotaRecord
    from weft.domain.reasons import Explanation
    from weft.domain.reports import Reports
    from weft.observe.api_server.reading import Reader

# Each watch that ends in time shows that nothing of what it should have told is missing (ADR 0129).
WATCH_SECONDS = 12.0

OWNED_KINDS = (
    ("v1", "Service", "services"),
    ("apps/v1", "Deployment", "deployments"),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
)


class ClusterCache:
    """Caches everything except our own resources.

    Pods and nodes of the whole cluster (what is free depends on all), our objects in the served namespaces.
    `changed` is called from informer threads with the UID of the resource that a change belongs to, or None.
    """

    def __init__(
        self,
        reader: Reader,
        namespaces: Iterable[str],
        changed: Callable[[str | None], None],
        now: Callable[[], float] | None = None,
    ) -> None:
        """An empty `namespaces` serves the whole cluster; `now` is the API server's time in epoch seconds."""
        clock = now or ClusterClock().now
        self._owner_changed = changed
        self.revision = 0  # rises with every change, so that views of the cache know when they are outdated
        nodes, pods = (Collection(plural, resource_path("v1", plural)) for plural in ("nodes", "pods"))
        self._nodes: Reflector[NodeRecord] = Reflector(
            ListWatch(reader, nodes, read_node, watch_seconds=WATCH_SECONDS), self._node_changed
        )
        self._pods: Reflector[PodRecord] = Reflector(
            ListWatch(reader, pods, read_pod, watch_seconds=WATCH_SECONDS),
            self._pod_changed,
            lambda before, pod: no_sooner_released(before, pod, clock()),
        )
        served = sorted(set(namespaces))
        self._objects = [
            Reflector(ListWatch(reader, collection, read_object), self._object_changed)
            for collection in _owned_collections(served)
        ]
        self._reports = ReportCache(reader, self._changed)
        self._queues = QueueCache(reader, served, lambda: self._changed(None))
        self._quotas = QuotaCache(reader, served, lambda: self._changed(None))
        self._gateways = GatewayCache(reader, served, self._changed)

    def start(self) -> None:
        """Start listing and watching in the background."""
        for reflector in self._started():
            reflector.start()

    def stop(self, within_seconds: float) -> None:
        """Close all streams; gives up waiting for the threads (they are daemons) after `within_seconds`."""
        stoppers = [threading.Thread(target=reflector.stop, daemon=True) for reflector in self._started()]
        for stopper in stoppers:
            stopper.start()
        for stopper in stoppers:
            stopper.join(within_seconds / len(stoppers))

    @property
    def synced(self) -> bool:
        """Whether every kind was listed once, or tried once if it is optional: nothing may be decided before."""
        optional = (self._reports, self._queues, self._quotas, self._gateways)
        return all(cache.answered for cache in optional) and all(reflector.synced for reflector in self._all())

    @property
    def age_seconds(self) -> float:
        """Seconds since the last sign of life of the kind that was silent longest, of those that every cluster has."""
        return max(reflector.age_seconds for reflector in self._all())

    @property
    def blind_seconds(self) -> float:
        """Seconds that have passed since nodes and pods were last known to be as they are here. Ask before them."""
        return max(self._nodes.blind_seconds, self._pods.blind_seconds)

    def nodes(self) -> tuple[NodeRecord, ...]:
        """All nodes, sorted by name."""
        return self._nodes.records()

    def pods(self) -> tuple[PodRecord, ...]:
        """Pods of ours and pods that request accelerators, sorted by namespace and name."""
        return self._pods.records()

    def reports(self) -> Reports:
        """What device drivers, ComputeDomains and Topologies report about the fabric."""
        return self._reports.reports()

    def queueing(self) -> Queueing:
        """The state of Kueue's queues."""
        return self._queues.queueing(self.reports().topologies)

    def quotas(self) -> tuple[QuotaRecord, ...]:
        """ResourceQuotas of the served namespaces that limit pods or accelerators."""
        return self._quotas.quotas()

    def objects(self) -> tuple[ObjectRecord, ...]:
        """Our objects in served namespaces (Services, Deployments, budgets, those for Gateways), and ComputeDomains."""
        ours = (record for reflector in self._objects for record in reflector.records())
        return (*ours, *self._reports.objects(), *self._gateways.objects())

    @property
    def lacks_for_gateways(self) -> Explanation | None:
        """Why resources with `router.type: Gateway` cannot have one; None if they can."""
        return self._gateways.lacks

    def shown_pairs(self) -> dict[tuple[str, str], str]:
        """By namespace and UID of splits behind a Gateway, the generation that the endpoint picker chooses from."""
        return self._gateways.shown_pairs()

    def taken_routes(self) -> frozenset[tuple[str, str]]:
        """Namespace and UID of the owners of routes that a Gateway takes."""
        return self._gateways.taken_routes()

    def _changed(self, owner: str | None) -> None:
        self.revision += 1  # a lost update between threads still leaves it changed
        self._owner_changed(owner)

    def _all(self) -> list[Reflector[Any]]:
        return [self._nodes, self._pods, *self._objects]

    def _started(self) -> list[Reflector[Any]]:
        optional = (self._reports, self._queues, self._quotas, self._gateways)
        return [*self._all(), *(reflector for cache in optional for reflector in cache.reflectors)]

    def _node_changed(self, _old: NodeRecord | None, _new: NodeRecord | None) -> None:
        self._changed(None)

    def _pod_changed(self, old: PodRecord | None, new: PodRecord | None) -> None:
        owners = {pod.identity.pool_uid if pod.identity else None for pod in (old, new) if pod is not None}
        for owner in owners:
            self._changed(owner)

    def _object_changed(self, old: ObjectRecord | None, new: ObjectRecord | None) -> None:
        owners = {record.owner_uid for record in (old, new) if record is not None}
        for owner in owners | ({None} if new is None else set()):  # somebody else may wait for its name
            self._changed(owner)


def _owned_collections(namespaces: list[str]) -> list[Collection]:
    places: list[str | None] = [*namespaces] or [None]
    return [
        Collection(f"{plural} in {place or 'all'}", resource_path(version, plural, place), OURS, (version, kind))
        for version, kind, plural in OWNED_KINDS
        for place in places
    ]
