"""Requests to a real engine over HTTP, streamed, with the times of their first and last tokens."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

from aiohttp import ClientSession, ClientTimeout, TCPConnector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_ANSWER_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Served:
    """The name that an engine knows its model by, how many of its tokens are no marks, and headers of a request."""

    name: str
    tokens: int
    headers: Mapping[str, str] = field(default_factory=dict)


TINY = Served("tiny", 256)


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of one clock: when it was sent, and when its first and its last token came; tokens of its answer."""

    sent: float
    first: float
    last: float
    tokens: int

    @property
    def ttft(self) -> float:
        """Seconds until the first token."""
        return self.first - self.sent

    @property
    def tpot(self) -> float:
        """Mean seconds between tokens."""
        return (self.last - self.first) / (self.tokens - 1)


def closed_loop(url: str, lengths: Iterator[tuple[int, int]], users: int, model: Served = TINY) -> list[Timed]:
    """Users who each send the next request when the last one is answered, without their first ones."""

    async def user(session: ClientSession) -> list[Timed]:
        return [await _asked(session, model, *length) for length in lengths][1:]

    async def everybody() -> list[Timed]:
        async with _session(url) as session:
            found = await asyncio.gather(*(user(session) for _ in range(users)))
        return [each for several in found for each in several]

    return asyncio.run(everybody())


def open_loop(
    url: str, lengths: Iterator[tuple[int, int]], arrivals: Sequence[float], model: Served = TINY
) -> list[Timed]:
    """Requests sent at these seconds, whatever becomes of those before, in their order."""

    async def one(session: ClientSession, at: float, length: tuple[int, int]) -> Timed:
        await asyncio.sleep(max(0.0, at - perf_counter()))
        return await _asked(session, model, *length)

    async def everybody() -> list[Timed]:
        async with _session(url) as session:
            begin, pairs = perf_counter(), zip(arrivals, lengths, strict=True)
            return await asyncio.gather(*(one(session, begin + at, length) for at, length in pairs))

    return asyncio.run(everybody())


def _session(url: str) -> ClientSession:
    return ClientSession(url, timeout=ClientTimeout(total=_ANSWER_SECONDS), connector=TCPConnector(limit=0))


async def _asked(session: ClientSession, model: Served, input_tokens: int, output_tokens: int) -> Timed:
    """One request with a prompt that nobody else has; raises `ValueError` where tokens are missing."""
    prompt = [random.randrange(model.tokens) for _ in range(input_tokens)]
    body = {
        "model": model.name,
        "prompt": prompt,
        "max_tokens": output_tokens,
        "ignore_eos": True,
        "temperature": 0.0,
        "stream": True,
    }
    sent, first, last, chunks = perf_counter(), 0.0, 0.0, 0
    async with session.post("/v1/completions", json=body, headers=model.headers) as answer:
        answer.raise_for_status()
        async for line in answer.content:
            if line.startswith(b"data: {"):
                last = perf_counter()
                first, chunks = first or last, chunks + 1
    if not 1 < chunks <= output_tokens:
        raise ValueError(f"{chunks} parts of an answer of {output_tokens} tokens")
    return Timed(sent, first, last, output_tokens)
