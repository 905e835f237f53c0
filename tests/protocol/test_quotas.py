"""ResourceQuotas as a cluster shows them: listed, watched, of the served namespaces alone, and forbidden."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from e2e.cluster.waiting import eventually
from tests.protocol.caches import ended, started
from tests.protocol.scripted_server import ScriptedServer
from weft.domain.quotas import QuotaRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

GPUS = "requests.nvidia.com/gpu"
PATH = "/api/v1/resourcequotas"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


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
