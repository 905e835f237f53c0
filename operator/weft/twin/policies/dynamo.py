"""The planner of NVIDIA Dynamo in its current form: a floor by forecast, and steps of one by load.

Source: ai-dynamo/dynamo, `components/src/dynamo/planner/core`, September 2026.

Throughput loop, every 180 s: requests, prompt and answer tokens are predicted one step ahead, each on its own, as
means; hits in the prefix cache are taken as last seen. `ceil(requests per second / rate of one engine)` is the floor of
a pool, with the rate from `forward_pass`: of prompts within the TTFT in a prefill pool, of the largest batch within the
ITL in a decode pool, of both in an aggregated one.

Load loop, every 5 s: of each engine the TTFT that its queue means and the ITL that its sequences mean. Up by ONE if
EVERY engine is over its target; down by one if on every engine the load of N on N - 1 still fits: the KV memory, 80 %
of the ITL, and 80 % of what the TTFT leaves beside the prompt's own time. An aggregated pool grows for either and
shrinks for both. While replicas start, or engines that answer are not as many as were asked for, it only looks - and
the floor waits too, which is why long start-ups hurt it.

What differs: it reads queues and caches by scrapes, not by an event of each pass, so a queue is requests times the mean
prompt; the factor that corrects the profile is the smoothed mean TPOT over the pass that the scrape implies (of a
prefill pool, the TTFT of engines without a queue). Requests are counted as the rate of each look, averaged over 180 s.
The pools of a split are judged each on its own. No budget, no power limit, no speculative decoding.
Both loops run here; by default (`enable_load_scaling`) the planner scales by forecast alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from weft.domain.workload import Role
from weft.scaling import is_sane
from weft.twin.policies.by_library import INTERVAL_SECONDS
from weft.twin.policies.forward_pass import ForwardPass, Requests, Targets
from weft.twin.policies.predictors import Constant, PredictorName
from weft.twin.policies.signals import arrival_rate, busy, first_known, pods, strictest, waiting
from weft.twin.policies.windows import Recent, Timer, replicas_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weft.domain.snapshot import PodObservation
    from weft.twin.policies.policy import PoolView

THROUGHPUT_SECONDS = INTERVAL_SECONDS
LOAD_SECONDS = 5.0
_LEAST_FACTOR, _MOST_FACTOR = 0.5, 2.0
_NEWEST_WEIGHT = 0.1


@dataclass(frozen=True, slots=True)
class DynamoOptions:
    """Which predictor, and the part of the SLO that is given to the planner as its targets.

    `sensitivity` is the part of a target that must be enough after a step down; `least` its `min_endpoint`.
    """

    predictor: PredictorName = PredictorName.Constant
    target: float = 1.0
    sensitivity: float = 0.8
    least: int = 1

    def policy(self) -> Dynamo:
        """A planner that remembers nothing yet."""
        return Dynamo(self)


@dataclass(frozen=True, slots=True)
class _Engine:
    """One engine as a scrape shows it: sequences, their KV, and the queue in requests."""

    sequences: float
    kv_tokens: float
    queue: float

    @classmethod
    def of(cls, view: PoolView, pod: PodObservation) -> _Engine | None:
        queue = waiting(pod)
        if queue is None or not is_sane(pod.running) or not is_sane(pod.kv_usage):
            return None
        return cls(pod.running, pod.kv_usage * view.speed.kv_tokens, queue)

    def times(self, factor: float) -> _Engine:
        """With so many times the load."""
        return _Engine(self.sequences * factor, self.kv_tokens * factor, self.queue * factor)


@dataclass(frozen=True, slots=True)
class _Judge:
    """What the load of engines means against the targets."""

    passes: ForwardPass
    requests: Requests
    targets: Targets
    sensitivity: float
    role: Role

    def wish(self, engines: list[_Engine]) -> int:
        """1, 0 or -1 replicas."""
        checks: dict[Role, tuple[Callable[[list[_Engine]], int], ...]] = {
            Role.Prefill: (self._by_ttft,),
            Role.Decode: (self._by_itl,),
            Role.Aggregated: (self._by_ttft, self._by_itl),
        }
        return max(check(engines) for check in checks[self.role])

    def _by_ttft(self, engines: list[_Engine]) -> int:
        if all(self._ttft(engine) > self.targets.ttft for engine in engines):
            return 1
        return -1 if self._fits(engines, self._queue_fits) else 0

    def _by_itl(self, engines: list[_Engine]) -> int:
        if all(self._itl(engine) > self.targets.itl for engine in engines):
            return 1
        return -1 if self._fits(engines, self._sequences_fit) else 0

    def _fits(self, engines: list[_Engine], check: Callable[[_Engine], bool]) -> bool:
        fewer = len(engines) - 1
        return fewer > 0 and all(check(engine.times(len(engines) / fewer)) for engine in engines)

    def _queue_fits(self, engine: _Engine) -> bool:
        own = self._ttft(_Engine(engine.sequences, engine.kv_tokens, 0.0))
        left = (self.targets.ttft - own) * self.sensitivity
        return left > 0 and self._ttft(engine) - own < left

    def _sequences_fit(self, engine: _Engine) -> bool:
        kv_tokens = engine.kv_tokens + engine.queue * self.requests.prompt
        fits = kv_tokens < self.passes.speed.kv_tokens
        return fits and self._itl(engine) < self.targets.itl * self.sensitivity

    def _ttft(self, engine: _Engine) -> float:
        """The queue and one more prompt, beside what decodes."""
        tokens = (engine.queue + 1.0) * self.requests.computed
        if self.role is Role.Aggregated:
            return self.passes.drained(tokens, engine.sequences, engine.kv_tokens)
        return self.passes.drained(tokens)

    def _itl(self, engine: _Engine) -> float:
        """A pass with the queue in the batch; in an aggregated engine on average, prompts included."""
        sequences = min(engine.sequences + engine.queue, float(self.passes.speed.max_batch))
        kv_tokens = engine.kv_tokens + engine.queue * self.requests.prompt
        return _pass(self.passes, self.role, self.requests, _Engine(sequences, kv_tokens, 0.0))


def _pass(passes: ForwardPass, role: Role, requests: Requests, engine: _Engine) -> float:
    """Seconds of a pass of what an engine has in its batch."""
    if role is Role.Aggregated:
        return passes.mean_pass(requests, engine.sequences, engine.kv_tokens)
    return passes.decode(engine.sequences, engine.kv_tokens)


class _Forecast:
    """The mean request and the rate: what was seen in an interval, and what comes next."""

    def __init__(self, predictor: PredictorName) -> None:
        self._kept = [Recent(THROUGHPUT_SECONDS) for _ in range(4)]
        self._last = [Constant() for _ in range(4)]
        self._predictors = [*(predictor.make() for _ in range(3)), self._last[3]]
        self._coming: list[float | None] = [None] * 4

    def look(self, now: float, view: PoolView) -> None:
        """Remember what an observation says."""
        seen = view.observation
        if seen is None or seen.answered <= 0:
            return
        for kept, value in zip(
            self._kept, (arrival_rate(seen), seen.input_tokens, seen.output_tokens, seen.prefix_hit), strict=True
        ):
            if is_sane(value):
                kept.add(now, value)

    def end_interval(self, now: float) -> float | None:
        """Take in what the interval showed; answers with the requests per second of the next, None without any."""
        for kept, last, predictor in zip(self._kept, self._last, self._predictors, strict=True):
            kept.forget(now)
            if len(kept):
                value = kept.mean * (THROUGHPUT_SECONDS if kept is self._kept[0] else 1.0)
                last.add(value)
                predictor.add(value)
        self._coming = [predictor.next() for predictor in self._predictors]
        coming = self._coming[0] if len(self._kept[0]) else None
        return None if coming is None else coming / THROUGHPUT_SECONDS

    def seen(self, view: PoolView) -> Requests:
        """The mean request of the last interval; what was declared where nothing was seen."""
        return _requests(view, [last.next() for last in self._last])

    def coming(self, view: PoolView) -> Requests:
        """The mean request of the interval that begins."""
        return _requests(view, self._coming)


def _requests(view: PoolView, values: list[float | None]) -> Requests:
    _, prompt, answer, hit = values
    declared = view.workload
    return Requests.of(
        first_known(prompt, declared.input_tokens),
        first_known(answer, declared.output_tokens),
        declared.prefix_hit if hit is None else hit,
    )


class _Pool:
    """One pool's forecast, floor and correction of the profile."""

    def __init__(self, options: DynamoOptions, now: float) -> None:
        self._options = options
        self._forecast = _Forecast(options.predictor)
        self._timer = Timer(THROUGHPUT_SECONDS, first=now + THROUGHPUT_SECONDS)
        self._floor = options.least
        self._factor = 1.0

    def count(self, now: float, view: PoolView) -> int | None:
        """The count to ask for; None to hold."""
        self._forecast.look(now, view)
        requests = self._forecast.seen(view)
        self._correct(view, requests)
        if self._timer.due(now):
            self._set_floor(now, view)
        engines = [engine for pod in pods(view) if (engine := _Engine.of(view, pod)) is not None]
        if view.starting or not len(engines) == view.ready == view.count or not engines:
            return None
        judge = _Judge(
            ForwardPass(view.speed, self._factor), requests, self._targets(view), self._options.sensitivity, view.role
        )
        return view.clamp(max(self._floor, view.count + judge.wish(engines)))

    def _targets(self, view: PoolView) -> Targets:
        ttft, tpot = strictest(view.slo.ttft), strictest(view.slo.tpot)
        part = self._options.target
        return Targets(
            *(float("inf") if seconds is None else seconds * part for seconds in (ttft, tpot)),
        )

    def _set_floor(self, now: float, view: PoolView) -> None:
        """An interval without any measurement leaves the floor."""
        coming = self._forecast.end_interval(now)
        passes, requests, targets = (
            ForwardPass(view.speed, self._factor),
            self._forecast.coming(view),
            self._targets(view),
        )
        rate = {
            Role.Prefill: passes.prefill_capacity,
            Role.Decode: passes.decode_capacity,
            Role.Aggregated: passes.aggregated_capacity,
        }[view.role](requests, targets)
        if coming is not None and rate > 0:
            self._floor = max(self._options.least, replicas_for(coming, rate))

    def _correct(self, view: PoolView, requests: Requests) -> None:
        ratios = _prompt_ratios(view, requests) if view.role is Role.Prefill else _token_ratios(view, requests)
        if ratios:
            found = min(ratios) if view.role is Role.Prefill else median(ratios)
            found = min(_MOST_FACTOR, max(_LEAST_FACTOR, found))
            self._factor += _NEWEST_WEIGHT * (found - self._factor)


