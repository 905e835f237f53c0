"""The planner of NVIDIA Dynamo in its current form: a floor by forecast, and steps of one by load.

Source: ai-dynamo/dynamo, `components/src/dynamo/planner/core`, September 2026; compared with `load_scaling.py` at
0c6da1ec and `throughput_scaling.py` at 0c9050c9.

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
from typing import TYPE_CHECKING

from weft.domain.workload import Role
from weft.scaling import is_sane
from weft.twin.policies.by_library import INTERVAL_SECONDS
from weft.twin.policies.engine_load import Correction, EngineLoad, EngineModel
from weft.twin.policies.forward_pass import ForwardPass, Requests, Targets
from weft.twin.policies.predictors import Constant, PredictorName
from weft.twin.policies.signals import arrival_rate, first_known, pods, strictest
from weft.twin.policies.windows import Recent, Timer, replicas_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weft.twin.policies.policy import PoolView

THROUGHPUT_SECONDS = INTERVAL_SECONDS
LOAD_SECONDS = 5.0


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
class _Judge:
    """What the load of engines means against the targets."""

    model: EngineModel
    targets: Targets
    sensitivity: float

    def wish(self, engines: list[EngineLoad]) -> int:
        """1, 0 or -1 replicas."""
        checks: dict[Role, tuple[Callable[[list[EngineLoad]], int], ...]] = {
            Role.Prefill: (self._by_ttft,),
            Role.Decode: (self._by_itl,),
            Role.Aggregated: (self._by_ttft, self._by_itl),
        }
        return max(check(engines) for check in checks[self.model.role])

    def _by_ttft(self, engines: list[EngineLoad]) -> int:
        if all(self.model.ttft(engine) > self.targets.ttft for engine in engines):
            return 1
        return -1 if self._fits(engines, self._queue_fits) else 0

    def _by_itl(self, engines: list[EngineLoad]) -> int:
        if all(self.model.itl(engine) > self.targets.itl for engine in engines):
            return 1
        return -1 if self._fits(engines, self._sequences_fit) else 0

    def _fits(self, engines: list[EngineLoad], check: Callable[[EngineLoad], bool]) -> bool:
        fewer = len(engines) - 1
        return fewer > 0 and all(check(engine.times(len(engines) / fewer)) for engine in engines)

    def _queue_fits(self, engine: EngineLoad) -> bool:
        own = self.model.ttft(EngineLoad(engine.sequences, engine.kv_tokens, 0.0))
        left = (self.targets.ttft - own) * self.sensitivity
        return left > 0 and self.model.ttft(engine) - own < left

    def _sequences_fit(self, engine: EngineLoad) -> bool:
        kv_tokens = engine.kv_tokens + engine.queue * self.model.requests.prompt
        fits = kv_tokens < self.model.passes.speed.kv_tokens
        return fits and self.model.itl(engine) < self.targets.itl * self.sensitivity


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
        self._correction = Correction()

    def count(self, now: float, view: PoolView) -> int | None:
        """The count to ask for; None to hold."""
        self._forecast.look(now, view)
        requests = self._forecast.seen(view)
        self._correction.look(view, requests)
        if self._timer.due(now):
            self._set_floor(now, view)
        engines = [engine for pod in pods(view) if (engine := EngineLoad.of(view, pod)) is not None]
        if view.starting or not len(engines) == view.ready == view.count or not engines:
            return None
        model = EngineModel(ForwardPass(view.speed, self._correction.factor), requests, view.role)
        judge = _Judge(model, self._targets(view), self._options.sensitivity)
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
            ForwardPass(view.speed, self._correction.factor),
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
