"""One replica step by step: continuous batching with chunked prefill, as engines do it, at the model's step times.

What the closed forms of `weft.perf.service` are held against. One data-parallel rank, one pipeline stage.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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


class Replica:
    """Requests in, steps done, latencies out."""

    def __init__(self, model: ReplicaModel, seats: int) -> None:
        """An idle replica that lets so many requests in at a time."""
        self.steps, self.seats = stepper(model), seats
        self.waiting: deque[Request] = deque()
        self.prefilling: deque[Request] = deque()
        self.running: list[Request] = []
        self.finished: list[tuple[float, float, float]] = []
        self._decode: dict[tuple[int, int], float] = {}

    @property
    def is_idle(self) -> bool:
        return not (self.waiting or self.prefilling or self.running)

    def step(self, now: float) -> float:
        """Do one step that begins now; the time at which it ends."""
        while self.waiting and len(self.prefilling) + len(self.running) < self.seats:
            self.prefilling.append(self.waiting.popleft())
        done, new, cached = self._prompts()
        ends = now + (self._decode_seconds() if self.running else 0.0)
        launch = 0.0
        if new:
            time = self.steps.prefill(new, cached, 1.0)
            launch = time.parts.launch
            ends += time.seconds - launch
        self._answer(ends)
        for request in done:
            request.first_token = ends + launch
            self._seat(request, ends)
        return ends

    def _prompts(self) -> tuple[list[Request], float, float]:
        """Prompts that end in this step, and its tokens: new ones, and those of a chunked prompt that are there."""
        room = self.steps.replica.efficiency.batched_tokens - len(self.running)
        done, new, cached = [], 0.0, 0.0
        while self.prefilling and room > 0:
            request = self.prefilling[0]
            taken = min(room, request.prompt_left)
            cached = max(cached, request.input_tokens - request.prompt_left)
            request.prompt_left -= taken
            new, room = new + taken, room - taken
            if request.prompt_left > 0:
                break
            done.append(self.prefilling.popleft())
        return done, new, cached

    def _decode_seconds(self) -> float:
        batch = len(self.running)
        context = sum(request.context for request in self.running) / batch
        key = (batch, round(context / _CONTEXT_GRAIN))
        if key not in self._decode:
            self._decode[key] = self.steps.decode(batch, max(1.0, key[1] * _CONTEXT_GRAIN)).seconds
        return self._decode[key]

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


def simulate(model: ReplicaModel, workload: Workload, seats: int, count: int, seed: int) -> Measured:
    """So many requests of a workload, of which the first and the last are left out."""
    longest = min(workload.longest_tokens, float(model.architecture.max_context_tokens))
    arriving, replica, now = deque(_requests(workload, longest, count, random.Random(seed))), Replica(model, seats), 0.0
    while len(replica.finished) < count:
        if replica.is_idle:
            now = max(now, arriving[0].arrived)
        while arriving and arriving[0].arrived <= now:
            replica.waiting.append(arriving.popleft())
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
