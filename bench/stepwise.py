"""One replica step by step: continuous batching with chunked prefill, as engines do it, at the model's step times.

What the closed forms of `weft.perf.service` are held against. One pipeline stage; data-parallel ranks go in lockstep.
The host launches a step of more tokens than a captured graph holds: of prompts, and what each sequence decodes.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from weft.perf.lengths import lengths
from weft.perf.steps import stepper

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weft.domain.workload import Workload
    from weft.perf.lengths import Lengths
    from weft.perf.replica import ReplicaModel

    Vector = NDArray[np.float64]

_CONTEXT_GRAIN = 50.0  # tokens: contexts that differ by less share a step time
_WARM_UP, _COOL_DOWN = 0.1, 0.05  # of the requests, which are left out


@dataclass(slots=True)
class Request:
    """Times in seconds; tokens of the prompt still to compute, and of the answer still to make."""

    arrived: float
    input_tokens: float
    output_tokens: int
    prompt_left: float = field(init=False)
    answer_left: int = field(init=False)
    first_token: float = 0.0

    def __post_init__(self) -> None:
        """The first token of the answer comes with the end of the prompt."""
        self.prompt_left, self.answer_left = self.input_tokens, self.output_tokens - 1

    @property
    def context(self) -> float:
        """Tokens that its next one looks at."""
        return self.input_tokens + self.output_tokens - self.answer_left


@dataclass(frozen=True, slots=True)
class Measured:
    """TTFT and TPOT of every request, in seconds."""

    ttft: Vector
    tpot: Vector


class Chunk(NamedTuple):
    """What a rank computes of prompts in a step: those that end in it, and (new, cached) tokens of each.

    Each prompt's tokens look at those before them of the same prompt, and at no other prompt's.
    """

    ends: list[Request]
    prompts: list[tuple[float, float]]

    @property
    def new(self) -> float:
        return sum(new for new, _ in self.prompts)


class Rank:
    """Requests in, steps done, latencies out."""

    def __init__(self, batched_tokens: float, seats: int) -> None:
        """An idle rank that lets so many requests in at a time, and so many tokens into a step."""
        self.batched_tokens, self.seats = batched_tokens, seats
        self.waiting: deque[Request] = deque()
        self.prefilling: deque[Request] = deque()
        self.running: list[Request] = []
        self.finished: list[tuple[float, float, float]] = []

    @property
    def requests(self) -> int:
        return len(self.waiting) + len(self.prefilling) + len(self.running)

    def begin(self) -> Chunk:
        """Let requests in, and take what fits of their prompts."""
        while self.waiting and len(self.prefilling) + len(self.running) < self.seats:
            self.prefilling.append(self.waiting.popleft())
        return self._prompts()

    def end(self, chunk: Chunk, now: float, launch: float) -> None:
        """A token for all who run, and the first one for prompts that end: `launch` later, since nobody waits then."""
        self._answer(now)
        for request in chunk.ends:
            request.first_token = now + launch
            self._seat(request, now)

    def _prompts(self) -> Chunk:
        room = self.batched_tokens - len(self.running)
        done, prompts = list[Request](), list[tuple[float, float]]()
        while self.prefilling and room > 0:
            request = self.prefilling[0]
            taken = min(room, request.prompt_left)
            prompts.append((taken, request.input_tokens - request.prompt_left))
            request.prompt_left -= taken
            room -= taken
            if request.prompt_left > 0:
                break
            done.append(self.prefilling.popleft())
        return Chunk(done, prompts)

    def _answer(self, now: float) -> None:
        for request in self.running:
            request.answer_left -= 1
            if request.answer_left <= 0:
                self._finish(request, now)
        self.running = [request for request in self.running if request.answer_left > 0]

    def _seat(self, request: Request, now: float) -> None:
        if request.answer_left > 0:
            self.running.append(request)
        else:
            self._finish(request, now)

    def _finish(self, request: Request, now: float) -> None:
        per_token = (now - request.first_token) / max(1, request.output_tokens - 1)
        self.finished.append((request.arrived, request.first_token - request.arrived, per_token))


class Together(NamedTuple):
    """Prompts of all ranks in a step: seconds of GPUs, those of them to launch, and those for which the host launches.

    The host launches the whole step, with what it decodes; GPUs wait for it, or it for them.
    """

    seconds: float
    launch: float
    host: float


class Replica:
    """Ranks whose steps begin and end together: each is as long as that of the rank with most to do."""

    def __init__(self, model: ReplicaModel, seats: int) -> None:
        """An idle replica that lets so many requests in at a time."""
        self.steps, count = stepper(model), model.shape.data_parallel
        self._graph_tokens = self.steps.work.graph_tokens * self.steps.work.prompt_groups
        self.ranks = tuple(Rank(model.efficiency.batched_tokens, seats // count) for _ in range(count))
        self._decode: dict[tuple[int, int], float] = {}

    @property
    def is_idle(self) -> bool:
        return not any(rank.requests for rank in self.ranks)

    @property
    def finished(self) -> list[tuple[float, float, float]]:
        return [each for rank in self.ranks for each in rank.finished]

    def arrive(self, request: Request) -> None:
        """To the rank that has fewest."""
        min(self.ranks, key=lambda rank: rank.requests).waiting.append(request)

    def step(self, now: float) -> float:
        """Do one step that begins now; the time at which it ends."""
        chunks = [rank.begin() for rank in self.ranks]
        ends, first = now + self._decode_seconds(), now
        if together := sum(chunk.new > 0 for chunk in chunks):
            work = self._prompts(chunks, float(together) if len(chunks) > 1 else None)
            first = max(now + work.host, ends + work.seconds)
            ends = max(now + work.host, ends + work.seconds - work.launch)
        for rank, chunk in zip(self.ranks, chunks, strict=True):
            rank.end(chunk, ends, max(0.0, first - ends))
        return ends

    def _prompts(self, chunks: list[Chunk], together: float | None) -> Together:
        """The ranks' prompts in a step: all their tokens at once, but for attention."""
        most = max(chunk.new for chunk in chunks)
        tokens = max(chunk.new + len(rank.running) for chunk, rank in zip(chunks, self.ranks, strict=True))
        host = self.steps.host_seconds if tokens > self._graph_tokens else 0.0
        attention = max(sum(self._attention(*prompt) for prompt in chunk.prompts) for chunk in chunks)
        less = self._attention(most, 0.0) - attention
        whole = self.steps.prefill(most, 0.0, 1.0, together)
        return Together(whole.seconds - whole.waits - less, whole.launch, host)

    def _attention(self, new: float, cached: float) -> float:
        return self.steps.prefill(new, cached, 1.0).parts.attention

    def _decode_seconds(self) -> float:
        running = [request for rank in self.ranks for request in rank.running]
        if not running:
            return 0.0
        context = sum(request.context for request in running) / len(running)
        batch = len(self.ranks) * max(len(rank.running) for rank in self.ranks)
        key = (batch, round(context / _CONTEXT_GRAIN))
        if key not in self._decode:
            self._decode[key] = self.steps.decode(batch, max(1.0, key[1] * _CONTEXT_GRAIN)).seconds
        return self._decode[key]


