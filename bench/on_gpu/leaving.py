"""How an engine leaves that is told to end while it answers."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

from aiohttp import ClientError, ClientSession, ClientTimeout

if TYPE_CHECKING:
    from bench.on_gpu.serving import Engine
    from bench.truth_bench.asking import Served

STREAMS, TOKENS = 16, 512
_AFTER_SECONDS, _ANSWER_SECONDS = 1.0, 60.0


def left(engine: Engine, model: Served) -> dict[str, Any]:
    """Streams that a SIGTERM met, tokens of each that came, and seconds from the signal until the process was gone."""
    begun = time.monotonic()
    engine.end_after(_AFTER_SECONDS)
    tokens = asyncio.run(_streamed(engine.url, model))
    seconds = round(engine.ended() - begun - _AFTER_SECONDS, 2)
    whole = sum(each == TOKENS for each in tokens)
    return {"streams": STREAMS, "whole": whole, "tokens": tokens, "seconds": seconds}


async def _streamed(url: str, model: Served) -> list[int]:
    async with ClientSession(url, timeout=ClientTimeout(total=_ANSWER_SECONDS)) as session:
        return await asyncio.gather(*(_tokens(session, model, each) for each in range(STREAMS)))


async def _tokens(session: ClientSession, model: Served, number: int) -> int:
    """Of one answer, as the engine counts them after the last one; 0 where the count never came."""
    body = {
        "model": model.name,
        "prompt": [number + 3] * 64,
        "max_tokens": TOKENS,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    counted = 0
    try:
        async with session.post("/v1/completions", json=body) as answer:
            async for line in answer.content:
                if line.startswith(b"data: {"):
                    usage = json.loads(line[len(b"data: ") :]).get("usage")
                    counted = usage["completion_tokens"] if usage else counted
    except ClientError:
        return 0
    return int(counted)
