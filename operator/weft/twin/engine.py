"""One simulated engine replica: continuous batching in small steps of time, counted the way vLLM counts.

The step times come from outside (the performance model), so the simulation itself holds no hardware fact. Chunked
prefill shares each step with decode: a step takes as long as its chunk of prompts and its decode together, so decode
runs slower by the share of time that prompts take.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

CHUNK_TOKENS = 8192  # prompt tokens that one step takes at most: vLLM's --max-num-batched-tokens on large GPUs


@dataclass(frozen=True, slots=True)
class EngineSpeed:
    """How fast one replica is. A decode step of a batch of B takes `step_seconds + B * step_seconds_per_sequence`."""

    prefill_tokens_per_second: float
    step_seconds: float
    step_seconds_per_sequence: float
    max_batch: int
    kv_tokens: int


@dataclass(slots=True)
class Request:
    """One request inside an engine. Times are seconds of the simulation's clock; tokens left are fractional.

    `transferred` says that the prompt's KV came from a prefill engine, so that nothing is left to compute of it.
    """

    arrived: float
    input_tokens: int
    output_tokens: int
    transferred: bool = False
    prompt_left: float = field(init=False)
    output_left: float = field(init=False)
    scheduled_at: float | None = None
    first_token_at: float | None = None

    def __post_init__(self) -> None:
        """Nothing is done yet; the first output token comes with the end of prefill."""
        self.prompt_left = 0.0 if self.transferred else float(self.input_tokens)
        self.output_left = float(self.output_tokens - 1)

    @property
    def kv_tokens(self) -> int:
        """KV room reserved for the whole life of the request."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Finished:
    """One answered request: times in seconds, tokens as integers. `tpot` is 0 for a single token."""

    input_tokens: int
    output_tokens: int
    queue: float
    ttft: float
    tpot: float
    latency: float


class SimulatedEngine:
    """Advance it with the clock; it answers with what finished in between."""

    def __init__(self, speed: EngineSpeed) -> None:
        """Start empty at time zero of the caller's clock."""
        self.speed = speed
        self.waiting: deque[Request] = deque()
        self.prefilling: deque[Request] = deque()
        self.running: list[Request] = []
        self._kv_used = 0

    @property
    def kv_usage(self) -> float:
        """Fraction of KV room that is reserved."""
        return self._kv_used / self.speed.kv_tokens

    @property
    def load(self) -> int:
        """Requests inside, in any state."""
        return len(self.waiting) + len(self.prefilling) + len(self.running)

    def submit(self, request: Request) -> None:
        """Queue a request; it is admitted when batch and KV room allow."""
        self.waiting.append(request)

    def advance(self, now: float, seconds: float) -> list[Finished]:
        """Run from `now - seconds` to `now`; steps should be short against a request's life (50 ms do)."""
        self._admit(now - seconds)
        used = self._prefill(now, seconds * self._prefill_share())
        return self._decode(now, seconds - used)

    def _prefill_share(self) -> float:
        """Share of a step's time that goes to its chunk of prompts."""
        if not self.running or not self.prefilling:
            return 1.0
        chunk = min(CHUNK_TOKENS, sum(request.prompt_left for request in self.prefilling))
        chunk_seconds = chunk / self.speed.prefill_tokens_per_second
        return chunk_seconds / (chunk_seconds + self._step_seconds())

    def _step_seconds(self) -> float:
        return self.speed.step_seconds + len(self.running) * self.speed.step_seconds_per_sequence

    def _admit(self, now: float) -> None:
        while self.waiting and self._has_room(self.waiting[0]):
            request = self.waiting.popleft()
            self._kv_used += request.kv_tokens
            request.scheduled_at = now
            if request.transferred:
                request.first_token_at = now
                self.running.append(request)
            else:
                self.prefilling.append(request)

    def _has_room(self, request: Request) -> bool:
        fits_batch = len(self.prefilling) + len(self.running) < self.speed.max_batch
        return fits_batch and self._kv_used + request.kv_tokens <= self.speed.kv_tokens

    def _prefill(self, now: float, seconds: float) -> float:
        """Compute prompts, first come first served, and give the seconds that it took."""
        budget = seconds * self.speed.prefill_tokens_per_second
        while self.prefilling and budget > 0:
            request = self.prefilling[0]
            done = min(budget, request.prompt_left)
            request.prompt_left -= done
            budget -= done
            if request.prompt_left <= 0:
                request.first_token_at = now
                self.running.append(self.prefilling.popleft())
        return seconds - max(0.0, budget) / self.speed.prefill_tokens_per_second

    def _decode(self, now: float, seconds: float) -> list[Finished]:
        if not self.running:
            return []
        tokens = seconds / self._step_seconds()
        finished: list[Finished] = []
        still: list[Request] = []
        for request in self.running:
            request.output_left -= tokens
            if request.output_left <= 0:
                self._kv_used -= request.kv_tokens
                finished.append(_finish(request, now))
            else:
                still.append(request)
        self.running = still
        return finished


def _finish(request: Request, now: float) -> Finished:
    first = now if request.first_token_at is None else request.first_token_at
    scheduled = first if request.scheduled_at is None else request.scheduled_at
    gaps = request.output_tokens - 1
    return Finished(
        input_tokens=request.input_tokens,
        output_tokens=request.output_tokens,
        queue=max(0.0, scheduled - request.arrived),
        ttft=max(0.0, first - request.arrived),
        tpot=(now - first) / gaps if gaps > 0 else 0.0,
        latency=max(0.0, now - request.arrived),
    )
