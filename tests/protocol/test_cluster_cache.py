"""The informers for nodes and pods heal by themselves from whatever an API server does, and forget what is gone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from kubernetes.client import ApiClient, Configuration

from e2e.cluster.waiting import eventually
from tests.protocol.scripted_server import ScriptedServer
from weft.domain import labels
from weft.observe.api_server.reading import Reader
from weft.observe.informers.cluster import ClusterCache

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(90)

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
GPU = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}


class Caching:
    """A cluster cache on a scripted server."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.woken: list[str | None] = []
        self.cache = ClusterCache(Reader(ApiClient(Configuration(host=server.url))), (), self.woken.append)

    def pods(self) -> list[str]:
        """Names of the pods it knows."""
        return [pod.name for pod in self.cache.pods()]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        running.put(NODES, "n1", spec={}, status={"allocatable": {"nvidia.com/gpu": "8"}})
        running.put(PODS, "p1", spec=GPU)
        running.put(PODS, "no-gpu", spec={"containers": [{}]})
        yield running


@pytest.fixture
def caching(server: ScriptedServer) -> Iterator[Caching]:
    started = Caching(server)
    started.cache.start()
    eventually(lambda: started.cache.synced and server.watches(PODS) and server.watches(NODES), "everything is watched")
    yield started
    server.heal()
    started.cache.stop(5)


def test_what_there_is_when_it_starts_is_known_once_it_says_synced(caching: Caching) -> None:
    """A snapshot of a half-filled cache would free GPUs that are taken."""
    assert caching.pods() == ["p1"]
    assert [node.name for node in caching.cache.nodes()] == ["n1"]


def test_a_long_list_is_read_in_pages(server: ScriptedServer) -> None:
    for number in range(1201):
        server.put(PODS, f"p{number:05}", spec=GPU)
    started = Caching(server)
    started.cache.start()
    eventually(lambda: started.cache.synced, "it is synced")
    assert len(started.pods()) == 1202
    assert server.count("GET", PODS, limit="500") == 3
    started.cache.stop(5)


def test_changes_arrive_and_wake(server: ScriptedServer, caching: Caching) -> None:
    caching.woken.clear()
    server.put(PODS, "p2", spec=GPU)
    eventually(lambda: caching.pods() == ["p1", "p2"], "the new pod is known")
    server.remove(PODS, "p1")
    eventually(lambda: caching.pods() == ["p2"], "the deleted pod is gone")
    eventually(lambda: len(caching.woken) >= 2, "it is told after it is known")
    assert caching.woken == [None, None]


def test_a_change_that_says_nothing_new_does_not_wake(server: ScriptedServer, caching: Caching) -> None:
    """A heartbeat of a node is no reason to decide."""
    caching.woken.clear()
    server.put(NODES, "n1", spec={}, status={"allocatable": {"nvidia.com/gpu": "8"}, "heartbeat": "later"})
    server.put(PODS, "last", spec=GPU)
    eventually(lambda: "last" in caching.pods() and caching.woken, "what came later is known")
    assert caching.woken == [None]


ODD = {"containers": ["no object"]}


def test_an_object_that_cannot_be_read_hides_no_other(server: ScriptedServer) -> None:
    """Neither at the start, where one list has all of them, nor later."""
    server.put(PODS, "odd", spec=ODD)
    started = Caching(server)
    started.cache.start()
    eventually(lambda: started.cache.synced, "it is synced")
    assert started.pods() == ["p1"]
    server.put(PODS, "odd", spec=GPU)
    eventually(lambda: started.pods() == ["odd", "p1"], "it is known once it can be read")
    server.heal()
    started.cache.stop(5)


@pytest.mark.parametrize("missed", [False, True], ids=["by an event", "by a list"])
def test_what_cannot_be_read_any_more_stays_as_it_was_known(
    server: ScriptedServer,
    caching: Caching,
    missed: bool,  # noqa: FBT001
) -> None:
    """What a pod holds is not free because of that; another object of its name is not that pod."""
    server.put(PODS, "p1", spec=ODD, uid="uid-p1", silent=missed)
    server.put(PODS, "last", spec=GPU, silent=missed)
    server.expire()
    eventually(lambda: "last" in caching.pods(), "what came later is known")
    assert caching.pods() == ["last", "p1"]
    server.put(PODS, "p1", spec=ODD, uid="another")
    eventually(lambda: caching.pods() == ["last"], "the one that was known is gone")