def _token_ratios(view: PoolView, requests: Requests) -> list[float]:
    """Measured over modelled time of a token, of each engine that decodes."""
    passes = ForwardPass(view.speed)
    ratios = []
    for pod in busy(view):
        engine = _Engine.of(view, pod)
        if engine is not None and is_sane(pod.tpot_mean) and pod.tpot_mean > 0:
            ratios.append(pod.tpot_mean / _pass(passes, view.role, requests, engine))
    return ratios


def _prompt_ratios(view: PoolView, requests: Requests) -> list[float]:
    """Measured over modelled time of a prompt, of each engine without a queue; the least has waited least."""
    own = ForwardPass(view.speed).drained(requests.computed)
    idle = [pod for pod in pods(view) if not waiting(pod)]
    return [pod.ttft_mean / own for pod in idle if is_sane(pod.ttft_mean) and pod.ttft_mean > 0]


class Dynamo:
    """One planner of each pool, by its role."""

    every_seconds = LOAD_SECONDS

    def __init__(self, options: DynamoOptions) -> None:
        """Nothing is remembered yet."""
        self.options = options
        self._pools: dict[str, _Pool] = {}

    @property
    def name(self) -> str:
        predictor = self.options.predictor
        return "dynamo" if predictor is PredictorName.Constant else f"dynamo-{predictor}"

    def counts(self, now: float, pools: tuple[PoolView, ...]) -> Mapping[str, int]:
        answers = {view.name: self._of(now, view).count(now, view) for view in pools}
        return {name: count for name, count in answers.items() if count is not None}

    def _of(self, now: float, view: PoolView) -> _Pool:
        return self._pools.setdefault(view.name, _Pool(self.options, now))
