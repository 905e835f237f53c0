"""ResourceQuotas as a cluster shows them: listed, watched, of the served namespaces alone, and forbidden."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from kubernetes.client import ApiClient, Configuration

from e2e.cluster.waiting import eventually
from tests.protocol.scripted_server import ScriptedServer
from weft.domain.quotas import QuotaRecord
from weft.observe.cluster_cache import ClusterCache
from weft.observe.reading import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GPUS = "requests.nvidia.com/gpu"
PATH = "/api/v1/resourcequotas"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        running.put("/api/v1/nodes", "n1", spec={}, status={})
        yield running


def started(
    server: ScriptedServer, *namespaces: str, changed: Callable[[str | None], None] = lambda _: None
) -> ClusterCache:
    cache = ClusterCache(Reader(ApiClient(Configuration(host=server.url))), namespaces, changed)
    cache.start()
    eventually(lambda: cache.synced, "it is synced")
    return cache


def ended(server: ScriptedServer, cache: ClusterCache) -> None:
    server.cut()
    cache.stop(5)


def limited(server: ScriptedServer, path: str = PATH, used: str = "8") -> None:
    server.put(path, "gpus", spec={"hard": {GPUS: "16"}}, status={"hard": {GPUS: "16"}, "used": {GPUS: used}})


def test_quotas_are_known_before_anything_is_decided_and_followed(server: ScriptedServer) -> None:
    limited(server)
    woken: list[str | None] = []
    cache = started(server, changed=woken.append)
    assert (QuotaRecord("team", "gpus", ((GPUS, 16),), ((GPUS, 8),)),) == cache.quotas()
    eventually(lambda: bool(server.watches(PATH)), "they are watched")
    woken.clear()
    limited(server, used="16")
    eventually(lambda: woken == [None], "a change wakes the loop")
    assert ((GPUS, 16),) == cache.quotas()[0].used
    ended(server, cache)


def test_only_those_of_served_namespaces_are_read(server: ScriptedServer) -> None:
    limited(server, "/api/v1/namespaces/team/resourcequotas")
    cache = started(server, "team")
    assert ["gpus"] == [each.name for each in cache.quotas()]
    assert 0 == server.count("GET", PATH)
    ended(server, cache)


def test_what_rbac_forbids_holds_nothing_up(server: ScriptedServer) -> None:
    limited(server)
    server.answer = lambda request: web.json_response({}, status=403) if request.path == PATH else None
    cache = started(server)
    assert () == cache.quotas()
    ended(server, cache)
