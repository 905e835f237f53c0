"""A cluster cache on a scripted server with one node: started, and ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubernetes.client import ApiClient, Configuration

from e2e.cluster.waiting import eventually
from weft.observe.api_server.reading import Reader
from weft.observe.informers.cluster import ClusterCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.protocol.scripted_server import ScriptedServer


def started(
    server: ScriptedServer, *namespaces: str, changed: Callable[[str | None], None] = lambda _: None
) -> ClusterCache:
    """Once it is synced."""
    server.put("/api/v1/nodes", "n1", spec={}, status={})
    cache = ClusterCache(Reader(ApiClient(Configuration(host=server.url))), namespaces, changed)
    cache.start()
    eventually(lambda: cache.synced, "it is synced")
    return cache


def ended(server: ScriptedServer, cache: ClusterCache) -> None:
    """Cuts its watches first, which would last."""
    server.cut()
    cache.stop(5)
