"""The workload variant autoscaler of llm-d with its token analyzer (V2), acting through an HPA as in production.

Source: llm-d/llm-d-workload-variant-autoscaler, v0.5.1 (February 2026): `saturation_v2`, the cost-aware optimizer with
one variant, and the HPA of its chart.

Rule, every 30 s: the demand of a replica is its KV tokens in use plus its queue times the mean prompt. Its capacity is
the lesser of 80 % of its KV tokens and a compute bound: the tokens in use when its queue is 5 or longer, else the mean
of the last 10 such moments with answers of like length (below 100 tokens, below 500, longer), else the batch that the
engine's settings allow, N = min(B O / (I + O), S) at I + O / 2 tokens each (B batched tokens, S sequences, I and O
tokens of prompt and answer). The pool's capacity is that of the median replica times the replicas that serve.

    required = demand / 0.85 - capacity with those that start      -> add ceil(required / one replica)
    spare    = capacity - demand / 0.70                            -> remove floor(spare / one replica)

The sum goes into a gauge that an HPA reads every 15 s as an external metric with an average target of 1, tolerance and
all: with 10 % of tolerance a pool of 20 does not follow a wish for 21 or 22. The chart's HPA waits 240 s in both
directions and moves at most 10 pods in 150 s. Pools of a split are variants that know nothing of each other. Replicas
that do not answer have capacity and no demand; where none answers the gauge stays.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from weft.scaling import is_sane
from weft.twin.policies.horizontal import SYNC_SECONDS, TOLERANCE, Behavior, Controller, Pace, wanted_by_total
from weft.twin.policies.signals import first_known, pods, waiting
from weft.twin.policies.windows import Timer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.domain.snapshot import PodObservation
    from weft.twin.policies.policy import PoolView

ANALYSIS_SECONDS = 30.0
CHART = Behavior(up=Pace(240.0, 150.0, pods=10), down=Pace(240.0, 150.0, pods=10))
SAMPLE = Behavior(up=Pace(0.0, 15.0, pods=10), down=Pace(0.0, 15.0, pods=10))  # config/samples of the project
_ANSWERS = (100.0, 500.0)  # tokens: bounds of short and of medium answers
_REMEMBERED = 10


@dataclass(frozen=True, slots=True)
class WvaOptions:
    """Parts of the capacity at which to grow and to shrink, then settings of the analyzer and of the HPA."""

    grow_at: float = 0.85
    shrink_at: float = 0.70
    kv_share: float = 0.80
    long_queue: float = 5.0
    behavior: Behavior = CHART
    tolerance: float = TOLERANCE

    def policy(self) -> Wva:
        """A controller that remembers nothing yet."""
        return Wva(self)


@dataclass(frozen=True, slots=True)
class _Load:
    """One replica: tokens in use and in its queue, and tokens of a prompt and an answer."""

    in_use: float
    queue: float
    prompt: float
    answer: float

    @classmethod
    def of(cls, view: PoolView, pod: PodObservation) -> _Load | None:
        """None for a pod that does not tell how full its cache is."""
        queue = waiting(pod)
        if not is_sane(pod.kv_usage) or queue is None or view.observation is None:
            return None
        pool, declared = view.observation, view.workload
        return cls(
            pod.kv_usage * view.speed.kv_tokens,
            queue,
            first_known(pod.input_tokens, pool.input_tokens, declared.input_tokens),
            first_known(pod.output_tokens, pool.output_tokens, declared.output_tokens),
        )

    @property
    def demand(self) -> float:
        return self.in_use + self.queue * self.prompt


class _Analyzer:
    """What one replica can hold, learned from those with a queue."""

    def __init__(self, options: WvaOptions) -> None:
        self._options = options
        self._seen: dict[int, deque[float]] = {}

    def capacity(self, view: PoolView, load: _Load) -> float:
        """Tokens that one replica holds."""
        return min(self._options.kv_share * view.speed.kv_tokens, self._compute_bound(view, load))

    def _compute_bound(self, view: PoolView, load: _Load) -> float:
        kind = sum(load.answer >= bound for bound in _ANSWERS)
        if load.queue >= self._options.long_queue and load.in_use > 0:
            self._seen.setdefault(kind, deque(maxlen=_REMEMBERED)).append(load.in_use)
            return load.in_use
        if kind in self._seen:
            return fmean(self._seen[kind])
        tokens = view.speed.batched_tokens * load.answer / (load.prompt + load.answer)
        return min(tokens, view.speed.max_batch) * (load.prompt + load.answer / 2.0)


class _Variant:
    """One pool: its analyzer, the gauge and the HPA."""

    def __init__(self, options: WvaOptions) -> None:
        self._options = options
        self._analyzer = _Analyzer(options)
        self._controller = Controller(options.behavior)
        self._timer = Timer(ANALYSIS_SECONDS)
        self._gauge: int | None = None

    def count(self, now: float, view: PoolView) -> int | None:
        """The count that the HPA asks for; None before there is a gauge."""
        loads = [load for pod in pods(view) if (load := _Load.of(view, pod)) is not None]
        if loads and self._timer.due(now):
            self._gauge = self._wish(view, loads)
        if self._gauge is None:
            return None
        return self._controller.count(now, view, wanted_by_total(view, self._gauge, 1.0, self._options.tolerance))

    def _wish(self, view: PoolView, loads: list[_Load]) -> int:
        each = median([self._analyzer.capacity(view, load) for load in loads])
        demand = sum(load.demand for load in loads)
        if each <= 0:
            return view.count
        required = demand / self._options.grow_at - each * (view.ready + view.starting)
        spare = each * view.ready - demand / self._options.shrink_at
        if required > 0:
            return view.clamp(view.count + math.ceil(required / each))
        return view.clamp(view.count - math.floor(max(0.0, spare) / each))


class Wva:
    """One variant for each pool."""

    name = "wva"
    every_seconds = SYNC_SECONDS

    def __init__(self, options: WvaOptions) -> None:
        """Nothing is remembered yet."""
        self.options = options
        self._variants: dict[str, _Variant] = {}

    def counts(self, now: float, pools: tuple[PoolView, ...]) -> Mapping[str, int]:
        answers = {view.name: self._of(view).count(now, view) for view in pools}
        return {name: count for name, count in answers.items() if count is not None}

    def _of(self, view: PoolView) -> _Variant:
        return self._variants.setdefault(view.name, _Variant(self.options))