HELD = {**GPU, "schedulingGates": [{"name": "corp.example/approved"}]}
OWNER = {
    "apiVersion": labels.API_VERSION,
    "kind": "InferencePool",
    "name": "chat",
    "uid": "uid-chat",
    "controller": True,
}
OF_A_POOL = {
    "labels": {labels.POOL_UID: "uid-chat", labels.REPLICA: "0", labels.RANK: "0"},
    "ownerReferences": [OWNER],
    "creationTimestamp": "2026-01-01T00:00:00Z",
}


def test_a_pod_is_released_when_the_gate_of_somebody_else_falls(server: ScriptedServer, caching: Caching) -> None:
    """And not when it was created, or it would be given up before its scheduler has looked at it once."""
    server.put(PODS, "engine", spec=HELD, metadata=OF_A_POOL)
    eventually(
        lambda: [pod.foreign_gate for pod in caching.cache.pods()] == ["corp.example/approved", ""], "it is held"
    )
    before = time.time()
    server.put(PODS, "engine", spec=GPU, metadata=OF_A_POOL)
    eventually(lambda: not any(pod.queued for pod in caching.cache.pods()), "it is free")
    first = caching.cache.pods()[0].released
    server.put(PODS, "engine", spec=GPU, metadata={**OF_A_POOL, "annotations": {"any": "change"}})
    server.put(PODS, "last", spec=GPU)
    eventually(lambda: "last" in caching.pods(), "what came later is known")
    assert first is not None
    assert before <= first == caching.cache.pods()[0].released


def test_a_pod_that_vanished_in_a_gap_is_forgotten(server: ScriptedServer, caching: Caching) -> None:
    """F15, by the list that follows 410."""
    server.remove(PODS, "p1", silent=True)
    server.put(PODS, "p2", spec=GPU, silent=True)
    server.expire()
    assert eventually(lambda: caching.pods() == ["p2"], "only what exists is known")


def test_a_pod_re_created_in_a_gap_is_another_pod(server: ScriptedServer, caching: Caching) -> None:
    """F4: the informer reports it as changed; its UID tells."""
    server.remove(PODS, "p1", silent=True)
    server.put(PODS, "p1", uid="another", spec=GPU, silent=True)
    server.expire()
    assert eventually(lambda: [pod.uid for pod in caching.cache.pods()] == ["another"], "the new UID is known")


@pytest.mark.parametrize("status", [500, 403, 401, 429])
def test_an_outage_heals_without_a_restart(server: ScriptedServer, caching: Caching, status: int) -> None:
    """F13; meanwhile it asks with pauses, not in a storm."""
    server.fail(status)
    before = len(server.requests)
    eventually(lambda: len(server.requests) >= before + 8, "it keeps trying")
    server.put(PODS, "p2", spec=GPU, silent=True)
    server.heal()
    assert eventually(lambda: caching.pods() == ["p1", "p2"], "the outage is over", timeout_seconds=60)


def test_an_error_inside_a_stream_ends_nothing(server: ScriptedServer, caching: Caching) -> None:
    """F14."""
    server.error_in_stream(PODS, 500)
    server.put(PODS, "p2", spec=GPU, silent=True)
    server.cut(PODS)
    assert eventually(lambda: caching.pods() == ["p1", "p2"], "it watches again")


def test_watches_that_are_all_answered_with_410_are_no_storm_of_lists(server: ScriptedServer, caching: Caching) -> None:
    """F14: each list succeeds and is in vain; a large cluster would be listed twice a second, kind by kind."""
    server.answer = lambda asked: web.Response(status=410) if asked.query.get("watch") == "true" else None
    begun, before = time.monotonic(), server.count("GET", PODS, limit="500")
    server.cut()
    eventually(lambda: server.count("GET", PODS, limit="500") >= before + 4, "it lists", timeout_seconds=60)
    assert time.monotonic() - begun > 0.8 * (1 + 2 + 4)
    server.put(PODS, "p2", spec=GPU, silent=True)
    eventually(lambda: caching.pods() == ["p1", "p2"], "lists are taken", timeout_seconds=60)
    server.heal()
    eventually(lambda: server.watches(PODS), "it watches again", timeout_seconds=60)


def test_failing_calls_are_spaced_out(server: ScriptedServer, caching: Caching) -> None:
    """The informer alone would call again at once, for ever."""
    server.fail(500)
    begun = len(server.requests)
    eventually(lambda: len(server.requests) >= begun + 10, "two calls of each of five kinds")
    assert len(server.requests) - begun < 30
