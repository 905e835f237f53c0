"""llm-d's rule for latency SLOs: KEDA on the P90 of predicted TTFT and TPOT, which it recommends in place of `wva`.

Source: llm-d/llm-d, `docs/architecture/autoscaling/slo-aware.md` (3d016852) for the rule, and
`guides/workload-autoscaling/slo-aware/README.md` (1860df22) for its settings, as of release 0.10; KEDA v2.20.1
(875675ce), which that names, for what becomes of the formula (`pkg/scaling`, `controllers/keda/hpa.go`). The manifests
of the guide were not read. The endpoint picker predicts TTFT and TPOT of each request that it sends, by a model that it
trains on what came true.

Rule, every 15 s, of a pool with n replicas of which r are ready:

    s = mean over 45 s of min(2, max(P90 TTFT / SLO, P90 TPOT / SLO)), percentiles of the last minute; idle is 0
    above 0.55: n + ceil(n (s c / 0.55 - 1)), c = r / n while some start       below 0.40: n - floor(n (1 - s / 0.40))

An HPA reads that as an external metric with an average target of 1, and so with a tolerance of 10 %; KEDA asks for it
at each look of the HPA. It grows by the least of 30 s, at most by 4 pods or 100 % in 60 s; it shrinks to the most of
180 s, by one pod in 120 s. KEDA's `pollingInterval` and `cooldownPeriod` are about going to and from zero, which no
pool here does. Above 0.55 the credit c may ask for fewer than n while many start: so it is written, and the window of
180 s mostly hides it.

What is chosen here: the predictor is as good as its inputs. It is `engine_load`'s model of the engines with the factor
that their measured tokens show, asked at each look for every replica and for prompts of ten lengths, log-normal between
the mean and the 95th percentile; requests beyond the batch or the KV memory wait for others to end. Prompts that come
together between two looks are not seen: on the three hours of `bench.scaling` its mean TTFT was 11 to 25 % low, which
is far below the SLO, and its mean TPOT within 2 %, or 19 % low where answers have 28 tokens. Percentiles are of values,
where the picker's histograms have buckets. For a split the guide only says who would go by what, as it is done here:
prefill by TTFT, decode by TPOT. A pool of which nothing was ever observed keeps its count, where the guide's goes to
its minimum.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from itertools import chain
from statistics import NormalDist
from typing import TYPE_CHECKING

from weft.domain.workload import Role
from weft.twin.policies.engine_load import Correction, EngineLoad, EngineModel
from weft.twin.policies.forward_pass import ForwardPass, Requests
from weft.twin.policies.horizontal import SYNC_SECONDS, TOLERANCE, Behavior, Controller, Pace, wanted_by_total
from weft.twin.policies.signals import arrival_rate, first_known, pods, strictest
from weft.twin.policies.windows import Recent, replicas_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from weft.twin.policies.policy import PoolView

GUIDE = Behavior(up=Pace(30.0, 60.0, pods=4, percent=100.0), down=Pace(180.0, 120.0, pods=1))
# One pod in 120 s is an eighth of the largest pool that the guide was measured with: about the same of a larger one.
BY_SIZE = Behavior(up=GUIDE.up, down=Pace(180.0, 120.0, pods=1, percent=12.0))
_RATE_SECONDS, _SMOOTHING_SECONDS = 60.0, 45.0
_LOOKS = round(_RATE_SECONDS / SYNC_SECONDS)
_NORMAL, _LENGTHS = NormalDist(), 10
_DEVIATES = tuple(_NORMAL.inv_cdf((place + 0.5) / _LENGTHS) for place in range(_LENGTHS))
_LONG = _NORMAL.inv_cdf(0.95)


@dataclass(frozen=True, slots=True)
class KedaOptions:
    """Parts of the SLO above which to grow and below which to shrink, then settings of the guide.

    `quantile` of the predicted latencies is held against the SLO; `clamp` is the most that one sample may say.
    """

    grow_at: float = 0.55
    shrink_at: float = 0.40
    behavior: Behavior = GUIDE
    quantile: float = 0.9
    clamp: float = 2.0
    tolerance: float = TOLERANCE

    def policy(self) -> Keda:
        """A controller that remembers nothing yet."""
        return Keda(self)


class _Predictor:
    """What the picker's histograms hold: latencies predicted in the last minute, in seconds."""

    def __init__(self, quantile: float) -> None:
        self._quantile = quantile
        self._correction = Correction()
        self._ttft: deque[list[float]] = deque(maxlen=_LOOKS)
        self._tpot: deque[list[float]] = deque(maxlen=_LOOKS)

    def look(self, view: PoolView, loads: Sequence[EngineLoad]) -> tuple[float, float]:
        """The percentiles of TTFT and of TPOT, of what requests meet now and of what was predicted before."""
        requests = _requests(view)
        self._correction.look(view, requests)
        model = EngineModel(ForwardPass(view.speed, self._correction.factor), requests, view.role)
        prompts = tuple(requests.computed * times for times in _times_mean(view))
        self._ttft.append([seconds for load in loads for seconds in _first_tokens(model, load, prompts)])
        self._tpot.append([_token(model, load) for load in loads])
        return self._percentile(self._ttft), self._percentile(self._tpot)

    def _percentile(self, looks: deque[list[float]]) -> float:
        values = sorted(chain.from_iterable(looks))
        return values[math.ceil(self._quantile * len(values)) - 1]


