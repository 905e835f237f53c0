"""Metrics straight from the engines: scrapes of our own ready pods, kept as a short ring of samples in memory."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from typing import TYPE_CHECKING

import aiohttp

from weft.observe.exposition import parse
from weft.observe.history import History

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from weft.observe.arithmetic import Sample
    from weft.observe.history import SeriesKey, Target

WINDOW_SECONDS = 60.0
SCRAPE_TIMEOUT_SECONDS = 3.0
SCRAPES_AT_ONCE = 32
LARGEST_ANSWER_BYTES = 4 * 1024 * 1024

Ring = deque[tuple[float, dict["SeriesKey", float]]]


class DirectSource:
    """A `MetricsSource` that needs nothing but the pod network. One per process: the ring is its memory."""

    def __init__(self, window_seconds: float = WINDOW_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is remembered yet, so the first rates come with the second collection."""
        self._window_seconds = window_seconds
        self._clock = clock
        self._rings: dict[str, Ring] = {}
        self._session: aiohttp.ClientSession | None = None

    async def collect(self, targets: Iterable[Target]) -> dict[str, History]:
        """Scrape every target once and give the windows of all that ever answered, by pod UID."""
        wanted = [target for target in targets if target.scraped]
        self._rings = {target.uid: self._rings.get(target.uid, deque()) for target in wanted}
        slots = asyncio.Semaphore(SCRAPES_AT_ONCE)
        await asyncio.gather(*(self._scrape(target, slots) for target in wanted))
        return await asyncio.to_thread(self.windows)

    def windows(self) -> dict[str, History]:
        """What is remembered, by pod UID."""
        now = self._clock()
        return {uid: History(now, series_of(ring)) for uid, ring in self._rings.items() if ring}

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def remember(self, uid: str, values: dict[SeriesKey, float]) -> None:
        """Add one scrape to a pod's ring and let go of what left the window."""
        ring = self._rings.setdefault(uid, deque())
        now = self._clock()
        ring.append((now, values))
        while ring[0][0] < now - self._window_seconds:
            ring.popleft()

    async def _scrape(self, target: Target, slots: asyncio.Semaphore) -> None:
        async with slots:
            text = await self._fetch(target.url)
        values = parse(text, target.names) if text else {}
        if values:
            self.remember(target.uid, values)

    async def _fetch(self, url: str) -> str | None:
        """The answer, or None when the pod is away, slow, refuses, redirects or sends too much."""
        try:
            async with self._open().get(url, allow_redirects=False) as answer:
                if answer.status != 200:  # noqa: PLR2004 - HTTP OK
                    return None
                content = await answer.content.read(LARGEST_ANSWER_BYTES + 1)
                while chunk := await answer.content.read(LARGEST_ANSWER_BYTES + 1 - len(content)):
                    content += chunk
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None
        return None if len(content) > LARGEST_ANSWER_BYTES else content.decode("utf-8", errors="replace")

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=SCRAPE_TIMEOUT_SECONDS)
            self._session = aiohttp.ClientSession(timeout=timeout, trust_env=False)
        return self._session


def series_of(ring: Iterable[tuple[float, dict[SeriesKey, float]]]) -> dict[SeriesKey, tuple[Sample, ...]]:
    """Scrapes turned into one line of samples per series."""
    lines: dict[SeriesKey, list[Sample]] = defaultdict(list)
    for at, values in ring:
        for key, value in values.items():
            lines[key].append((at, value))
    return {key: tuple(samples) for key, samples in lines.items()}
