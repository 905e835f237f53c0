"""The watches of our own resources outlive what an API server may do to them, or say that they did not.

Against kopf itself, in bounded time, without a cluster: facts 1 to 3 that shape how we use it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from kubernetes.client import ApiClient, Configuration

from e2e.cluster.waiting import eventually
from tests.protocol.scripted_server import POOLS, SPLITS, ScriptedServer
from weft.control.logs import WithoutOldNews
from weft.control.watches.watching import RELIST_PAUSE_SECONDS, KopfThread, Round, Watched
from weft.observe.api_server.reading import Reader
from weft.observe.custom_resources.cache import ResourceCache, list_resources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.timeout(90)


class Watching:
    """kopf on a scripted server, with the cache that it feeds."""

    def __init__(self, server: ScriptedServer) -> None:
        configuration = Configuration(host=server.url)
        self.client = ApiClient(configuration)
        self.woken: list[str] = []
        self.cache = ResourceCache(self.woken.append)
        self.kopf = KopfThread(Watched(self.client, self.cache, ()))

    def names(self) -> list[str]:
        """Names of the pools in the cache."""
        return [str(body["metadata"]["name"]) for body in self.cache.bodies("InferencePool")]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


@pytest.fixture
def watching(server: ScriptedServer) -> Iterator[Watching]:
    server.put(POOLS, "chat", spec={})
    started = Watching(server)
    started.kopf.start()
    eventually(lambda: server.watches(POOLS) and server.watches(SPLITS), "both kinds are watched")
    yield started
    started.kopf.stop(10)


def test_every_kind_has_a_watcher_and_its_objects_arrive(server: ScriptedServer, watching: Watching) -> None:
    """Holds kopf's private task name in place: liveness counts tasks by it."""
    assert watching.names() == ["chat"]
    assert watching.kopf.watchers() == watching.kopf.expected_watchers == 2


def test_nothing_is_ever_written(server: ScriptedServer, watching: Watching) -> None:
    """No finalizer, no annotation, no status: kopf only reads."""
    server.put(POOLS, "chat", spec={"changed": True})
    server.put(POOLS, "second", spec={})
    eventually(lambda: watching.names() == ["chat", "second"], "both pools are known")
    assert {seen.method for seen in server.requests} == {"GET"}


@pytest.mark.parametrize("status", [500, 403])
def test_an_outage_longer_than_kopfs_default_patience_heals(
    server: ScriptedServer, watching: Watching, status: int
) -> None:
    """Fact 1: with back-offs that never end the watch comes back, and what happened meanwhile is seen."""
    failures = len(server.requests)
    server.fail(status, "InternalError" if status == 500 else "Forbidden")
    eventually(lambda: len(server.requests) >= failures + 4, "it keeps trying", timeout_seconds=60)
    assert watching.kopf.watchers() == 2
    server.put(POOLS, "created-in-the-dark", spec={}, silent=True)
    server.heal()
    eventually(lambda: "created-in-the-dark" in watching.names(), "the outage is over", timeout_seconds=60)


def test_a_watcher_that_dies_is_counted_as_dead(server: ScriptedServer, watching: Watching) -> None:
    """Fact 1: after an in-stream ERROR other than 410 the task ends and nobody restarts it; liveness must notice."""
    server.error_in_stream(POOLS, 500)
    assert eventually(lambda: watching.kopf.watchers() == 1, "the dead one is not counted", timeout_seconds=60)


def test_a_dead_watcher_is_replaced_by_watching_anew(server: ScriptedServer, watching: Watching) -> None:
    """F14: within seconds and without a restart of the process."""
    assert not watching.kopf.restart_if_a_watcher_died(0)
    server.error_in_stream(POOLS, 500)
    eventually(lambda: watching.kopf.restart_if_a_watcher_died(0), "the death is noticed", timeout_seconds=60)
    server.put(POOLS, "second", spec={}, silent=True)
    eventually(lambda: "second" in watching.names(), "it watches again", timeout_seconds=30)
    eventually(lambda: watching.kopf.watchers() == 2, "both watchers live")


def _is_known(watching: Watching, name: str) -> bool:
    return name in watching.names()


