"""Who owns the replica count, and the bounds within which Weft may choose it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from weft.domain.values.made_often import made_often

if TYPE_CHECKING:
    from weft.domain.capacity import Capacity


class ScalingMode(StrEnum):
    """Who owns the replica count."""

    Auto = "Auto"
    External = "External"


# A status must stay far below the 1.5 MiB that etcd takes of an object.
MOST_REPLICAS, MOST_NODES = 1_000, 2_000


@made_often
@dataclass(frozen=True, slots=True)
class ScalingSpec:
    """Bounds of the replica count. `replicas` is set in External mode only; times in seconds, the freeze since 1970.

    `risk` is the fraction of requests that may arrive while demand exceeds what its forecasts provide for.
    """

    mode: ScalingMode = ScalingMode.Auto
    replicas: int | None = None
    min_replicas: int = 1
    max_replicas: int = 10
    max_gpus: int | None = None
    max_step: int | None = None
    freeze_until: float | None = None
    scale_down_delay_seconds: float = 300.0
    headroom: float = 0.1
    risk: float = 0.1

    def frozen_until(self, now: float) -> float | None:
        """Until when `freezeUntil` holds the pool, in epoch seconds as `now`; None where it does not, or no more."""
        return self.freeze_until if self.freeze_until is not None and self.freeze_until > now else None

    def affordable(self, gpus: int, pods: int) -> int:
        """The most replicas of so many GPUs and pods that `maxReplicas`, `maxGPUs` and the size of a status allow."""
        budget = MOST_REPLICAS if self.max_gpus is None else self.max_gpus // max(1, gpus)
        return min(self.max_replicas, budget, MOST_REPLICAS, MOST_NODES // max(1, pods))

    def needed(self, requests_per_second: float, capacity: Capacity) -> int:
        """Replicas that serve rate x (1 + headroom), at least 1; the capacity is above 0."""
        return capacity.needed(self.with_headroom(requests_per_second))

    def with_headroom(self, requests_per_second: float) -> float:
        """A rate with the user's headroom added."""
        return requests_per_second * (1.0 + max(0.0, self.headroom))

    def running(self, requests_per_second: float, capacity: Capacity, gpus: int, pods: int) -> int:
        """Replicas that run at a rate: those needed, within the bounds, and at least one.

        This is what is paid for, and so what shapes and forms are compared by.
        """
        wanted = max(self.min_replicas, self.needed(requests_per_second, capacity) if capacity.alone > 0 else 1)
        return max(1, min(wanted, self.affordable(gpus, pods)))
