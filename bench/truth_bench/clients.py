"""Those who ask one engine of the twin: users of a closed loop, or arrivals that wait for nobody."""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Protocol

import numpy as np

from weft.twin.engine.engine import SimulatedEngine
from weft.twin.engine.request import SimulatedRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from weft.twin.engine.speed import EngineSpeed

    OnTheWay = tuple[float, int, SimulatedRequest]

ROUNDS = 10  # requests of a user, as InferenceX has them
_SHORTEST = 0.8  # of the nominal length, where lengths are drawn


@dataclass(frozen=True, slots=True)
class Latencies:
    """Seconds until the first token, and between tokens."""

    ttft: float
    tpot: float


class Answered(Protocol):
    """A request that has its last token: seconds as of `Latencies`."""

    @property
    def ttft(self) -> float: ...
    @property
    def tpot(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Client:
    """Tokens of a prompt and of its answer: nominal ones, or evenly from 0.8 of them to all of them if `spread`.

    Where lengths are spread (InferenceX) medians were published, elsewhere means. Users of a closed loop have so many
    `rounds`, whose beginning they share: few leave them in step with each other, and prompts come several at a time.
    """

    input_tokens: int
    output_tokens: int
    spread: bool
    rounds: int = ROUNDS

    @property
    def mean_output_tokens(self) -> float:
        """Of an answer."""
        return self.output_tokens * (1.0 + _SHORTEST) / 2.0 if self.spread else float(self.output_tokens)

    def lengths(self, count: int) -> Iterator[tuple[int, int]]:
        """Tokens of so many prompts and their answers; always the same."""
        return zip(self._drawn(self.input_tokens, count, 1), self._drawn(self.output_tokens, count, 2), strict=True)

    def middle(self, answered: Iterable[Answered]) -> Latencies:
        """What is published of requests."""
        pairs = [(each.ttft, each.tpot) for each in answered]
        return Latencies(*((np.median if self.spread else np.mean)(pairs, axis=0).tolist()))

    def output_rate(self, users: int, said: Latencies) -> float:
        """Tokens per second by Little's law: so many users over what one of their requests takes."""
        tokens = self.mean_output_tokens
        return users * tokens / (said.ttft + (tokens - 1.0) * said.tpot)

    def ask(self, speed: EngineSpeed, users: int, outside_seconds: float) -> Latencies:
        """What users see who each send the next request when the last is answered, but for their first ones.

        These all come at once. `outside_seconds` go by between a user's request and its arrival at the engine. Raises
        `ValueError` where the engine can never hold a request.
        """
        lengths = self.lengths(users * self.rounds)
        first = [(outside_seconds, turn, SimulatedRequest(0.0, *next(lengths))) for turn in range(users)]

        def following(ended: SimulatedRequest, turn: int) -> OnTheWay | None:
            length, sent = next(lengths, None), ended.last_token_at
            return None if length is None else (sent + outside_seconds, turn, SimulatedRequest(sent, *length))

        return self.middle(request for request in _answered(speed, first, following) if request.arrived > 0.0)

    def replay(self, speed: EngineSpeed, sent: Sequence[float], outside_seconds: float) -> list[SimulatedRequest]:
        """All requests, answered, where they are sent at these times, whatever becomes of those before."""
        pairs = enumerate(zip(sent, self.lengths(len(sent)), strict=True))
        first = [(at + outside_seconds, turn, SimulatedRequest(at, *length)) for turn, (at, length) in pairs]
        return _answered(speed, first, lambda *_: None)

    def _drawn(self, nominal: int, count: int, seed: int) -> list[int]:
        if not self.spread:
            return [nominal] * count
        least = max(1, round(_SHORTEST * nominal))
        drawn = np.random.default_rng(seed).integers(least, nominal, count, endpoint=True)
        return [int(each) for each in drawn]


def _answered(
    speed: EngineSpeed, first: list[OnTheWay], following: Callable[[SimulatedRequest, int], OnTheWay | None]
) -> list[SimulatedRequest]:
    """Requests in the order of their ends; each end may send another one on the way (when, in what turn, what)."""
    engine, on_the_way = SimulatedEngine(speed), first
    heapify(on_the_way)
    answered: list[SimulatedRequest] = []
    while on_the_way or engine.load:
        event = engine.next_event() if engine.load else math.inf
        if on_the_way and on_the_way[0][0] <= event:
            at, _, request = heappop(on_the_way)
            engine.submit(request, at)
            continue
        for request in engine.ended_by(event):
            answered.append(request)
            another = following(request, len(first) + len(answered))
            if another is not None:
                heappush(on_the_way, another)
    return answered
