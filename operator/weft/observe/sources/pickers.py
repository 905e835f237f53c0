"""Endpoint pickers of pools behind a Gateway: the pods of the Service that the user named, as fronts to observe.

They belong to others and protect their metrics with a token, so they are read through Prometheus alone. A picker's
counters do not name the InferencePool: one that several pools or splits share counts them all, and is left out.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import TYPE_CHECKING

from weft.engines import FRONTS
from weft.observe.api_server.reading import resource_path
from weft.observe.api_server.small_reads import SmallReads
from weft.observe.samples.scrape_target import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from weft.domain.snapshot import PoolRecord
    from weft.observe.api_server.reading import Json, Reader

READ_AGAIN_SECONDS = 30.0
METRICS_PORT = 9090  # of both pickers by default; Prometheus has its own configuration
SERVICE = "kubernetes.io/service-name"
_POD_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")

Named = tuple[str, str]  # (namespace, Service)


class Pickers:
    """Reads EndpointSlices by Service name, at most twice a minute each; none where that is not permitted."""

    def __init__(self, reader: Reader, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is read before it is asked for."""
        self._reader = reader
        self._pods: SmallReads[Named, tuple[Target, ...]] = SmallReads(self._read, (), READ_AGAIN_SECONDS, clock)

    def fronts(self, pools: Iterable[PoolRecord]) -> dict[str, tuple[Target, ...]]:
        """Ready pods of the picker that a pool or split has for itself, by UID of the pool or half; blocks."""
        named = {pool.key.uid: (_named(pool), pool.split_uid or pool.key.uid) for pool in pools}
        times = Counter(service for service, _ in set(named.values()))
        return {uid: self._pods.get(service) for uid, (service, _) in named.items() if service and times[service] == 1}

    def _read(self, service: Named) -> tuple[Target, ...]:
        namespace, name = service
        path = resource_path("discovery.k8s.io/v1", "endpointslices", namespace)
        slices = self._reader.get(path, {"labelSelector": f"{SERVICE}={name}"}).get("items") or ()
        found = {target.uid: target for each in slices for target in _targets(namespace, each)}
        return tuple(found[uid] for uid in sorted(found))


def _named(pool: PoolRecord) -> Named | None:
    gateway = pool.spec.router.gateway if pool.spec is not None else None
    return (pool.key.namespace, gateway.picker) if gateway is not None else None


def _targets(namespace: str, endpoint_slice: Json) -> Iterator[Target]:
    """The slice's ready pods; unknown readiness counts as ready, as for all readers of slices.

    Anybody may write a slice by hand: one that names no pod as the API server does is skipped.
    """
    for endpoint in endpoint_slice.get("endpoints") or ():
        pod, addresses = endpoint.get("targetRef") or {}, endpoint.get("addresses") or ()
        uid, name = str(pod.get("uid") or ""), str(pod.get("name") or "")
        named = pod.get("kind") == "Pod" and uid and _POD_NAME.fullmatch(name)
        if named and addresses and (endpoint.get("conditions") or {}).get("ready") is not False:
            place = (uid, namespace, name, addresses[0], METRICS_PORT, FRONTS.path, FRONTS.names)
            yield Target(*place, scraped=False)
