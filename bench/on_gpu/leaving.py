"""How an engine leaves that is told to end while it answers."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from aiohttp import ClientError, ClientSession, ClientTimeout

if TYPE_CHECKING:
    from bench.truth_bench.asking import Served

STREAMS, TOKENS = 16, 512
_ANSWER_SECONDS = 60.0


class Ending(Protocol):
    """An engine that can be told to end."""

    url: str

    def end(self) -> None:
        """Tell it."""

    def ended(self) -> float:
        """Seconds of the monotonic clock when it was gone."""


def left(engine: Ending, model: Served) -> dict[str, Any]:
    """Streams that a SIGTERM met, tokens of each that came, and seconds from the signal until the process was gone."""
    streams = _Streams(engine)
    tokens = asyncio.run(streams.all_of(model))
    seconds = round(engine.ended() - streams.told_at, 2)
    whole = sum(each == TOKENS for each in tokens)
    return {"streams": STREAMS, "whole": whole, "tokens": tokens, "seconds": seconds}


@dataclass(slots=True)
class _Streams:
    """The engine is told once every stream has begun: those that it has not heard of it may refuse."""

    engine: Ending
    told_at: float = 0.0
    begun: set[int] = field(default_factory=set)

    async def all_of(self, model: Served) -> list[int]:
        async with ClientSession(self.engine.url, timeout=ClientTimeout(total=_ANSWER_SECONDS)) as session:
            return await asyncio.gather(*(self._tokens(session, model, each) for each in range(STREAMS)))

    async def _tokens(self, session: ClientSession, model: Served, number: int) -> int:
        """Of one answer, as the engine counts them after the last one; 0 where the count never came."""
        counted, body = 0, _asked(model, number)
        try:
            async with session.post("/v1/completions", json=body) as answer:
                async for line in answer.content:
                    if line.startswith(b"data: {"):
                        self._began(number)
                        usage = json.loads(line[len(b"data: ") :]).get("usage")
                        counted = usage["completion_tokens"] if usage else counted
        except ClientError:
            return 0
        return int(counted)

    def _began(self, number: int) -> None:
        self.begun.add(number)
        if len(self.begun) == STREAMS and not self.told_at:
            self.told_at = time.monotonic()
            self.engine.end()


def _asked(model: Served, number: int) -> dict[str, Any]:
    return {
        "model": model.name,
        "prompt": [number + 3] * 64,
        "max_tokens": TOKENS,
        "ignore_eos": True,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
