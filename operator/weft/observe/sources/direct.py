"""Metrics scraped from the engines: our own ready pods, with a short ring of samples in memory.

An engine that is slow and then gives no answer is silent. However many are, a round takes little longer than a single
timeout: engines that were silent last time are asked at the same time, at most `SILENT_AT_ONCE` in a round, longest
waiting first; the others are asked in parallel lanes, each of which ends at a slow engine. Whatever is left comes first
in the next round.

Whoever serves an engine's page decides how much work it is. A large one is read in a thread, and after one that took
long its engine rests: however odd its pages are, it gets a twentieth of a processor, and everybody else is asked.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import defaultdict, deque
from itertools import repeat
from typing import TYPE_CHECKING

import aiohttp

from weft.observe.samples.history import History
from weft.observe.sources.exposition import MOST_SAMPLES, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from weft.observe.samples.arithmetic import Sample
    from weft.observe.samples.history import SeriesKey
    from weft.observe.samples.scrape_target import Target

WINDOW_SECONDS = 60.0
SCRAPE_TIMEOUT_SECONDS = 3.0
LONG_WAIT_SECONDS = SCRAPE_TIMEOUT_SECONDS / 2
SILENT_AT_ONCE = LANES = 256
# Memory that any answer may take without waiting its turn: one that stalls does not keep others from being read.
USUAL_ANSWER_BYTES = 256 * 1024
READ_AT_ONCE = 32  # longer answers that are in memory at the same time
LARGEST_ANSWER_BYTES = 4 * 1024 * 1024
LONG_READING_SECONDS = 0.1  # of a processor; a usual page takes a few milliseconds the first time, then less than one
REST_PER_READING = 20.0

log = logging.getLogger(__name__)

Page = tuple[tuple["SeriesKey", ...], tuple["Sample", ...]]  # what it shows, and when and what that was
Ring = deque[tuple[float, Page]]
_Place = tuple[str, str]  # a pod's UID and address: a pod that moved is asked at once


class DirectSource:
    """A `MetricsSource` that needs only the pod network. One per process: the ring is its memory."""

    def __init__(self, window_seconds: float = WINDOW_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with an empty memory, so that the first rates come with the second collection."""
        self._window_seconds = window_seconds
        self._clock = clock
        self._rings: dict[str, Ring] = {}
        self._asked: dict[_Place, float] = {}  # when each was asked last
        self._silent: set[_Place] = set()  # those that were slow then and gave no answer
        self._rests: dict[_Place, float] = {}  # until when those are not asked whose page took long to read
        self._in_turns = False
        self._reading = asyncio.Semaphore(READ_AT_ONCE)
        self._session: aiohttp.ClientSession | None = None

    async def collect(self, targets: Iterable[Target]) -> dict[str, History]:
        """Scrape the targets once and return the windows of all that ever answered, by pod UID."""
        wanted = [target for target in targets if target.scraped]
        self._rings = {target.uid: self._rings.get(target.uid, deque()) for target in wanted}
        began = self._clock()
        self._rests = {place: until for place, until in self._rests.items() if began < until}
        wanted = [target for target in wanted if _place(target) not in self._rests]
        self._asked = {place: self._asked.get(place, -math.inf) for place in map(_place, wanted)}
        self._silent &= self._asked.keys()
        await self._ask(sorted(wanted, key=lambda target: self._asked[_place(target)]))
        self._tell_of_turns(sum(asked < began for asked in self._asked.values()))
        return await asyncio.to_thread(self.windows)

    def windows(self) -> dict[str, History]:
        """The remembered samples, by pod UID."""
        now, rings = self._clock(), self._rings.items()
        return {uid: History(now, series_of([page for _, page in ring])) for uid, ring in rings if ring}

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def remember(self, uid: str, values: dict[SeriesKey, float]) -> None:
        """Add one scrape to a pod's ring and drop what left the window."""
        ring = self._rings.setdefault(uid, deque())
        now = self._clock()
        keys = tuple(values)
        if ring and ring[-1][1][0] == keys:
            keys = ring[-1][1][0]  # one object for all pages that show the same: a large one has thousands
        ring.append((now, (keys, tuple(zip(repeat(now), values.values(), strict=False)))))
        while ring[0][0] < now - self._window_seconds or _shows_too_much(ring):
            ring.popleft()

    async def _ask(self, wanted: Iterable[Target]) -> None:
        """Scrape the targets in one round, in this order."""
        every = list(wanted)
        silent = [target for target in every if _place(target) in self._silent][:SILENT_AT_ONCE]
        others = iter([target for target in every if _place(target) not in self._silent])
        lanes = (self._ask_one_by_one(others) for _ in range(LANES))
        await asyncio.gather(*lanes, *(self._scrape(target) for target in silent))

    async def _ask_one_by_one(self, targets: Iterator[Target]) -> None:
        """Scrape until none is left, or one is slow: a second one would make the round longer."""
        for target in targets:
            if await self._scrape(target) > LONG_WAIT_SECONDS:
                return

    async def _scrape(self, target: Target) -> float:
        """Ask one engine and remember what it shows; returns the seconds that it let us wait."""
        place = _place(target)
        self._asked[place] = self._clock()
        text = await self._fetch(target.url)
        waited = self._clock() - self._asked[place]
        is_silent = text is None and waited > LONG_WAIT_SECONDS
        (self._silent.add if is_silent else self._silent.discard)(place)
        if text and (values := await self._values(target, text)):
            self.remember(target.uid, values)
        return waited

    async def _values(self, target: Target, text: str) -> dict[SeriesKey, float]:
        """The samples of an answer. A usual one is read here: for most of them a thread costs more than it saves."""
        if len(text) <= USUAL_ANSWER_BYTES:
            values, seconds = _timed(text, target.names)
        else:
            values, seconds = await asyncio.to_thread(_timed, text, target.names)
        if seconds > LONG_READING_SECONDS:
            self._rests[_place(target)] = self._clock() + REST_PER_READING * seconds
        return values

    async def _fetch(self, url: str) -> str | None:
        """The answer; None if the pod does not answer, is slow, refuses, redirects or sends too much."""
        try:
            async with self._open().get(url, allow_redirects=False) as answer:
                if answer.status != 200:  # noqa: PLR2004 - HTTP OK
                    return None
                content = await _read(answer.content, USUAL_ANSWER_BYTES)
                if not answer.content.at_eof():
                    async with self._reading:
                        content += await _read(answer.content, LARGEST_ANSWER_BYTES + 1 - len(content))
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None
        return None if len(content) > LARGEST_ANSWER_BYTES else content.decode("utf-8", errors="replace")

    def _tell_of_turns(self, left: int) -> None:
        """Log when engines start, or stop, to be asked in some rounds only."""
        if (left > 0) != self._in_turns:
            log.warning(
                "%d engines and fronts let scrapes wait for %.0f s; %d were left for the next round: %s",
                len(self._silent),
                SCRAPE_TIMEOUT_SECONDS,
                left,
                "they are asked in turns" if left else "all of them are asked in every round again",
            )
        self._in_turns = left > 0

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=SCRAPE_TIMEOUT_SECONDS)
            # Waits count as the engine's, so none may be for a free connection. No connection is kept:
            # a process may have few open files, and uvicorn, which serves engines, hangs up after 5 s anyway.
            everybody = aiohttp.TCPConnector(limit=0, force_close=True)
            self._session = aiohttp.ClientSession(connector=everybody, timeout=timeout, trust_env=False)
        return self._session


