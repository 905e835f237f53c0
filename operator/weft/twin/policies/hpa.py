"""Kubernetes' HPA on what engines export: requests waiting, KV cache in use, or both (the larger answer wins).

Source: Kubernetes, `autoscaling/v2` (v1.34.0 and v1.37.2), on two metrics of pods as users configure them for vLLM:
`num_requests_waiting` with an average of so many a pod, and `kv_cache_usage_perc`. The rule is in `horizontal`. Where
one of several metrics has no value, the pool may grow by the others and never shrinks; where none has, it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.twin.policies.horizontal import (
    DEFAULT_BEHAVIOR,
    SYNC_SECONDS,
    TOLERANCE,
    Behavior,
    Controller,
    wanted_by_pods,
)
from weft.twin.policies.signals import Signal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.twin.policies.policy import PoolView


@dataclass(frozen=True, slots=True)
class HpaOptions:
    """Targets: `queue` requests waiting a pod, `kv` part of the cache in use; None leaves the metric out.

    Raises `ValueError` without any metric.
    """

    queue: float | None = 2.0
    kv: float | None = 0.7
    tolerance: float = TOLERANCE
    behavior: Behavior = DEFAULT_BEHAVIOR

    def __post_init__(self) -> None:
        if not self.targets:
            raise ValueError("an HPA needs a metric")

    @property
    def targets(self) -> tuple[tuple[Signal, float], ...]:
        """Each metric with its target."""
        both = ((Signal.Waiting, self.queue), (Signal.KvUse, self.kv))
        return tuple((signal, target) for signal, target in both if target is not None)

    def policy(self) -> Hpa:
        """A controller that remembers nothing yet."""
        return Hpa(self)


class Hpa:
    """One autoscaler for each pool."""

    every_seconds = SYNC_SECONDS

    def __init__(self, options: HpaOptions) -> None:
        """Nothing is remembered yet."""
        self.options = options
        self._controllers: dict[str, Controller] = {}

    @property
    def name(self) -> str:
        if self.options.kv is None:
            return "hpa-queue"
        return "hpa-kv" if self.options.queue is None else "hpa"

    def counts(self, now: float, pools: tuple[PoolView, ...]) -> Mapping[str, int]:
        found = {}
        for view in pools:
            wanted = self._wanted(view)
            if wanted is not None:
                controller = self._controllers.setdefault(view.name, Controller(self.options.behavior))
                found[view.name] = controller.count(now, view, wanted)
        return found

    def _wanted(self, view: PoolView) -> int | None:
        """The most that any metric wants; None where what is missing forbids an answer."""
        answers = [
            wanted_by_pods(view, signal.seen(view), target, self.options.tolerance)
            for signal, target in self.options.targets
        ]
        known = [answer for answer in answers if answer is not None]
        if not known or (len(known) < len(answers) and max(known) < view.count):
            return None
        return max(known)
