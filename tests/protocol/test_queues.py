"""Kueue's queues as a cluster shows them: absent, installed, forbidden, in an older version, and as they change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from e2e.cluster.waiting import eventually
from tests.protocol.caches import ended, started
from tests.protocol.scripted_server import ScriptedServer
from weft.domain.queueing import QueueRecord
from weft.observe.objects.queues import LOCAL_QUEUES, OF_A_POD_GROUP, WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP = {"annotations": {OF_A_POD_GROUP: "true"}}
NO_QUOTA = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "8 more needed"}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


def test_a_cluster_without_kueue_has_no_queue(server: ScriptedServer) -> None:
    cache = started(server)
    assert not cache.queueing().installed
    assert () == cache.queueing().refused
    ended(server, cache)


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
def test_queues_workloads_and_levels_are_read_in_either_version(server: ScriptedServer, version: str) -> None:
    api = f"kueue.x-k8s.io/{version}"
    queues, workloads, topologies = (server.serve(api, kind) for kind in ("localqueues", "workloads", "topologies"))
    server.put(queues, "llm", spec={"clusterQueue": "all"})
    server.put(topologies, "racks", spec={"levels": [{"nodeLabel": "rack"}]})
    server.put(workloads, "chat-1", metadata=GROUP, status={"conditions": [NO_QUOTA]})
    server.put(workloads, "job-x", status={"conditions": [NO_QUOTA]})
    cache = started(server)
    seen = cache.queueing()
    assert seen.installed
    assert (QueueRecord("team", "llm"),) == seen.queues
    assert (("rack",),) == seen.topologies
    assert [("team", "chat-1")] == list(seen.admissions)
    (stated,) = seen.admissions["team", "chat-1"].stated
    assert ("QuotaReserved", False, "Pending", "8 more needed") == (
        stated.kind,
        stated.holds,
        stated.reason,
        stated.message,
    )
    ended(server, cache)


def test_a_change_of_a_workload_wakes_the_loop(server: ScriptedServer) -> None:
    workloads = server.serve("kueue.x-k8s.io/v1beta2", "workloads")
    woken: list[str | None] = []
    cache = started(server, changed=woken.append)
    eventually(lambda: bool(server.watches(workloads)), "it is watched")
    woken.clear()
    server.put(workloads, "chat-1", metadata=GROUP, status={"conditions": [NO_QUOTA]})
    eventually(lambda: woken == [None], "the change wakes the loop")
    assert cache.queueing().admission("team", "chat-1") is not None
    server.remove(workloads, "chat-1")
    eventually(lambda: cache.queueing().admission("team", "chat-1") is None, "it is forgotten")
    ended(server, cache)


def test_only_served_namespaces_are_read(server: ScriptedServer) -> None:
    server.serve("kueue.x-k8s.io/v1beta2", "localqueues")
    server.put("/apis/kueue.x-k8s.io/v1beta2/namespaces/team/localqueues", "llm")
    cache = started(server, "team")
    assert (QueueRecord("team", "llm"),) == cache.queueing().queues
    assert 0 == server.count("GET", "/apis/kueue.x-k8s.io/v1beta2/localqueues")
    ended(server, cache)


def test_what_rbac_forbids_is_named(server: ScriptedServer) -> None:
    server.serve("kueue.x-k8s.io/v1beta2", "localqueues")
    server.serve("kueue.x-k8s.io/v1beta2", "workloads")
    server.answer = lambda request: (
        web.json_response({}, status=403) if request.path.endswith(("/localqueues", "/workloads")) else None
    )
    cache = started(server)
    assert (LOCAL_QUEUES.name, WORKLOADS.name) == cache.queueing().refused
    ended(server, cache)
