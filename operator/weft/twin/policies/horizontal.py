"""Kubernetes' horizontal pod autoscaler, version 2, as a controller of one pool: from metrics to a count.

Source: Kubernetes, `pkg/controller/podautoscaler` (`replica_calculator.go`, `horizontal.go`) and the defaults of
`pkg/apis/autoscaling/v2`, compared at v1.34.0 and v1.37.2, which do not differ in this.

Rule: a look every 15 s with a tolerance of 10 %. A metric of pods wants `ceil(pods x mean / target)`. Pods without the
metric count as idle where it would grow, and as exactly on target where it would shrink; if that turns the direction,
nothing changes. An engine that loads its weights is such a pod: its container runs and nothing answers yet. (Kubernetes
leaves pods out of shrinking that are Pending, which here is only as long as an image is pulled, and looks at readiness
for CPU alone.) An external metric wants `ceil(total / target)`, whatever is ready.

What is wanted is then stabilised: it does not grow beyond the least that was wanted in the window for growing, nor
shrink below the most that was wanted in the window for shrinking. Last come limits of so many pods or percent a period,
counted from what the pool had at the beginning of the period by all changes in it, both up and down.

Two things are kinder here. Kubernetes cuts means to whole thousandths, which a target of 0.02 would feel, and an HPA
without any `behavior` grows by the larger of twice and 4 pods, not by 4 more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.twin.policies.windows import Recent, replicas_for

if TYPE_CHECKING:
    from weft.twin.policies.policy import PoolView

SYNC_SECONDS = 15.0
TOLERANCE = 0.1
_PERCENT = 100.0


@dataclass(frozen=True, slots=True)
class Pace:
    """One direction: the window of stabilisation, and what may change in a period, by the larger of two limits."""

    window_seconds: float
    period_seconds: float = SYNC_SECONDS
    pods: int = 0
    percent: float = 0.0

    def more(self, count: int) -> int:
        """The most that a period may end with."""
        return max(count + self.pods, math.ceil(count * (1.0 + self.percent / _PERCENT)))

    def fewer(self, count: int) -> int:
        """The fewest that a period may end with."""
        return min(count - self.pods, int(count * (1.0 - self.percent / _PERCENT)))


@dataclass(frozen=True, slots=True)
class Behavior:
    """As `spec.behavior` has it; these are the defaults: up by 4 pods or 100 % at once, down after 300 s."""

    up: Pace = Pace(window_seconds=0.0, pods=4, percent=100.0)
    down: Pace = Pace(window_seconds=300.0, percent=100.0)


DEFAULT_BEHAVIOR = Behavior()


def wanted_by_pods(
    view: PoolView, values: tuple[float, ...], target: float, tolerance: float = TOLERANCE
) -> int | None:
    """Replicas that one metric of pods wants, unbounded; None where no pod has it."""
    if not values:
        return None
    silent = max(0, view.ready + view.starting - len(values))
    ratio = sum(values) / len(values) / target
    if not silent:
        return view.count if _near(ratio, tolerance) else replicas_for(ratio * len(values), 1.0)
    grows = ratio > 1.0
    assumed = len(values) + silent
    careful = (sum(values) + (0.0 if grows else silent * target)) / assumed / target
    if _near(careful, tolerance) or (careful > 1.0) is not grows:
        return view.count
    wanted = replicas_for(careful * assumed, 1.0)
    return view.count if (wanted < view.count) is grows else wanted


def wanted_by_total(view: PoolView, total: float, target: float, tolerance: float = TOLERANCE) -> int:
    """Replicas that an external metric with an average target wants, unbounded."""
    if view.count and _near(total / (target * view.count), tolerance):
        return view.count
    return replicas_for(total, target)


def _near(ratio: float, tolerance: float) -> bool:
    """Whether a ratio is 1 within the tolerance, both ends included."""
    return 1.0 - tolerance <= ratio <= 1.0 + tolerance


class Controller:
    """One horizontal pod autoscaler: stabilisation and limits of one pool, with what they remember."""

    def __init__(self, behavior: Behavior) -> None:
        """Nothing was wanted yet."""
        self._behavior = behavior
        self._wanted_up, self._wanted_down = Recent(behavior.up.window_seconds), Recent(behavior.down.window_seconds)
        self._moved_up, self._moved_down = Recent(behavior.up.period_seconds), Recent(behavior.down.period_seconds)
        self._started = False

    def count(self, now: float, view: PoolView, wanted: int) -> int:
        """The count to ask for."""
        if not self._started:  # the count that it finds is its first recommendation
            self._remember(now, view.count)
            self._started = True
        stable = self._stabilized(now, view.count, wanted)
        self._remember(now, wanted)
        count = view.clamp(self._limited(now, view.count, stable))
        if count != view.count:
            self._moved_up.add(now, count - view.count)
            self._moved_down.add(now, count - view.count)
        return count

    def _remember(self, now: float, wanted: int) -> None:
        self._wanted_up.add(now, wanted)
        self._wanted_down.add(now, wanted)

    def _stabilized(self, now: float, current: int, wanted: int) -> int:
        self._wanted_up.forget(now)
        self._wanted_down.forget(now)
        low, high = int(min(self._wanted_up, default=wanted)), int(max(self._wanted_down, default=wanted))
        return min(max(current, min(low, wanted)), max(high, wanted))

    def _limited(self, now: float, current: int, wanted: int) -> int:
        if wanted > current:
            return min(wanted, max(current, self._behavior.up.more(_before(now, current, self._moved_up))))
        return max(wanted, min(current, self._behavior.down.fewer(_before(now, current, self._moved_down))))


def _before(now: float, current: int, moved: Recent) -> int:
    """The count before all changes of the period, both up and down."""
    moved.forget(now)
    return current - int(sum(moved))
