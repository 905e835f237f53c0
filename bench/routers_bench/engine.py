"""A played engine: prompts are computed one at a time but for what its cache knows, answers grow side by side.

Seconds are those of the engine, of which each takes `pace` seconds of the machine: with a pace above 1 many engines
on one core are no longer what bounds a run.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Tokens = tuple[int, ...]

BLOCK_TOKENS = 16
PREFILL_SECONDS = 0.2 / 320  # a token
STEP_SECONDS = 0.02  # of one sequence alone, a token of its answer
BATCH_DOUBLES = 64  # so many sequences make a step take twice as long
_WAKES = 6  # in an answer, to look how many sequences there are


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds of engines; `pace` is how many of the machine each takes."""

    pace: float = 1.0

    def now(self) -> float:
        """Since whenever."""
        return time.monotonic() / self.pace

    async def sleep(self, seconds: float) -> None:
        """Until so many have passed; no time if they have already."""
        await asyncio.sleep(max(0.0, seconds) * self.pace)


class PrefixCache:
    """Whole blocks of prompts, each known by all tokens up to its end; what was used longest ago goes first."""

    def __init__(self, blocks: int) -> None:
        """With room for so many blocks."""
        self._room = blocks
        self._used: OrderedDict[int, None] = OrderedDict()

    def known(self, tokens: Tokens) -> int:
        """How many tokens at the start of a prompt need not be computed; the last one always has to be."""
        hit = 0
        for block in _blocks(tokens):
            if block not in self._used:
                break
            hit += BLOCK_TOKENS
        return min(hit, len(tokens) - 1)

    def keep(self, tokens: Tokens) -> None:
        """Know a prompt from now on; of the prompt itself the end is let go before the start."""
        for block in reversed(list(_blocks(tokens))):
            self._used[block] = None
            self._used.move_to_end(block)
        while len(self._used) > self._room:
            self._used.popitem(last=False)


def _blocks(tokens: Tokens) -> Iterator[int]:
    """A hash for each whole block, which stands for all tokens up to its end."""
    before = 0
    for start in range(0, len(tokens) - len(tokens) % BLOCK_TOKENS, BLOCK_TOKENS):
        before = hash((before, tokens[start : start + BLOCK_TOKENS]))
        yield before


@dataclass(frozen=True, slots=True)
class Answered:
    """A request that an engine got: when (of the clock), seconds to its first token, its tokens and those known."""

    at: float
    ttft: float
    tokens: int
    known: int


@dataclass(eq=False, slots=True)
class PlayedEngine:
    """One replica. `output_tokens` 0: it only prefills."""

    clock: Clock
    cache: PrefixCache
    output_tokens: int
    inside: int = 0
    answered: list[Answered] = field(default_factory=list)
    _decoding: int = 0
    _computing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def serve(self, tokens: Tokens) -> None:
        """Take as long as the request does, and remember it."""
        came = self.clock.now()
        self.inside += 1
        try:
            async with self._computing:
                known = self.cache.known(tokens)
                await self.clock.sleep(PREFILL_SECONDS * (len(tokens) - known))
                self.cache.keep(tokens)
            self.answered.append(Answered(came, self.clock.now() - came, len(tokens), known))
            await self._decode()
        finally:
            self.inside -= 1

    async def _decode(self) -> None:
        self._decoding += 1
        try:
            for _ in range(_WAKES if self.output_tokens else 0):
                step = STEP_SECONDS * (1 + self._decoding / BATCH_DOUBLES)
                await self.clock.sleep(step * self.output_tokens / _WAKES)
        finally:
            self._decoding -= 1
