"""The fraction of requests within the SLO, read from latency histograms rather than percentiles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.snapshot import Buckets, PoolObservation
    from weft.domain.workload import Slo


def attainment(slo: Slo, observation: PoolObservation) -> float | None:
    """Fraction of requests within the highest percentile's latency target; the smaller of those for TTFT and TPOT.

    None where no latency with a target was measured, or the buckets are too coarse around the target.
    """
    kinds = ((slo.ttft, observation.ttft_buckets), (slo.tpot, observation.tpot_buckets))
    shares = [
        share_within(buckets, targets[-1][1])
        for targets, buckets in kinds
        if buckets and targets and is_resolved(buckets, targets[-1][1])
    ]
    return min((share for share in shares if share is not None), default=None)


def is_resolved(buckets: Buckets, seconds: float) -> bool:
    """Whether the buckets resolve a target: not if it is inside the first bucket, and that holds any observation."""
    first = next(((bound, count) for bound, count in sorted(buckets) if bound > 0), (0.0, 0.0))
    return seconds >= first[0] or first[1] <= 0


def share_within(buckets: Buckets, seconds: float) -> float | None:
    """Fraction of the counted observations of at most `seconds`; linear inside a bucket, as quantiles are.

    What lies above the highest finite bound counts as too slow.
    """
    ordered = [(bound, count) for bound, count in sorted(buckets) if bound > 0 and math.isfinite(count)]
    total = max((count for _, count in ordered), default=0.0)
    if total <= 0:
        return None
    lower, below = 0.0, 0.0
    for upper, count in ordered:
        reached = max(below, count)
        if upper >= seconds:
            part = 0.0 if math.isinf(upper) else (seconds - lower) / (upper - lower)
            return (below + (reached - below) * part) / total
        lower, below = upper, reached
    return below / total