def simulate(model: ReplicaModel, workload: Workload, seats: int, count: int, seed: int) -> Measured:
    """So many requests of a workload, of which the first and the last are left out."""
    longest = min(workload.longest_tokens, float(model.architecture.max_context_tokens))
    arriving, replica, now = deque(_requests(workload, longest, count, random.Random(seed))), Replica(model, seats), 0.0
    while arriving or not replica.is_idle:
        if replica.is_idle:
            now = max(now, arriving[0].arrived)
        while arriving and arriving[0].arrived <= now:
            replica.arrive(arriving.popleft())
        now = replica.step(now)
    found = np.array(sorted(replica.finished))[int(_WARM_UP * count) : count - int(_COOL_DOWN * count)]
    return Measured(found[:, 1] + model.efficiency.request_seconds, found[:, 2])


def _requests(workload: Workload, longest: float, count: int, generator: random.Random) -> list[Request]:
    """Gaps between arrivals are gamma distributed: of the wanted variation, exponential where that is 1."""
    shape = 1.0 / workload.squared_arrival_variation
    inputs = lengths(workload.input_tokens, workload.input_tokens_p95, longest)
    outputs = lengths(workload.output_tokens, workload.output_tokens_p95, longest)
    requests, now = [], 0.0
    for _ in range(count):
        now += generator.gammavariate(shape, 1.0 / (shape * workload.requests_per_second))
        requests.append(Request(now, max(1.0, _drawn(inputs, generator)), max(2, round(_drawn(outputs, generator)))))
    return requests


def _drawn(of: Lengths, generator: random.Random) -> float:
    if of.deviation == 0.0:
        return of.mean
    return min(of.longest, of.median * math.exp(of.deviation * generator.gauss(0.0, 1.0)))