def _timed(text: str, names: tuple[str, ...]) -> tuple[dict[SeriesKey, float], float]:
    """The samples of a page, and the seconds of a processor that reading it took."""
    began = time.thread_time()
    return parse(text, names), time.thread_time() - began


def _shows_too_much(ring: Ring) -> bool:
    """Whether labels that change with each scrape would take the memory of many large pages."""
    pages = [keys for _, (keys, _) in ring]
    return len(pages) > 1 and pages[-1] is not pages[-2] and len(set["SeriesKey"]().union(*pages)) > MOST_SAMPLES


def _place(target: Target) -> _Place:
    return target.uid, target.url


async def _read(content: aiohttp.StreamReader, most: int) -> bytes:
    """The rest of an answer, up to `most` bytes."""
    chunks, left = list[bytes](), most
    while left > 0 and (chunk := await content.read(left)):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def series_of(pages: Sequence[Page]) -> dict[SeriesKey, tuple[Sample, ...]]:
    """Pages in order of time, as a line of samples per series; most show the same series as the last one."""
    first = pages[0][0] if pages else ()
    if all(keys == first for keys, _ in pages):
        return dict(zip(first, zip(*(samples for _, samples in pages), strict=True), strict=True))
    lines: dict[SeriesKey, list[Sample]] = defaultdict(list)
    for keys, samples in pages:
        for key, sample in zip(keys, samples, strict=True):
            lines[key].append(sample)
    return {key: tuple(samples) for key, samples in lines.items()}