def test_what_answers_each_watch_with_410_is_read_by_lists(server: ScriptedServer, watching: Watching) -> None:
    """F14: it ends every watcher at once, and kopf takes it for no expiry; watching anew lists, and goes on after."""
    server.answer = lambda asked: web.Response(status=410) if asked.query.get("watch") == "true" else None
    server.cut()
    for name in ("second", "third"):
        eventually(lambda: watching.kopf.watchers() == 0, "nobody watches", timeout_seconds=60)
        server.put(POOLS, name, spec={}, silent=True)
        eventually(lambda: watching.kopf.restart_if_a_watcher_died(0), "the death is noticed", timeout_seconds=60)
        eventually(partial(_is_known, watching, name), "it was listed", timeout_seconds=60)
    server.heal()
    eventually(lambda: watching.kopf.restart_if_a_watcher_died(0), "nobody watches", timeout_seconds=60)
    assert eventually(lambda: watching.kopf.watchers() == 2 and server.watches(POOLS), "all watch", timeout_seconds=60)


def _ends_at_once(asked: web.Request) -> web.Response | None:
    return web.Response(text="") if asked.query.get("watch") == "true" else None


def _expires_at_once(asked: web.Request) -> web.Response | None:
    gone = '{"type": "ERROR", "object": {"code": 410, "reason": "Expired"}}\n'
    return web.Response(text=gone) if asked.query.get("watch") == "true" else None


@pytest.mark.parametrize("ending", [_ends_at_once, _expires_at_once])
def test_watches_that_end_as_they_begin_are_no_storm(
    server: ScriptedServer, watching: Watching, ending: Callable[[web.Request], web.Response | None]
) -> None:
    """As behind a proxy that does not stream: kopf alone asks thousands of times a second, or 30 times where told 410.

    With pauses of 1, 2 and 4 s, of which the first may be left out as the watch before lasted, and jitter.
    """
    began, watches, all_before = time.monotonic(), server.count("GET", POOLS, watch="true"), len(server.requests)
    server.answer = ending
    server.cut()
    eventually(lambda: server.count("GET", POOLS, watch="true") >= watches + 3, "it watches", timeout_seconds=60)
    assert time.monotonic() - began > 0.8 + 1.6
    assert len(server.requests) - all_before <= 2 * 2 * 4, "of two kinds a list and a watch each time"
    assert watching.kopf.watchers() == 2
    server.heal()
    server.put(POOLS, "second", spec={}, silent=True)
    eventually(lambda: "second" in watching.names(), "the watch lasts", timeout_seconds=60)


def test_a_kind_whose_definition_is_deleted_is_told_once_and_watched_again_once_it_is_back(
    server: ScriptedServer, watching: Watching, caplog: pytest.LogCaptureFixture
) -> None:
    """F22: kopf alone fails as a whole, with two tracebacks, and again each time that it is started anew."""
    before = server.count("GET", POOLS, watch="true")
    server.answer = lambda asked: web.Response(status=404, text="404 page not found") if POOLS == asked.path else None
    server.cut(POOLS)
    eventually(lambda: server.count("GET", POOLS, watch="true") >= before + 4, "it looks again", timeout_seconds=60)
    assert watching.kopf.watchers() == 2
    assert ["weft.control.watches.absent_kinds"] == [
        each.name for each in caplog.records if each.levelno >= logging.WARNING
    ]
    server.heal()
    server.put(POOLS, "second", spec={}, silent=True)
    eventually(lambda: "second" in watching.names(), "it watches again", timeout_seconds=60)
    assert watching.kopf.watchers() == 2


def test_where_a_watch_was_refused_is_no_news(
    server: ScriptedServer, watching: Watching, caplog: pytest.LogCaptureFixture
) -> None:
    """Holds the private modules of kopf's errors in place, of which tracebacks are left out."""
    server.fail(410)
    eventually(lambda: watching.kopf.watchers() == 0, "nobody watches", timeout_seconds=60)
    failures = [each for each in caplog.records if each.exc_info is not None]
    assert failures
    assert all(map(WithoutOldNews().filter, failures))
    assert [None] * len(failures) == [each.exc_info for each in failures]


def test_lists_that_break_off_are_no_storm(server: ScriptedServer, watching: Watching) -> None:
    def breaks_off(asked: web.Request) -> web.Response | None:
        if asked.query.get("watch") == "true":
            return _expires_at_once(asked)
        broken = web.Response(text='{"items": [', headers={"Content-Length": "1000"})
        broken.force_close()
        return broken

    began, lists = time.monotonic(), server.count("GET", POOLS)
    server.answer = breaks_off
    server.cut()
    eventually(lambda: server.count("GET", POOLS) >= lists + 5, "it lists", timeout_seconds=60)
    assert time.monotonic() - began > 3 * RELIST_PAUSE_SECONDS
    assert watching.kopf.watchers() == 2


