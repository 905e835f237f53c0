"""Engines that let a connection through and never answer hold up nobody: they are asked in turns."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from weft.observe.samples.scrape_target import Target
from weft.observe.sources import direct
from weft.observe.sources.direct import DirectSource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

AT_ONCE = 4
PATIENCE_SECONDS = 50.0  # a busy machine stalls for seconds


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round as of hundreds of engines, with a few of them and within a second."""
    monkeypatch.setattr(direct, "SCRAPE_TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(direct, "LONG_WAIT_SECONDS", 0.9)
    monkeypatch.setattr(direct, "SILENT_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(direct, "LANES", AT_ONCE)


class Engines:
    """Engines behind one port, of whom some do not answer, and how often each was asked."""

    def __init__(self, answering: int, silent: int) -> None:
        self.answering = {f"a{number}" for number in range(answering)}
        self.silent = {f"s{number}" for number in range(silent)}
        self.asked: Counter[str] = Counter()
        self.port = 0
        self.begin = False  # whether those who are silent begin an answer before
        self._over = asyncio.Event()
        self._server: web.Server | None = None

    @property
    def targets(self) -> list[Target]:
        every = sorted(self.answering | self.silent, key=lambda uid: (uid[1:], uid))
        return [Target(uid, "team", uid, "127.0.0.1", self.port, f"/{uid}", ("x",)) for uid in every]

    @asynccontextmanager
    async def served(self) -> AsyncIterator[DirectSource]:
        application = web.Application()
        application.router.add_get("/{uid}", self._answer)
        runner = web.AppRunner(application, shutdown_timeout=0.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port, self._server = runner.addresses[0][1], runner.server
        source = DirectSource()
        yield source
        await source.close()
        self._over.set()
        await runner.cleanup()

    async def round(self, source: DirectSource) -> Counter[str]:
        """Who was asked in one."""
        self.asked.clear()
        await source.collect(self.targets)
        return Counter(self.asked)

    async def hung_up_on(self) -> None:
        """Until no connection is open."""
        assert self._server is not None
        while self._server.connections:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        uid = request.match_info["uid"]
        self.asked[uid] += 1
        answer = web.StreamResponse()
        if self.begin or uid in self.answering:
            await answer.prepare(request)
            await answer.write(b"x 1\n")
        if uid in self.silent:
            await self._over.wait()
        return answer


async def test_a_round_waits_for_a_few_whoever_is_silent() -> None:
    """Nobody was asked before: as many as there are lanes let us wait, and the others are left for the next round."""
    engines = Engines(answering=2, silent=20)
    async with engines.served() as source:
        for _ in range(2):
            asked = await engines.round(source)
            assert sum(asked[uid] for uid in engines.silent) <= 2 * AT_ONCE


async def test_everybody_is_found_and_those_who_answer_are_asked_in_every_round() -> None:
    """Eight silent ones take turns of four beside twelve who answer."""
    engines = Engines(answering=12, silent=8)
    async with engines.served() as source:
        for _ in range(3):
            await engines.round(source)
        turns = [await engines.round(source) for _ in range(2)]
        assert all({uid for uid in asked if uid in engines.answering} == engines.answering for asked in turns)
        assert [AT_ONCE] * 2 == [sum(asked[uid] for uid in engines.silent) for asked in turns]
        assert engines.silent == {uid for asked in turns for uid in asked if uid in engines.silent}
        assert engines.answering == source.windows().keys()


async def test_one_that_answers_again_is_asked_in_every_round_again() -> None:
    engines = Engines(answering=1, silent=6)
    async with engines.served() as source:
        for _ in range(3):
            await engines.round(source)
        engines.answering, engines.silent = engines.answering | engines.silent, set()
        for _ in range(2):
            await engines.round(source)
        assert engines.answering == (await engines.round(source)).keys()


async def test_one_that_refuses_is_not_waited_for() -> None:
    """A port that nobody listens on: all of them are asked in every round."""
    source = DirectSource()
    away = [Target(f"s{number}", "team", "x", "127.0.0.1", 1, "/", ("x",)) for number in range(5 * AT_ONCE)]
    async with asyncio.timeout(PATIENCE_SECONDS):
        for _ in range(2):
            assert {} == await source.collect(away)
    assert len(source._asked) == len(away)
    assert not source._silent
    await source.close()


async def test_turns_are_told_when_they_begin_and_when_they_end(caplog: pytest.LogCaptureFixture) -> None:
    engines = Engines(answering=1, silent=9)
    async with engines.served() as source:
        with caplog.at_level(logging.WARNING, logger="weft.observe.sources.direct"):
            for _ in range(3):
                await engines.round(source)
            begun = [record.getMessage() for record in caplog.records]
            engines.answering, engines.silent = engines.answering | engines.silent, set()
            for _ in range(3):
                await engines.round(source)
    assert len(begun) == 1
    assert "asked in turns" in begun[0]
    assert [True] == ["in every round again" in each.getMessage() for each in caplog.records[1:]]


async def test_answers_that_stop_in_the_middle_keep_nobody_else_from_being_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many as are read at once: headers come through and the rest is lost, as with too large packets."""
    monkeypatch.setattr(direct, "READ_AT_ONCE", AT_ONCE - 1)
    engines = Engines(answering=12, silent=AT_ONCE - 1)
    engines.begin = True
    async with engines.served() as source:
        for _ in range(3):
            asked = await engines.round(source)
            assert engines.answering <= asked.keys()
        assert engines.answering == source.windows().keys()


async def test_long_answers_are_read_whole_up_to_the_largest() -> None:
    usual, largest = direct.USUAL_ANSWER_BYTES, direct.LARGEST_ANSWER_BYTES
    for length, expected in ((usual, usual), (usual + 1, usual + 1), (largest, largest), (largest + 1, None)):
        assert expected == await _read_of(length)


async def _read_of(length: int) -> int | None:
    """Bytes that a source takes of an answer of so many."""
    application = web.Application()

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=b"x" * length)

    application.router.add_get("/", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    source = DirectSource()
    text = await source._fetch(f"http://127.0.0.1:{runner.addresses[0][1]}/")
    await source.close()
    await runner.cleanup()
    return None if text is None else len(text)


async def test_no_connection_outlives_its_scrape() -> None:
    """One that is kept for each engine would leave a process of 1,024 open files none for the API server."""
    engines = Engines(answering=3 * AT_ONCE, silent=0)
    async with engines.served() as source:
        assert engines.answering == (await engines.round(source)).keys()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await engines.hung_up_on()


async def test_one_that_moved_is_asked_at_once() -> None:
    """A pod that was silent and has another address takes no turn: nothing is known of whoever is there now."""
    engines = Engines(answering=0, silent=3 * AT_ONCE)
    async with engines.served() as source:
        for _ in range(4):
            await engines.round(source)
        last = (await engines.round(source)).keys()
        moved = [replace(target, path=f"{target.path}?moved") for target in engines.targets if target.uid in last]
        others = [target for target in engines.targets if target.uid not in last]
        engines.asked.clear()
        await source.collect([*others, *moved])
        assert last <= engines.asked.keys()
