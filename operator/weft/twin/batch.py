"""The sequences that decode: all get a token in each step, so what they are is a few sums and a heap of their ends."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from weft.twin.request import Stage

if TYPE_CHECKING:
    from weft.twin.request import Request


class Batch:
    """`size` sequences with so much `context` in all that the next step reads; `steps` are those of the engine so far.

    A sequence needs another block once in as many steps as a block has tokens: `_growing` counts those that do, by the
    number of the step within a block. `ends` is a heap of the step that ends a sequence, and of those that left early.
    """

    __slots__ = ("_block_tokens", "_growing", "context", "ends", "size", "steps")

    def __init__(self, block_tokens: int) -> None:
        """Empty."""
        self.steps = self.size = self.context = 0
        self._block_tokens = block_tokens
        self._growing = [0] * block_tokens
        self.ends: list[tuple[int, int, Request]] = []

    def join(self, request: Request) -> None:
        """The next step is the first that gives it a token of the batch."""
        context = request.input_tokens + request.made
        request.stage, request.joined = Stage.Decoding, self.steps
        request.grows_at = (self.steps + 1 - context) % self._block_tokens
        self._growing[request.grows_at] += 1
        self.size += 1
        self.context += context
        heappush(self.ends, (self.steps + request.output_tokens - request.made, request.turn, request))

    def leave(self, request: Request) -> None:
        """It ended, was cancelled or is preempted; what it has made, and computed, is written on it."""
        request.made += self.steps - request.joined
        request.computed = request.input_tokens + request.made - 1
        self._growing[request.grows_at] -= 1
        self.size -= 1
        self.context -= request.computed + 1

    def ended(self) -> list[Request]:
        """Those whose last token the last step has made, first come first."""
        found, ends = [], self.ends
        while ends and ends[0][0] <= self.steps:
            _, turn, request = heappop(ends)
            if request.turn == turn and request.stage is Stage.Decoding:
                found.append(request)
        return found

    def steps_to_an_end(self) -> int:
        """Steps until somebody ends."""
        ends = self.ends
        while ends[0][2].turn != ends[0][1] or ends[0][2].stage is not Stage.Decoding:
            heappop(ends)
        return ends[0][0] - self.steps

    def needs(self, request: Request) -> bool:
        """Whether it needs another block for the next step."""
        return request.grows_at == self.steps % self._block_tokens

    @property
    def next_growth(self) -> int:
        """Blocks that the next step needs."""
        return self._growing[self.steps % self._block_tokens]

    def growth(self, steps: int, after: int = 0) -> int:
        """Blocks that so many steps need, beginning with the next one or that many after it."""
        size = self._block_tokens
        whole, rest = divmod(steps, size)
        begin = (self.steps + after) % size
        end, growing = begin + rest, self._growing
        part = sum(growing[begin:end]) if end <= size else sum(growing[begin:]) + sum(growing[: end - size])
        return whole * self.size + part

    def affordable(self, steps: int, blocks: int) -> int:
        """How many of the `steps` after the next one so many blocks of KV memory are enough for."""
        if not self.size or (steps // self._block_tokens + 1) * self.size <= blocks:
            return steps
        done = min(steps, blocks // self.size * self._block_tokens)
        blocks -= self.growth(done, 1)
        while done < steps and (needed := self.growth(1, 1 + done)) <= blocks:
            blocks -= needed
            done += 1
        return done
