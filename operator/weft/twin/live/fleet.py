"""All simulated engines of a live cluster: one per ready leader pod, fed by open-loop traffic through an ideal front.

The front sends each request to the least loaded routed pod, as a good router would. A request of a split goes to a
prefill engine first and then, after its KV is transferred, to a decode engine.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from weft.twin.engine.engine import SimulatedEngine
from weft.twin.engine.request import RequestStage, SimulatedRequest
from weft.twin.live.exposition import EngineMetrics
from weft.twin.traffic.open_loop import arrivals

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from weft.twin.engine.speed import EngineSpeed
    from weft.twin.traffic.open_loop import LogNormalLengths, Profile

RECENT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class LivePod:
    """A ready leader pod: where its `/metrics` is served and which pool it serves."""

    uid: str
    address: str
    pool: str
    speed: EngineSpeed
    routed: bool


@dataclass(frozen=True, slots=True)
class LiveStream:
    """Traffic for one pool, or for a split when `decode_pool` names where decoding happens."""

    name: str
    pool: str
    profile: Profile
    input_tokens: LogNormalLengths
    output_tokens: LogNormalLengths
    decode_pool: str | None = None


@dataclass(slots=True)
class LiveEngine:
    """A pod's engine with its metrics."""

    pod: LivePod
    engine: SimulatedEngine
    metrics: EngineMetrics


@dataclass(frozen=True, slots=True)
class _Handed:
    """The prompt whose KV a decode request needs, and the prefill engine that keeps it."""

    prompt: SimulatedRequest
    live: LiveEngine


class LiveAnswer(NamedTuple):
    """When an answer was complete (seconds of the clock), and its TTFT and TPOT in seconds."""

    ended: float
    ttft: float
    tpot: float


@dataclass(slots=True)
class StreamRecord:
    """What users of a stream experienced lately: answers, and arrivals that found no engine yet."""

    answers: deque[LiveAnswer] = field(default_factory=deque)
    backlog: deque[SimulatedRequest] = field(default_factory=deque)
    arrived: int = 0
    answered: int = 0
    refused: int = 0

    def percentile(self, latency: Literal["ttft", "tpot"], percent: float) -> float | None:
        """A percentile of TTFT or TPOT over the recent answers, in seconds; None without answers."""
        values = sorted(getattr(answer, latency) for answer in self.answers)
        return values[min(len(values) - 1, int(len(values) * percent / 100))] if values else None

    def forget_before(self, moment: float) -> None:
        """Drop answers that ended before a moment."""
        while self.answers and self.answers[0].ended < moment:
            self.answers.popleft()


class SimulatedFleet:
    """All engines and streams: `sync` it with the pods that exist, and `advance` it with the clock."""

    def __init__(self, streams: Iterable[LiveStream], random: Random) -> None:
        """No engine runs until `sync` names pods."""
        self.streams = tuple(streams)
        self.records = {stream.name: StreamRecord() for stream in self.streams}
        self.engines: dict[str, LiveEngine] = {}
        self._random = random
        self._now = 0.0
        self._handed: dict[SimulatedRequest, _Handed] = {}

    def sync(self, pods: Iterable[LivePod]) -> tuple[list[LiveEngine], list[LiveEngine]]:
        """Make the engines match the pods; returns those that started and those that ended."""
        wanted = {pod.uid: pod for pod in pods}
        ended = [self.engines.pop(uid) for uid in list(self.engines) if uid not in wanted]
        started = []
        for uid, pod in wanted.items():
            if uid in self.engines:
                self.engines[uid].pod = pod
                continue
            engine = SimulatedEngine(pod.speed, self._now)
            live = LiveEngine(pod, engine, EngineMetrics(pod.pool, engine))
            self.engines[uid] = live
            started.append(live)
        return started, ended

    def advance(self, now: float, seconds: float) -> None:
        """Let traffic arrive and engines work from `now - seconds` to `now`."""
        for stream in self.streams:
            for moment in arrivals(stream.profile, now - seconds, now, self._random):
                self._arrive(stream, moment)
        self._place_all()
        self._now = now
        for live in self.engines.values():
            for request in live.engine.advance(now):
                self._answered(live, request)
        self._release_fetched()
        for record in self.records.values():
            record.forget_before(now - RECENT_SECONDS)

    def _arrive(self, stream: LiveStream, moment: float) -> None:
        record = self.records[stream.name]
        record.arrived += 1
        # a prefill engine answers with one token; the decode side draws how many there are
        output = 1 if stream.decode_pool else stream.output_tokens.draw(self._random)
        prompt = stream.input_tokens.draw(self._random)
        record.backlog.append(SimulatedRequest(moment, prompt, output, keeps_kv=stream.decode_pool is not None))

    def _place_all(self) -> None:
        """Submit the waiting requests in order of arrival; those that find no engine wait on."""
        waiting = [(stream, request) for stream in self.streams for request in self.records[stream.name].backlog]
        for record in self.records.values():
            record.backlog.clear()
        for stream, request in sorted(waiting, key=lambda each: each[1].arrived):
            pool = stream.decode_pool if request.remote else stream.pool
            live = self._least_loaded(pool or stream.pool)
            if live is None:
                self.records[stream.name].backlog.append(request)
            elif not live.engine.holds(request):
                self._refuse(stream, request)
            else:
                live.engine.submit(request, max(self._now, request.arrived))

    def _refuse(self, stream: LiveStream, request: SimulatedRequest) -> None:
        """Refuse a request that is longer than the engine can hold; its user gets an error at once."""
        self.records[stream.name].refused += 1
        handed = self._handed.pop(request, None)
        if handed is not None:
            handed.live.engine.release(handed.prompt, self._now)

    def _least_loaded(self, pool: str) -> LiveEngine | None:
        routed = [live for live in self.engines.values() if live.pod.pool == pool and live.pod.routed]
        return min(routed, key=lambda live: live.engine.load, default=None)

    def _answered(self, live: LiveEngine, request: SimulatedRequest) -> None:
        for stream in self.streams:
            if live.pod.pool == stream.pool and stream.decode_pool is not None:
                self._hand_over(stream, live, request)
            elif live.pod.pool == (stream.decode_pool or stream.pool):
                handed = self._handed.pop(request, None)
                self._record(stream, request, request.arrived if handed is None else handed.prompt.arrived)

    def _hand_over(self, stream: LiveStream, live: LiveEngine, prompt: SimulatedRequest) -> None:
        output = stream.output_tokens.draw(self._random)
        request = SimulatedRequest(prompt.last_token_at, prompt.input_tokens, output, remote=True)
        self._handed[request] = _Handed(prompt, live)
        self.records[stream.name].backlog.append(request)

    def _release_fetched(self) -> None:
        """Release KV at prefill engines once the decode engine has fetched it."""
        for request, handed in self._handed.items():
            if (
                request.stage not in {RequestStage.Waiting, RequestStage.Fetching}
                and handed.prompt.stage is RequestStage.Kept
            ):
                handed.live.engine.release(handed.prompt, self._now)

    def _record(self, stream: LiveStream, request: SimulatedRequest, asked: float) -> None:
        record = self.records[stream.name]
        record.answered += 1
        ttft = request.first_token_at - asked + request.api_seconds
        record.answers.append(LiveAnswer(request.last_token_at, ttft, request.tpot))
