"""Dynamo's model of an engine: what passes take, and the rate one engine serves within its targets.

Source: ai-dynamo/dynamo, `components/src/dynamo/planner/core/perf_model/engine_query.py` (September 2026, compared with
083c4932). The project takes times of passes from a profile that it corrects by what engines report of each pass. Here
the profile is the performance model's table (`PoolView.speed`) and one factor corrects all passes of a pool. An
aggregated engine's mean pass has the whole prompts of the sequences that it begins, where the project spreads their
tokens over all passes: in the table a few prompt tokens cost a read of all weights, and that would count it in every
pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.twin.engine.speed import EngineSpeed

_MOST_CANDIDATES = 128
_LARGEST_HIT = 0.95


@dataclass(frozen=True, slots=True)
class Requests:
    """The mean request: prompt tokens, those of them that are computed, and answer tokens."""

    prompt: float
    computed: float
    answer: float

    @classmethod
    def of(cls, prompt: float, answer: float, hit: float) -> Requests:
        """With a fraction of the prompt in the cache, of which 0.95 is believed at most."""
        return cls(prompt, prompt * (1.0 - min(_LARGEST_HIT, max(0.0, hit))), answer)

    @property
    def context(self) -> float:
        """Tokens in the cache halfway through the answer."""
        return self.prompt + self.answer / 2.0


@dataclass(frozen=True, slots=True)
class Targets:
    """TTFT and ITL in seconds; infinite without a target."""

    ttft: float = math.inf
    itl: float = math.inf


@dataclass(frozen=True, slots=True)
class OfBatch:
    """Requests per second of one engine at one batch, with the times that belong to it."""

    rate: float
    ttft: float
    itl: float

    def within(self, targets: Targets) -> bool:
        return self.ttft <= targets.ttft and self.itl <= targets.itl


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """Times of an engine's passes in seconds, `factor` times those of the profile."""

    speed: EngineSpeed
    factor: float = 1.0

    def decode(self, sequences: float, kv_tokens: float) -> float:
        """A pass that makes a token of each sequence; 0 without any."""
        if sequences <= 0:
            return 0.0
        whole = max(1, math.ceil(sequences))
        return self.factor * self.speed.steps.batch(whole).at(kv_tokens / whole)

    def mixed(self, prompt_tokens: float, sequences: float, kv_tokens: float) -> float:
        """A pass with prompt tokens and sequences that decode; the launch is paid once."""
        decode = self.decode(sequences, kv_tokens)
        if prompt_tokens <= 0:
            return decode
        tokens, decoding = math.ceil(prompt_tokens), math.ceil(sequences)
        return self.factor * self.speed.steps.prompts(tokens, prompt_tokens / 2.0, decode / self.factor, decoding)

    def mean_pass(self, requests: Requests, sequences: float, kv_tokens: float) -> float:
        """A pass of an engine that does both, on average: each sequence brings its prompt once in an answer."""
        launches = (
            math.ceil(requests.computed / self.speed.batched_tokens) * self.factor * self.speed.steps.launch_seconds
        )
        prompt = self.drained(requests.computed) - launches
        return self.decode(sequences, kv_tokens) + sequences / requests.answer * prompt

    def drained(self, prompt_tokens: float, sequences: float = 0.0, kv_tokens: float = 0.0) -> float:
        """Until so many prompt tokens are computed, in full chunks and the rest, beside sequences that decode."""
        chunk = self.speed.batched_tokens
        full, rest = divmod(prompt_tokens, chunk)
        return full * self.mixed(chunk, sequences, kv_tokens) + (
            self.mixed(rest, sequences, kv_tokens) if rest > 0 else 0.0
        )

    def prefill_capacity(self, requests: Requests, targets: Targets) -> float:
        """Requests per second: the best rate of a batch of prompts that is done within the TTFT."""
        most = min(self.speed.max_batch, int(self.speed.batched_tokens // requests.computed))
        return _best(
            (
                OfBatch(batch / seconds, seconds, 0.0)
                for batch in _batches(most)
                if (seconds := self._prompts(requests, batch))
            ),
            targets,
        )

    def decode_capacity(self, requests: Requests, targets: Targets) -> float:
        """Requests per second by Little's law, batch / (answer tokens x ITL): the best whose pass is within the ITL."""
        return _best(
            (
                OfBatch(batch / (requests.answer * itl), 0.0, itl)
                for batch in _batches(self._most_sequences(requests))
                if (itl := self.decode(batch, batch * requests.context))
            ),
            targets,
        )

    def aggregated_capacity(self, requests: Requests, targets: Targets) -> float:
        """Requests per second of an engine that does both: every pass takes in as many prompt tokens as it must."""
        return _best(self._aggregated(requests), targets)

    def _aggregated(self, requests: Requests) -> Iterator[OfBatch]:
        for batch in _batches(self._most_sequences(requests)):
            tokens, kv = batch * requests.computed / requests.answer, batch * requests.context
            if tokens <= self.speed.batched_tokens - batch:
                itl = self.mean_pass(requests, batch, kv)
                ttft = self.drained(tokens + requests.computed, batch, kv)
                yield OfBatch(batch / (requests.answer * itl), ttft, itl)

    def _prompts(self, requests: Requests, batch: int) -> float:
        return self.drained(batch * requests.computed)

    def _most_sequences(self, requests: Requests) -> int:
        return min(self.speed.max_batch, int(self.speed.kv_tokens // requests.context))


def _batches(most: int) -> list[int]:
    """Sizes from 1 to the most, at most 128 of them."""
    most = max(1, most)
    if most <= _MOST_CANDIDATES:
        return list(range(1, most + 1))
    return [1 + index * (most - 1) // (_MOST_CANDIDATES - 1) for index in range(_MOST_CANDIDATES)]


def _best(found: Iterator[OfBatch], targets: Targets) -> float:
    """The highest rate within the targets, or where none is within them the highest at all; 0 without candidates."""
    best = max(found, key=lambda each: (each.within(targets), each.rate), default=None)
    return best.rate if best is not None else 0.0