def test_credentials_that_are_refused_are_not_tried_without_end(server: ScriptedServer, watching: Watching) -> None:
    """A watcher ends, and watching anew tries again."""
    server.fail(401, "Unauthorized")
    eventually(lambda: watching.kopf.watchers() < 2, "a watcher ended", timeout_seconds=60)
    watches = server.count("GET", POOLS, watch="true") + server.count("GET", SPLITS, watch="true")
    assert watches <= 2 + 2, "each once, and once again where the other had logged in anew"
    server.heal()
    server.put(POOLS, "second", spec={}, silent=True)
    assert watching.kopf.restart_if_a_watcher_died(0)
    eventually(lambda: "second" in watching.names(), "it watches again", timeout_seconds=30)


def test_a_start_during_an_outage_comes_through(server: ScriptedServer) -> None:
    server.fail(404)
    started = Watching(server)
    started.kopf.start()
    eventually(lambda: len(server.requests) >= 2, "it tried")
    server.heal()
    server.put(POOLS, "chat", spec={})
    assert eventually(lambda: started.names() == ["chat"], "it watches", timeout_seconds=60)
    started.kopf.stop(10)


def test_an_expired_watch_lists_again(server: ScriptedServer, watching: Watching) -> None:
    server.expire()
    server.put(POOLS, "after-the-gap", spec={}, silent=True)
    assert eventually(lambda: "after-the-gap" in watching.names(), "it listed again", timeout_seconds=60)


def test_what_was_deleted_in_a_gap_goes_with_the_next_list(server: ScriptedServer, watching: Watching) -> None:
    """Fact 2: kopf keeps phantoms; our own list removes them."""
    server.remove(POOLS, "chat", silent=True)
    server.expire()
    server.put(POOLS, "second", spec={}, silent=True)
    eventually(lambda: "second" in watching.names(), "it listed again", timeout_seconds=60)
    assert "chat" in watching.names()
    watching.cache.replace(list_resources(Reader(watching.client), "InferencePool", None))
    assert watching.names() == ["second"]


def test_a_kopf_that_fails_as_a_whole_kills_nobody(
    server: ScriptedServer, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last resort would be SIGKILL for its own thread, which ends the process with all its threads (ADR 0070)."""
    planned: list[object] = []
    plan = asyncio.BaseEventLoop.call_later

    def call_later(self: asyncio.BaseEventLoop, delay: float, callback: Any, *more: Any, **named: Any) -> Any:  # noqa: ANN401
        planned.append(callback)
        return plan(self, delay, callback, *more, **named)

    monkeypatch.setattr(asyncio.BaseEventLoop, "call_later", call_later)
    failed = watching.kopf._round

    def watches_anew() -> bool:
        """As the operator asks: its other watch may log in anew just then, and never end."""
        watching.kopf.restart_if_a_watcher_died()
        return watching.kopf._round is not failed

    server.fail(410)
    eventually(watches_anew, "it failed as a whole", timeout_seconds=60)
    assert planned
    assert signal.pthread_kill not in planned


def test_a_kopf_that_does_not_end_is_left_alone(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told to end while it logs in anew it may wait for ever, and nobody would watch until the process is restarted."""
    monkeypatch.setattr("weft.control.watches.watching.ENDING_SECONDS", 0.2)
    watches, rounds, released = Round.run, [], threading.Event()

    def run(self: Round) -> None:
        rounds.append(self)
        if len(rounds) == 1:
            released.wait()
        else:
            watches(self)

    monkeypatch.setattr(Round, "run", run)
    server.put(POOLS, "chat", spec={})
    started = Watching(server)
    started.kopf.start()
    eventually(lambda: started.kopf.restart_if_a_watcher_died(0), "nobody watches")
    eventually(lambda: started.names() == ["chat"], "another one watches", timeout_seconds=30)
    started.kopf.stop(10)
    released.set()


def test_it_stops_within_seconds(server: ScriptedServer, watching: Watching) -> None:
    watching.kopf.stop(8)
    assert not any(thread.name == "weft-kopf" and thread.is_alive() for thread in threading.enumerate())
