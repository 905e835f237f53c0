"""AIBrix's own autoscaler, APA, with the defects of its code.

Source: vllm-project/aibrix, `pkg/controller/podautoscaler`, tag v0.7.0 (c5465890) and main of 22 August 2026
(e3e10f9e), which do not differ in this: `algorithm/apa.go`, `context/context.go`, `types/metrics.go` for the window and
`stabilizeRecommendation` of `podautoscaler_controller.go`.

Rule: every 10 s the mean of a metric over the pods that answered is recorded; its mean over the last 180 s, in buckets
of a second of which the one that is just so old still counts, over the target, is r. Above 1.1 the pool wants
`ceil(n x r)` but at most twice n; below 0.9 `ceil(n x r)` but at least half of n; else n. Without a metric nothing
happens.

A prefill pool is scaled on requests waiting, as its sample for splits means to: the metrics that the sample names,
`prefill_queue_length` and `decode_batch_utilization`, are exported by nothing.

Defects that are kept, as users get them:
- Inverted stabilisation: to shrink it takes the LEAST wish of the last 300 s, where Kubernetes takes the most. A short
  dip minutes ago is replayed as soon as any later look wishes for less.
- n is what was asked for, with replicas that do not serve yet, and r is slow and of those that serve: while they start
  the pool grows again at each look.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from weft.domain.workload import Role
from weft.twin.policies.signals import Signal
from weft.twin.policies.windows import Recent, replicas_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.twin.policies.policy import PoolView

_BUCKET_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class AibrixOptions:
    """The metric with its target, requests waiting in a prefill replica, then the defaults of the project.

    `window_seconds` is what the metric is averaged over, `rate` the largest factor of one step, `down_seconds` the
    window that the least wish is taken of.
    """

    signal: Signal = Signal.KvUse
    target: float = 0.5
    prefill_waiting: float = 2.0
    window_seconds: float = 180.0
    tolerance: float = 0.1
    rate: float = 2.0
    down_seconds: float = 300.0

    def metric(self, role: Role) -> tuple[Signal, float]:
        """What pools of a role are scaled on, and its target."""
        return (Signal.Waiting, self.prefill_waiting) if role is Role.Prefill else (self.signal, self.target)

    def policy(self) -> Aibrix:
        """A controller that remembers nothing yet."""
        return Aibrix(self)


class _Pool:
    """What is remembered of one pool; it is lost when AIBrix's controller restarts."""

    def __init__(self, options: AibrixOptions) -> None:
        self._options = options
        self._means = Recent(options.window_seconds + _BUCKET_SECONDS)
        self._wishes = Recent(options.down_seconds)

    def count(self, now: float, view: PoolView, values: tuple[float, ...]) -> int:
        """The count to ask for, from the metric of each pod."""
        self._means.add(now, fmean(values))
        wish = self._wish(view)
        self._wishes.add(now, wish)
        return int(min(self._wishes)) if wish < view.count else wish

    def _wish(self, view: PoolView) -> int:
        options = self._options
        ratio = self._means.mean / options.metric(view.role)[1]
        wish = replicas_for(view.count * ratio, 1.0)
        if ratio > 1.0 + options.tolerance:
            return view.clamp(min(wish, math.ceil(view.count * options.rate)))
        if ratio < 1.0 - options.tolerance:
            return view.clamp(max(wish, math.floor(view.count / options.rate)))
        return view.clamp(view.count)


class Aibrix:
    """One autoscaler for each pool."""

    name = "aibrix"
    every_seconds = 10.0

    def __init__(self, options: AibrixOptions) -> None:
        """Nothing is remembered yet."""
        self.options = options
        self._pools: dict[str, _Pool] = {}

    def counts(self, now: float, pools: tuple[PoolView, ...]) -> Mapping[str, int]:
        seen = ((view, self.options.metric(view.role)[0].seen(view)) for view in pools)
        return {view.name: self._of(view).count(now, view, values) for view, values in seen if values}

    def _of(self, view: PoolView) -> _Pool:
        return self._pools.setdefault(view.name, _Pool(self.options))
