"""How many requests are within the SLO: read off the latency histograms, not off percentiles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.snapshot import Buckets, PoolObservation
    from weft.domain.workload import Slo


def attainment(slo: Slo, observation: PoolObservation) -> float | None:
    """Fraction of requests within the target of the highest percentile; of TTFT and TPOT the smaller.

    None where nothing with a target was measured, or no better than in the bucket where the target is.
    """
    kinds = ((slo.ttft, observation.ttft_buckets), (slo.tpot, observation.tpot_buckets))
    shares = [
        share_within(buckets, targets[-1][1])
        for targets, buckets in kinds
        if buckets and targets and is_resolved(buckets, targets[-1][1])
    ]
    return min((share for share in shares if share is not None), default=None)


def is_resolved(buckets: Buckets, seconds: float) -> bool:
    """Whether the buckets tell what is within a target: one inside the first bucket that holds anything does not."""
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
