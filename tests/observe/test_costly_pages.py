"""Pages that are much work to read, of a broken or malicious engine, take little time from everybody else."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web

from tests.listening import listening
from weft.observe.samples.scrape_target import Target
from weft.observe.sources import direct
from weft.observe.sources.direct import DirectSource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

COSTLY, USUAL = "costly", "usual"


@dataclass
class Engines:
    """Two engines behind one port, one of which serves so many lines; what they were asked, and the time."""

    lines: int
    port: int = 0
    asked: list[str] = field(default_factory=list)
    now: float = 0.0

    @property
    def targets(self) -> list[Target]:
        return [Target(uid, "team", uid, "127.0.0.1", self.port, f"/{uid}", ("x",)) for uid in (COSTLY, USUAL)]

    @asynccontextmanager
    async def served(self) -> AsyncIterator[DirectSource]:
        async with listening("/{uid}", self._answer) as url:
            self.port = int(url.rpartition(":")[2])
            source = DirectSource(clock=lambda: self.now)
            yield source
            await source.close()

    async def round(self, source: DirectSource) -> set[str]:
        """Who was asked in one."""
        self.asked.clear()
        await source.collect(self.targets)
        return {*self.asked}

    async def _answer(self, request: web.Request) -> web.Response:
        uid = request.match_info["uid"]
        self.asked.append(uid)
        shown = range(self.lines if uid == COSTLY else 1)
        return web.Response(text="".join(f'x{{of="{len(self.asked)}",series="{number}"}} 1\n' for number in shown))


async def test_an_engine_rests_after_a_page_that_took_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a twentieth of a processor at most, and its last page stays known meanwhile."""
    monkeypatch.setattr(direct, "LONG_READING_SECONDS", 0.01)
    engines = Engines(lines=5000)
    async with engines.served() as source:
        assert {COSTLY, USUAL} == await engines.round(source)
        assert {USUAL} == await engines.round(source)
        assert {COSTLY, USUAL} == source.windows().keys()
        engines.now += 1000.0
        assert {COSTLY, USUAL} == await engines.round(source)


async def test_reading_a_large_page_stops_nothing_else() -> None:
    """Probes, scrapes and wake-ups all need the event loop."""
    engines = Engines(lines=15_000)
    beats = list[float]()

    async def beat() -> None:
        loop = asyncio.get_running_loop()
        while True:
            beats.append(loop.time())
            await asyncio.sleep(0.01)

    async with engines.served() as source:
        text = "".join(f'x{{large="{number}"}} 1\n' for number in range(engines.lines))
        beating = asyncio.create_task(beat())
        before = len(beats)
        assert engines.lines == len(await source._values(engines.targets[0], text))
        assert before + 5 <= len(beats)
        beating.cancel()