def _first_tokens(model: EngineModel, load: EngineLoad, prompts: Sequence[float]) -> Iterator[float]:
    """TTFT of prompts of these lengths: until there is room for them, and until they are computed after the queue."""
    speed, requests = model.passes.speed, model.requests
    room = max(1.0, min(speed.max_batch, speed.kv_tokens / (requests.prompt + requests.answer / 2.0)))
    beyond = 0.0 if model.role is Role.Prefill else max(0.0, load.sequences + load.queue + 1.0 - room)
    wait = beyond * requests.answer * model.itl(load) / room if beyond else 0.0
    return (speed.request_seconds + wait + model.ttft(load, prompt) for prompt in prompts)


def _token(model: EngineModel, load: EngineLoad) -> float:
    """TPOT of one request more: it decodes beside all others, whose successors bring prompts; its own came before."""
    others, kv_tokens = load.sequences + load.queue, load.kv_tokens + load.queue * model.requests.prompt
    together = min(others + 1.0, float(model.passes.speed.max_batch))
    decoding = model.passes.decode(together, kv_tokens + model.requests.context)
    if model.role is not Role.Aggregated:
        return decoding
    others = min(others, together)
    return decoding + model.passes.mean_pass(model.requests, others, kv_tokens) - model.passes.decode(others, kv_tokens)


def _requests(view: PoolView) -> Requests:
    """The mean request of the last minute; what was declared where nothing was seen."""
    seen, declared = view.observation, view.workload
    prompt, answer, hit = (
        (None, None, None) if seen is None else (seen.input_tokens, seen.output_tokens, seen.prefix_hit)
    )
    return Requests.of(
        first_known(prompt, declared.input_tokens),
        first_known(answer, declared.output_tokens),
        declared.prefix_hit if hit is None else hit,
    )


def _times_mean(view: PoolView) -> Iterator[float]:
    """Ten equally likely lengths of prompts over the mean one."""
    seen, declared = view.observation, view.workload
    mean, longest = (None, None) if seen is None else (seen.input_tokens, seen.input_tokens_p95)
    if mean is None or longest is None:
        mean, longest = declared.input_tokens, declared.input_tokens_p95
    spread = _spread(longest / mean)
    return (math.exp(spread * deviate - spread**2 / 2.0) for deviate in _DEVIATES)


def _spread(ratio: float) -> float:
    """Of logarithms, where the 95th percentile is so many times the mean; the largest where none is as long."""
    return _LONG - math.sqrt(max(0.0, _LONG**2 - 2.0 * math.log(max(1.0, ratio))))


class _Scaled:
    """One pool: the recording rules, KEDA's formula and the HPA that KEDA makes."""

    def __init__(self, options: KedaOptions) -> None:
        self._options = options
        self._predictor = _Predictor(options.quantile)
        self._samples = Recent(_SMOOTHING_SECONDS)
        self._controller = Controller(options.behavior)

    def count(self, now: float, view: PoolView) -> int | None:
        """The count that the HPA asks for; None where nothing was observed."""
        loads = [load for pod in pods(view) if (load := EngineLoad.of(view, pod)) is not None]
        if view.observation is None or not loads:
            return None
        predicted = self._predictor.look(view, loads)
        saturation = 0.0 if arrival_rate(view.observation) == 0.0 else _saturation(view, *predicted)
        self._samples.add(now, min(saturation, self._options.clamp))
        wanted = self._wanted(view, self._samples.mean)
        return self._controller.count(now, view, wanted_by_total(view, wanted, 1.0, self._options.tolerance))

    def _wanted(self, view: PoolView, saturation: float) -> int:
        options = self._options
        if saturation > options.grow_at:
            credit = view.ready / view.count if 0 < view.ready < view.count else 1.0
            return replicas_for(view.count * saturation * credit, options.grow_at)
        if saturation < options.shrink_at:
            return replicas_for(view.count * saturation, options.shrink_at)
        return view.count


def _saturation(view: PoolView, ttft: float, tpot: float) -> float:
    """The larger part of an SLO that a pool's role is about, of those that are set; 0 without any."""
    first, token = strictest(view.slo.ttft), strictest(view.slo.tpot)
    parts = (
        0.0 if first is None or view.role is Role.Decode else ttft / first,
        0.0 if token is None or view.role is Role.Prefill else tpot / token,
    )
    return max(parts)


class Keda:
    """One ScaledObject for each pool."""

    name = "keda-slo"
    every_seconds = SYNC_SECONDS

    def __init__(self, options: KedaOptions) -> None:
        """Nothing is remembered yet."""
        self.options = options
        self._pools: dict[str, _Scaled] = {}

    def counts(self, now: float, pools: tuple[PoolView, ...]) -> Mapping[str, int]:
        answers = {view.name: self._of(view).count(now, view) for view in pools}
        return {name: count for name, count in answers.items() if count is not None}

    def _of(self, view: PoolView) -> _Scaled:
        return self._pools.setdefault(view.name, _Scaled(self.options))
