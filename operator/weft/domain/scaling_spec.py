"""Who owns the count of replicas, and the bounds in which Weft may choose it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from weft.domain.made_often import made_often


class ScalingMode(StrEnum):
    """Who owns the replica count."""

    Auto = "Auto"
    External = "External"


# A status must stay far below the 1.5 MiB that etcd takes of an object.
MOST_REPLICAS, MOST_NODES = 1_000, 2_000
_MOST_NEEDED = 1_000_000  # any larger wish is a broken metric; bounds cut it further


def carrying(requests_per_second: float, capacity: float) -> int:
    """The fewest replicas that serve a rate, at least 1; `capacity` is of one, above 0."""
    exact = requests_per_second / capacity
    return max(1, min(_MOST_NEEDED, math.ceil(exact - 1e-9))) if math.isfinite(exact) else _MOST_NEEDED


@made_often
@dataclass(frozen=True, slots=True)
class ScalingSpec:
    """Bounds of the replica count. `replicas` is set in External mode only; times in seconds, the freeze since 1970.

    `risk` is the part of requests that may come while demand exceeds what its forecasts buy.
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

    def affordable(self, gpus: int, pods: int) -> int:
        """How many replicas of so many GPUs and pods `maxReplicas`, `maxGPUs` and what a status can hold allow."""
        budget = MOST_REPLICAS if self.max_gpus is None else self.max_gpus // max(1, gpus)
        return min(self.max_replicas, budget, MOST_REPLICAS, MOST_NODES // max(1, pods))

    def needed(self, requests_per_second: float, capacity: float) -> int:
        """Replicas for a rate: ceil(rate x (1 + headroom) / capacity of one, which is above 0), at least 1."""
        return carrying(self.with_headroom(requests_per_second), capacity)

    def with_headroom(self, requests_per_second: float) -> float:
        """A rate with the part above it that the user wants to be spare."""
        return requests_per_second * (1.0 + max(0.0, self.headroom))

    def running(self, requests_per_second: float, capacity: float, gpus: int, pods: int) -> int:
        """Replicas that a rate leaves running: those that it needs, within the bounds, and one where none is allowed.

        What is paid for, and so what shapes and forms are compared by.
        """
        wanted = max(self.min_replicas, self.needed(requests_per_second, capacity) if capacity > 0 else 1)
        return max(1, min(wanted, self.affordable(gpus, pods)))
