"""The decode batch: every sequence gets one token in each step, so its state is a few sums and a heap of the ends."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from weft.twin.engine.request import RequestStage

if TYPE_CHECKING:
    from weft.twin.engine.request import SimulatedRequest


class DecodeBatch:
    """`size` decoding sequences, whose `context` tokens in all the next step reads; `steps` counts the engine's steps.

    A sequence needs one more block once in as many steps as a block has tokens: `_growing` counts the sequences that
    do, by the number of the step within a block. `ends` is a heap of the steps that end sequences; it may still hold
    sequences that left early.
    """

    __slots__ = ("_block_tokens", "_growing", "context", "ends", "size", "steps")

    def __init__(self, block_tokens: int) -> None:
        """Start with no sequence."""
        self.steps = self.size = self.context = 0
        self._block_tokens = block_tokens
        self._growing = [0] * block_tokens
        self.ends: list[tuple[int, int, SimulatedRequest]] = []

    def join(self, request: SimulatedRequest) -> None:
        """Add a sequence, which gets its first token of the batch with the next step."""
        context = request.input_tokens + request.made
        request.stage, request.joined = RequestStage.Decoding, self.steps
        request.grows_at = (self.steps + 1 - context) % self._block_tokens
        self._growing[request.grows_at] += 1
        self.size += 1
        self.context += context
        heappush(self.ends, (self.steps + request.output_tokens - request.made, request.turn, request))

    def leave(self, request: SimulatedRequest) -> None:
        """Remove a sequence that ended, was cancelled or is preempted, and store its generated and computed tokens."""
        request.made += self.steps - request.joined
        request.computed = request.input_tokens + request.made - 1
        self._growing[request.grows_at] -= 1
        self.size -= 1
        self.context -= request.computed + 1

    def ended(self) -> list[SimulatedRequest]:
        """Pop the sequences that got their last token in the last step, in the order in which they were let in."""
        found, ends = [], self.ends
        while ends and ends[0][0] <= self.steps:
            _, turn, request = heappop(ends)
            if request.turn == turn and request.stage is RequestStage.Decoding:
                found.append(request)
        return found

    def steps_to_an_end(self) -> int:
        """Count the steps until the next sequence ends; the batch must not be empty."""
        ends = self.ends
        while ends[0][2].turn != ends[0][1] or ends[0][2].stage is not RequestStage.Decoding:
            heappop(ends)
        return ends[0][0] - self.steps

    def needs(self, request: SimulatedRequest) -> bool:
        """Whether a sequence needs one more block for the next step."""
        return request.grows_at == self.steps % self._block_tokens

    @property
    def next_growth(self) -> int:
        """Blocks that the next step needs in all."""
        return self._growing[self.steps % self._block_tokens]

    def growth(self, steps: int, after: int = 0) -> int:
        """Count the blocks needed by `steps` steps, beginning `after` steps after the next one."""
        size = self._block_tokens
        whole, rest = divmod(steps, size)
        begin = (self.steps + after) % size
        end, growing = begin + rest, self._growing
        part = sum(growing[begin:end]) if end <= size else sum(growing[begin:]) + sum(growing[: end - size])
        return whole * self.size + part

    def affordable(self, steps: int, blocks: int) -> int:
        """Count how many of the `steps` steps after the next one fit into `blocks` blocks of KV memory."""
        if not self.size or (steps // self._block_tokens + 1) * self.size <= blocks:
            return steps
        done = min(steps, blocks // self.size * self._block_tokens)
        blocks -= self.growth(done, 1)
        while done < steps and (needed := self.growth(1, 1 + done)) <= blocks:
            blocks -= needed
            done += 1
        return done
