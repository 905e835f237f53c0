"""A pause before a watch that follows one which ended too soon, and before the next try of one that is not found.

kopf asks again at once after a watch that closes as it opens (behind a proxy that does not stream: thousands of times a
second), and after a tenth of a second where it sends 410 first. No setting of kopf changes the former. Where the kind
is not found, as its definition was deleted, kopf fails as a whole. A session of our own is the place that kopf
documents for rules about requests, and aiohttp's middleware the one that may hold them back.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
import kopf

from weft.control.watches.endings import SessionClosedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.control.watches.absent_kinds import AbsentKinds

NOT_FOUND = 404
STEADY_SECONDS = 5.0  # a watch that lasted this long was no failure: the next begins at once
LONGEST_PAUSE_SECONDS = 10.0  # news wait for as long; kopf's timeouts of a request include it


@dataclass(frozen=True, slots=True)
class EndlessBackoff:
    """1, 2, 4 ... `longest_seconds` with jitter, for ever, anew for each iteration."""

    longest_seconds: float

    def __iter__(self) -> Iterator[float]:
        """A fresh sequence of seconds."""
        seconds = 1.0
        while True:
            yield seconds * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load, hides nothing
            seconds = min(self.longest_seconds, seconds * 2)


class WatchPacer:
    """When the next watch of a path may begin. All times are seconds of one monotonic clock."""

    def __init__(self, absent: AbsentKinds) -> None:
        """No path was watched yet; `absent` is told of kinds that are not found."""
        self._absent = absent
        self._began: dict[str, float] = {}
        self._pauses: dict[str, Iterator[float]] = {}

    def pause(self, path: str, now: float) -> float:
        """Seconds to wait: none before the first watch and after one that lasted, else longer each time."""
        began = self._began.get(path)
        if began is None or now - began >= STEADY_SECONDS:
            self._pauses[path] = iter(EndlessBackoff(LONGEST_PAUSE_SECONDS))
            return 0.0
        return next(self._pauses[path])

    def watched(self, path: str, began: float) -> None:
        """A watch was accepted. It counts from when it was asked for: a proxy may answer only as it ends."""
        self._began[path] = began

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Middleware of a session: hold back watches, and nothing else. After other refusals kopf itself pauses.

        Raises `SessionClosedError`.
        """
        if request.url.query.get("watch") != "true":
            return await handler(request)
        path, tries = request.url.path, iter(EndlessBackoff(LONGEST_PAUSE_SECONDS))
        await _held_back(request, self.pause(path, time.monotonic()))
        while True:
            began = time.monotonic()
            response = await handler(request)
            if response.status != NOT_FOUND:
                break
            response.release()
            self._absent.note_absent(request.url.name)
            await _held_back(request, next(tries))
        if response.ok:
            self._absent.note_served(request.url.name)
            self.watched(path, began)
        return response


async def _held_back(request: aiohttp.ClientRequest, seconds: float) -> None:
    await asyncio.sleep(seconds)
    if request.session.closed:
        raise SessionClosedError


class PacedSessions:
    """Sessions for one run of kopf, as kopf makes them from a login, in which watches are paced."""

    def __init__(self, absent: AbsentKinds) -> None:
        """Nothing is open; `absent` is told of kinds that are not found."""
        self._pacer = WatchPacer(absent)
        self._last: tuple[kopf.ConnectionInfo, kopf.AiohttpSession] | None = None

    def session(self, login: kopf.ConnectionInfo) -> kopf.AiohttpSession:
        """A session with these credentials; call it in an event loop.

        The same credentials give the same session, though kopf has closed it: by that kopf knows that they were
        refused. A new one would be tried and refused again, without a pause and without end.
        """
        if self._last is None or self._last[0] != login:
            opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=login.as_ssl_context()),
                headers=login.as_http_headers(),
                middlewares=(self._pacer,),
            )
            self._last = login, kopf.AiohttpSession(server=login.server, aiohttp_session=opened)
        return self._last[1]

    async def close(self) -> None:
        """Close what kopf did not: it closes the sessions that it has used."""
        if self._last is not None:
            await self._last[1].aiohttp_session.close()
