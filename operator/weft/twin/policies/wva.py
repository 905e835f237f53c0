"""The workload variant autoscaler of llm-d with its token analyzer (V2), acting through an HPA as in production.

Source: llm-d/llm-d-workload-variant-autoscaler, v0.9.0 (aadaa596, August 2026), where V2 is the default: the analyzer
`saturation_v2`, the engine's threshold step, the cost-aware optimizer with one variant a role, and the queries of
`collector/registration/saturation.go`. The HPA is that of its samples, or that of llm-d's guide for it (739e6a61).

Rule, every 15 s, of what each replica had at most in the last minute: its demand is its KV tokens in use plus its queue
times the mean prompt and answer (in a prefill pool the prompt alone). Both peaks are added whether or not they came
together. Its capacity is the lesser of 80 % of its KV tokens and a compute bound: the tokens in use when its queue is 5
or longer, else the mean of the last 10 such moments with answers of like length (below 100 tokens, below 500, longer),
else the batch that the engine's settings allow, N = min(B O / (I + O), S) at I + O / 2 tokens each (B batched tokens,
S sequences, I and O tokens of prompt and answer). A pool's capacity is that of the median replica times those that
answer.

    required = demand / 0.85 - capacity with those that start      -> add ceil(required / one replica)
    spare    = capacity - demand / 0.70                            -> remove floor(spare / one replica)

The halves of a split are roles of one model: while one of them requires, neither is shrunk. The sum goes into a gauge
that an HPA reads every 15 s as an external metric with an average target of 1, tolerance and all: with 10 % of
tolerance a pool of 20 does not follow a wish for 21 or 22. The samples' HPA waits for nothing and moves 10 pods in
15 s; the guide's waits 120 s in both directions and then doubles or empties at once. Where no replica answers the gauge
stays.

What is kinder here: the gauge is read as it is set; means of tokens fall back to the pool's and to what was declared;
each pool learns its compute bound alone, which halves on like GPUs share; and a half that is at its most does not keep
the other from growing, as the optimizer's joint step does. The router holds no queue of its own, so that none counts.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from dataclasses import dataclass
from itertools import zip_longest
from statistics import fmean, median
from typing import TYPE_CHECKING

from weft.domain.workload import Role
from weft.scaling import is_sane
from weft.twin.policies.horizontal import SYNC_SECONDS, TOLERANCE, Behavior, Controller, Pace, wanted_by_total
from weft.twin.policies.signals import Signal, first_known, pods
from weft.twin.policies.windows import Recent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weft.domain.snapshot import PodObservation
    from weft.twin.policies.policy import PoolView

GUIDE = Behavior(up=Pace(120.0, percent=100.0), down=Pace(120.0, percent=100.0))
SAMPLE = Behavior(up=Pace(0.0, pods=10), down=Pace(0.0, pods=10))  # config/samples/hpa of the project
PEAK_SECONDS = 60.0
_ANSWERS = (100.0, 500.0)  # tokens: bounds of short and of medium answers
_REMEMBERED = 10


@dataclass(frozen=True, slots=True)
class WvaOptions:
    """Parts of the capacity at which to grow and to shrink, then settings of the analyzer and of the HPA."""

    grow_at: float = 0.85
    shrink_at: float = 0.70
    kv_share: float = 0.80
    long_queue: float = 5.0
    behavior: Behavior = SAMPLE
    tolerance: float = TOLERANCE

    def policy(self) -> Wva:
        """A controller that remembers nothing yet."""
        return Wva(self)


class _Peaks:
    """The most that each replica had of a gauge in the last minute."""

    def __init__(self) -> None:
        self._seen: defaultdict[tuple[str, Signal], Recent] = defaultdict(lambda: Recent(PEAK_SECONDS))

    def most(self, now: float, pod: PodObservation, signal: Signal) -> float | None:
        """None for a replica that did not tell."""
        recent, value = self._seen[pod.pod, signal], signal.of(pod)
        recent.forget(now)
        if is_sane(value):
            recent.add(now, value)
        return max(recent, default=None)


@dataclass(frozen=True, slots=True)
class _Load:
    """One replica: tokens in use, its queue in requests, tokens of a prompt and an answer, and what a request holds."""

    in_use: float
    queue: float
    prompt: float
    answer: float
    held: float

    @classmethod
    def of(cls, view: PoolView, pod: PodObservation, kv_use: float | None, queue: float | None) -> _Load | None:
        """None for a pod that does not tell how full its cache is, or how long its queue."""
        if kv_use is None or queue is None or view.observation is None:
            return None
        pool, declared = view.observation, view.workload
        prompt = first_known(pod.input_tokens, pool.input_tokens, declared.input_tokens)
        answer = first_known(pod.output_tokens, pool.output_tokens, declared.output_tokens)
        held = prompt if view.role is Role.Prefill else prompt + answer
        return cls(kv_use * view.speed.kv_tokens, queue, prompt, answer, held)

    @property
    def demand(self) -> float:
        return self.in_use + self.queue * self.held


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


@dataclass(frozen=True, slots=True)
class _Wish:
    """Replicas that are required, and replicas that are spare."""

    required: int
    spare: int


class _Variant:
    """One pool: its analyzer, the gauge and the HPA."""

    def __init__(self, options: WvaOptions) -> None:
        self._options = options
        self._peaks = _Peaks()
        self._analyzer = _Analyzer(options)
        self._controller = Controller(options.behavior)
        self._gauge: int | None = None

    def wish(self, now: float, view: PoolView) -> _Wish | None:
        """What is required and what is spare; None where no replica answers."""
        loads = list(self._loads(now, view))
        if not loads:
            return None
        each = median([self._analyzer.capacity(view, load) for load in loads])
        if each <= 0:
            return _Wish(0, 0)
        demand = sum(load.demand for load in loads)
        required = demand / self._options.grow_at - each * (len(loads) + view.starting)
        spare = each * len(loads) - demand / self._options.shrink_at
        return _Wish(math.ceil(max(0.0, required) / each), math.floor(max(0.0, spare) / each))

    def count(self, now: float, view: PoolView, change: int | None) -> int | None:
        """The count that the HPA asks for after so many more or fewer were wished for; None before there is a gauge."""
        if change is not None:
            self._gauge = view.clamp(view.count + change)
        if self._gauge is None:
            return None
        return self._controller.count(now, view, wanted_by_total(view, self._gauge, 1.0, self._options.tolerance))

    def _loads(self, now: float, view: PoolView) -> Iterator[_Load]:
        for pod in pods(view):
            kv_use, queue = (self._peaks.most(now, pod, signal) for signal in (Signal.KvUse, Signal.Waiting))
            load = _Load.of(view, pod, kv_use, queue)
            if load is not None:
                yield load


def _changes(wishes: list[_Wish | None]) -> list[int | None]:
    """Replicas that are added to or taken from pools of one model: none is taken while any pool requires more."""
    grows = any(wish is not None and wish.required for wish in wishes)
    return [None if wish is None else wish.required if grows else -wish.spare for wish in wishes]


class Wva:
    """One variant for each pool."""

    name = "wva"
    every_seconds = SYNC_SECONDS

    def __init__(self, options: WvaOptions) -> None:
        """Nothing is remembered yet."""
        self.options = options
        self._variants: dict[str, _Variant] = {}

    def counts(self, now: float, pools: tuple[PoolView, ...]) -> Mapping[str, int]:
        found = {}
        for model in _models(pools):
            wishes = [self._of(view).wish(now, view) for view in model]
            for view, change in zip(model, _changes(wishes), strict=True):
                count = self._of(view).count(now, view, change)
                if count is not None:
                    found[view.name] = count
        return found

    def _of(self, view: PoolView) -> _Variant:
        return self._variants.setdefault(view.name, _Variant(self.options))


def _models(pools: tuple[PoolView, ...]) -> Iterator[tuple[PoolView, ...]]:
    """The pools of each model: the halves of a split in the order of both, every other pool alone."""
    prefill, decode = ([view for view in pools if view.role is role] for role in (Role.Prefill, Role.Decode))
    for halves in zip_longest(prefill, decode):
        yield tuple(half for half in halves if half is not None)
    yield from ((view,) for view in pools if view.role is Role.Aggregated)
