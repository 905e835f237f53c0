"""Watches that end too soon are held back, each path for itself, and no other request is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import kopf
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.scripted_server import ScriptedServer
from weft.control.watches.absent_kinds import AbsentKinds
from weft.control.watches.endings import SessionClosedError
from weft.control.watches.watch_pacing import (
    LONGEST_PAUSE_SECONDS,
    STEADY_SECONDS,
    PacedSessions,
    WatchPacer,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

POOLS, SPLITS = "/apis/weft.dev/v1alpha1/inferencepools", "/apis/weft.dev/v1alpha1/pdsplits"


def pauses(lasting: Sequence[float], pacer: WatchPacer | None = None) -> list[float]:
    """Pauses before watches that last as long as told, each asked for as the one before ends."""
    pacer, now, found = pacer or WatchPacer(AbsentKinds()), 0.0, []
    for seconds in lasting:
        found.append(pacer.pause(POOLS, now))
        now += found[-1]
        pacer.watched(POOLS, now)
        now += seconds
    return found


def test_the_first_watch_of_each_path_begins_at_once() -> None:
    """A first start of many kinds and namespaces is not delayed, whatever the others do."""
    pacer = WatchPacer(AbsentKinds())
    assert pauses([0.0, 0.0], pacer)[1] > 0
    assert pacer.pause(SPLITS, 0.0) == 0


def test_a_watch_that_lasted_is_followed_at_once() -> None:
    assert pauses([300.0] * 5) == [0.0] * 5


def test_pauses_double_to_a_limit_and_start_anew_after_a_watch_that_lasted() -> None:
    found = pauses([0.0] * 8 + [STEADY_SECONDS, 0.0, 0.0])
    for pause, seconds in zip(found, [0, 1, 2, 4, 8, 10, 10, 10, 10, 0, 1], strict=True):
        assert 0.8 * seconds <= pause <= 1.2 * seconds


@given(st.lists(st.floats(0.0, 20.0), min_size=1, max_size=60))
def test_whatever_watches_last_they_are_few(lasting: list[float]) -> None:
    """At most two in five seconds, over any minute."""
    found = pauses(lasting)
    starts = [sum(found[: at + 1]) + sum(lasting[:at]) for at in range(len(found))]
    assert max(found) <= 1.2 * LONGEST_PAUSE_SECONDS
    for begin in starts:
        assert sum(begin <= other < begin + 60.0 for other in starts) <= 60 / STEADY_SECONDS * 2


def test_the_same_credentials_give_the_same_session_and_others_another() -> None:
    async def logged_in() -> None:
        sessions = PacedSessions(AbsentKinds())
        first = sessions.session(kopf.ConnectionInfo(server="http://127.0.0.1:1", token="one"))
        assert sessions.session(kopf.ConnectionInfo(server="http://127.0.0.1:1", token="one")) is first
        await sessions.close()
        assert first.aiohttp_session.closed
        second = sessions.session(kopf.ConnectionInfo(server="http://127.0.0.1:1", token="two"))
        assert second.aiohttp_session.headers["Authorization"] == "Bearer two"
        await sessions.close()

    asyncio.run(logged_in())


def test_a_session_that_is_closed_while_a_watch_is_held_back_ends_that_watch() -> None:
    """By aiohttp's own error kopf would log in anew, and an ending kopf wait for that for ever."""

    async def held_back(server: ScriptedServer) -> None:
        sessions = PacedSessions(AbsentKinds())
        session = sessions.session(kopf.ConnectionInfo(server=server.url)).aiohttp_session
        async with session.get(f"{server.url}{POOLS}?watch=true") as first:
            assert first.ok
        held = asyncio.create_task(session.get(f"{server.url}{POOLS}?watch=true"))
        await asyncio.wait([held], timeout=0.1)
        assert not held.done()
        await sessions.close()
        with pytest.raises(SessionClosedError):
            await held

    with ScriptedServer() as server:
        server.answer = lambda _: web.Response(text="")
        asyncio.run(held_back(server))
        assert server.count("GET", POOLS, watch="true") == 1
