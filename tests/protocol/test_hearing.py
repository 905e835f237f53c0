"""Until when a cache is known to be true: as far as its API server has told everything, and no further (ADR 0129)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import ApiClient, Configuration

from e2e.cluster.waiting import eventually
from tests.protocol.caches import ended, started
from tests.protocol.scripted_server import ScriptedServer
from weft.observe.api_server.reading import Reader
from weft.observe.informers import reflector
from weft.observe.informers.cluster import WATCH_SECONDS
from weft.observe.informers.reflector import STEADY_SECONDS, Collection, ListWatch, Reflector
from weft.observe.objects.records import read_node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.cluster import NodeRecord

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
LISTED_AT = 1000.0


class Told:
    """An API server that answers at once, and a clock that a test sets."""

    def __init__(self) -> None:
        self.now = LISTED_AT
        self.list_seconds = 0.0

    def pages(self, _path: str, _query: object) -> Iterator[dict[str, Any]]:
        self.now += self.list_seconds
        yield {"metadata": {"resourceVersion": "1"}, "items": []}

    def stream(self, _path: str, query: dict[str, str], timeout: tuple[float, float]) -> object:
        self.asked, self.timeout = query, timeout
        return object()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    server = Told()
    monkeypatch.setattr(reflector, "running_seconds", lambda: server.now)
    return server


@pytest.fixture
def nodes(told: Told) -> ListWatch[NodeRecord]:
    reader: Any = told
    return ListWatch(reader, Collection("nodes", NODES), read_node, watch_seconds=WATCH_SECONDS)


def watch(nodes: ListWatch[NodeRecord]) -> None:
    """As the informer does, once it has processed whatever came before."""
    nodes._called = -STEADY_SECONDS  # nothing to pause for
    nodes.list_or_watch(watch=True, resource_version="1")


def test_a_list_tells_what_was_true_when_it_began_and_only_once_it_is_in_the_cache(
    told: Told, nodes: ListWatch[NodeRecord]
) -> None:
    before, told.list_seconds = nodes.true_until, 7.0
    nodes.list_or_watch()
    assert before == nodes.true_until
    watch(nodes)
    assert LISTED_AT == nodes.true_until


def test_a_watch_is_asked_to_end_soon_and_tells_everything_until_it_does(
    told: Told, nodes: ListWatch[NodeRecord]
) -> None:
    nodes.list_or_watch()
    watch(nodes)
    assert str(int(WATCH_SECONDS)) == told.asked["timeoutSeconds"]
    assert 2.0 * WATCH_SECONDS == told.timeout[1]
    told.now += WATCH_SECONDS
    assert LISTED_AT == nodes.true_until, "it may hang"
    watch(nodes)
    assert LISTED_AT + WATCH_SECONDS - 1.0 == nodes.true_until


@pytest.mark.parametrize("passed", [3.0, WATCH_SECONDS + 5.0], ids=["ended too soon", "failed"])
def test_a_watch_that_was_cut_off_says_nothing_until_there_is_a_list(
    told: Told, nodes: ListWatch[NodeRecord], passed: float
) -> None:
    nodes.list_or_watch()
    watch(nodes)
    told.now += passed
    if passed > WATCH_SECONDS:
        nodes.fail()
    watch(nodes)
    assert LISTED_AT == nodes.true_until
    nodes.list_or_watch()
    listed = told.now
    watch(nodes)
    assert listed == nodes.true_until


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        running.put(NODES, "n1", spec={}, status={})
        yield running


@pytest.fixture
def watched(server: ScriptedServer) -> Iterator[Reflector[NodeRecord]]:
    """Nodes whose watch tells everything half a second after it was opened."""
    reader = Reader(ApiClient(Configuration(host=server.url)))
    kept = Reflector(ListWatch(reader, Collection("nodes", NODES), read_node, watch_seconds=1.5), lambda _, __: None)
    kept.start()
    eventually(lambda: kept.synced and server.watches(NODES), "nodes are watched")
    yield kept
    stopping = threading.Thread(target=kept.stop, daemon=True)
    stopping.start()
    server.cut()
    stopping.join(5)


def watched_again(server: ScriptedServer) -> bool:
    return server.count("GET", NODES, watch="true") == 2


def test_neither_events_nor_an_error_after_them_tell_that_nothing_is_missing(
    server: ScriptedServer, watched: Reflector[NodeRecord]
) -> None:
    eventually(lambda: watched.blind_seconds > 0.8, "time passes")
    before = watched.blind_seconds
    server.put(NODES, "n2", spec={}, status={})
    eventually(lambda: len(watched.records()) == 2, "an event came")
    assert watched.blind_seconds >= before
    server.error_in_stream(NODES, 500)
    eventually(lambda: watched_again(server), "it watches again")
    assert watched.blind_seconds >= before


def test_the_end_of_a_watch_in_time_tells_it_without_a_list(
    server: ScriptedServer, watched: Reflector[NodeRecord]
) -> None:
    eventually(lambda: watched.blind_seconds > 0.8, "time passes")
    before = watched.blind_seconds
    server.cut(NODES)
    eventually(lambda: watched.blind_seconds < before, "it is known to be true until later")
    assert 1 == server.count("GET", NODES, limit="500")


def test_nodes_and_pods_of_a_cluster_are_as_old_as_the_older_of_them(server: ScriptedServer) -> None:
    cache = started(server)
    eventually(lambda: cache.blind_seconds > 0.5, "time passes")
    for path in (NODES, PODS):
        assert 1 == server.count("GET", path, watch="true", timeoutSeconds=str(int(WATCH_SECONDS)))
    ended(server, cache)
