"""All simulated engines of a cluster: one per ready pod, fed by open-loop traffic through an ideal front.

The front sends each request to the least loaded pod that is routed, as a good router would. A split's request goes to a
prefill engine first and then, its KV transferred, to a decode engine.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weft.twin.engine import Request, SimulatedEngine
from weft.twin.exposition import EngineMetrics
from weft.twin.traffic import arrivals

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from weft.twin.engine import EngineSpeed, Finished
    from weft.twin.traffic import Lengths, Profile

RECENT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class SimulatedPod:
    """A ready leader pod: where its `/metrics` is served and which pool it serves."""

    uid: str
    address: str
    pool: str
    speed: EngineSpeed
    routed: bool


@dataclass(frozen=True, slots=True)
class Stream:
    """Traffic for one pool, or for a split when `decode_pool` names where decoding happens."""

    name: str
    pool: str
    profile: Profile
    input_tokens: Lengths
    output_tokens: Lengths
    decode_pool: str | None = None


@dataclass(slots=True)
class LiveEngine:
    """A pod's engine with its metrics."""

    pod: SimulatedPod
    engine: SimulatedEngine
    metrics: EngineMetrics


@dataclass(slots=True)
class StreamRecord:
    """What a stream's users felt lately: (time, TTFT, TPOT) of answers, and arrivals that found no engine yet."""

    answers: deque[tuple[float, float, float]] = field(default_factory=deque)
    backlog: deque[Request] = field(default_factory=deque)
    arrived: int = 0
    answered: int = 0

    def percentile(self, which: int, percent: float) -> float | None:
        """TTFT (`which` 1) or TPOT (2) in seconds over the recent answers; None without answers."""
        values = sorted(answer[which] for answer in self.answers)
        return values[min(len(values) - 1, int(len(values) * percent / 100))] if values else None

    def forget_before(self, moment: float) -> None:
        """Keep only recent answers."""
        while self.answers and self.answers[0][0] < moment:
            self.answers.popleft()


class SimulatedFleet:
    """Sync it with the pods that exist, advance it with the clock."""

    def __init__(self, streams: Iterable[Stream], random: Random) -> None:
        """No engine runs until `sync` names pods."""
        self.streams = tuple(streams)
        self.records = {stream.name: StreamRecord() for stream in self.streams}
        self.engines: dict[str, LiveEngine] = {}
        self._random = random
        self._handoffs: dict[str, deque[Request]] = {stream.name: deque() for stream in self.streams}

    def sync(self, pods: Iterable[SimulatedPod]) -> tuple[list[LiveEngine], list[LiveEngine]]:
        """Make the engines match the pods; answers with those that started and those that ended."""
        wanted = {pod.uid: pod for pod in pods}
        ended = [self.engines.pop(uid) for uid in list(self.engines) if uid not in wanted]
        started = []
        for uid, pod in wanted.items():
            if uid in self.engines:
                self.engines[uid].pod = pod
                continue
            live = LiveEngine(pod, SimulatedEngine(pod.speed), EngineMetrics(pod.pool))
            self.engines[uid] = live
            started.append(live)
        return started, ended

    def advance(self, now: float, seconds: float) -> None:
        """Let traffic arrive and engines work from `now - seconds` to `now`."""
        for stream in self.streams:
            for moment in arrivals(stream.profile, now - seconds, now, self._random):
                self._arrive(stream, moment)
            self._place_backlog(stream)
        for live in self.engines.values():
            for finished in live.engine.advance(now, seconds):
                live.metrics.observe(finished)
                self._answered(live, finished, now)
        for record in self.records.values():
            record.forget_before(now - RECENT_SECONDS)

    def _arrive(self, stream: Stream, moment: float) -> None:
        record = self.records[stream.name]
        record.arrived += 1
        # a prefill engine answers with one token; the decode side draws how many follow
        output = 1 if stream.decode_pool else stream.output_tokens.draw(self._random)
        record.backlog.append(Request(moment, stream.input_tokens.draw(self._random), output))

    def _place_backlog(self, stream: Stream) -> None:
        backlog = self.records[stream.name].backlog
        while backlog and (engine := self._least_loaded(stream.pool)) is not None:
            engine.submit(backlog.popleft())
        handoffs = self._handoffs[stream.name]
        while handoffs and stream.decode_pool and (engine := self._least_loaded(stream.decode_pool)) is not None:
            engine.submit(handoffs.popleft())

    def _least_loaded(self, pool: str) -> SimulatedEngine | None:
        routed = [live.engine for live in self.engines.values() if live.pod.pool == pool and live.pod.routed]
        return min(routed, key=lambda engine: engine.load, default=None)

    def _answered(self, live: LiveEngine, finished: Finished, now: float) -> None:
        for stream in self.streams:
            if stream.pool == live.pod.pool and stream.decode_pool is None:
                self._record(stream, now, finished.ttft, finished.tpot)
            elif stream.pool == live.pod.pool:
                self._hand_over(stream, finished, now)
            elif stream.decode_pool == live.pod.pool:
                self._record(
                    stream, now, finished.latency - finished.tpot * (finished.output_tokens - 1), finished.tpot
                )

    def _hand_over(self, stream: Stream, finished: Finished, now: float) -> None:
        output = stream.output_tokens.draw(self._random)
        request = Request(now - finished.latency, finished.input_tokens, output, transferred=True)
        self._handoffs[stream.name].append(request)

    def _record(self, stream: Stream, now: float, ttft: float, tpot: float) -> None:
        record = self.records[stream.name]
        record.answered += 1
        record.answers.append((now, ttft, tpot))
