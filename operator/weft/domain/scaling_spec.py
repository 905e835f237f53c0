"""Who owns the replica count, and the bounds within which Weft may choose it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from weft.domain.values.made_often import made_often


class ScalingMode(StrEnum):
    """Who owns the replica count."""

    Auto = "Auto"
    External = "External"


# A status must stay far below the 1.5 MiB that etcd takes of an object.
MOST_REPLICAS, MOST_NODES = 1_000, 2_000
_MOST_NEEDED = 1_000_000  # any larger need is a broken metric; bounds cut it further


# How much more one of so many replicas carries behind a front that goes by load than alone: of one, of two, ...; none
# is below the one before, and more replicas than there are entries carry as the last. Empty: no more than alone.
Gains = tuple[float, ...]


def carrying(requests_per_second: float, capacity: float, gains: Gains = ()) -> int:
    """The fewest replicas that serve a rate, at least 1; `capacity` is of one replica, above 0, both in requests/s."""
    exact = requests_per_second / capacity
    for replicas, gain in enumerate(gains, 1):
        if exact <= replicas * gain + 1e-9:
            return replicas
    if gains:
        exact /= gains[-1]
    return max(1, min(_MOST_NEEDED, math.ceil(exact - 1e-9))) if math.isfinite(exact) else _MOST_NEEDED


def of_one(gains: Gains, replicas: int) -> float:
    """How much more one of so many replicas carries than alone."""
    return gains[min(replicas, len(gains)) - 1] if gains and replicas > 0 else 1.0


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

    def affordable(self, gpus: int, pods: int) -> int:
        """The most replicas of so many GPUs and pods that `maxReplicas`, `maxGPUs` and the size of a status allow."""
        budget = MOST_REPLICAS if self.max_gpus is None else self.max_gpus // max(1, gpus)
        return min(self.max_replicas, budget, MOST_REPLICAS, MOST_NODES // max(1, pods))

    def needed(self, requests_per_second: float, capacity: float, gains: Gains = ()) -> int:
        """Replicas for a rate: ceil(rate x (1 + headroom) / capacity of one, which is above 0), at least 1."""
        return carrying(self.with_headroom(requests_per_second), capacity, gains)

    def with_headroom(self, requests_per_second: float) -> float:
        """A rate with the user's headroom added."""
        return requests_per_second * (1.0 + max(0.0, self.headroom))

    def running(self, requests_per_second: float, capacity: float, gpus: int, pods: int, gains: Gains = ()) -> int:
        """Replicas that run at a rate: those needed, within the bounds, and at least one.

        This is what is paid for, and so what shapes and forms are compared by.
        """
        wanted = max(self.min_replicas, self.needed(requests_per_second, capacity, gains) if capacity > 0 else 1)
        return max(1, min(wanted, self.affordable(gpus, pods)))
