"""Percentiles from a queueing model on top of the step times.

Requests arrive at random (Poisson) and prompts are served one after another: M/G/1, mean wait rho S (1 + cv^2) / (2 (1
- rho)), which is M/D/1 when all prompts are alike; the tail of the wait is taken as exponential. Percentiles of wait
and of service are added, which errs on the safe side. Lengths are taken as normal around their mean, through their 95th
percentile.
"""

from __future__ import annotations

import math

# Standard normal quantiles of the percentiles that an SLO may name.
_QUANTILES = {50: 0.0, 90: 1.2816, 95: 1.6449, 99: 2.3263}


def quantile(percentile: int) -> float:
    """Standard deviations above the mean at a percentile."""
    return _QUANTILES[percentile]


def length_at(percentile: int, mean: float, p95: float) -> float:
    """A length at a percentile, from its mean and its 95th percentile."""
    return mean + _spread(mean, p95) * quantile(percentile)


def squared_variation(mean: float, p95: float) -> float:
    """Squared coefficient of variation of a length."""
    return (_spread(mean, p95) / mean) ** 2 if mean > 0 else 0.0


def _spread(mean: float, p95: float) -> float:
    return max(0.0, p95 - mean) / quantile(95)


def mean_wait_seconds(utilisation: float, service_seconds: float, squared_cv: float) -> float:
    """Mean wait in front of one server; infinite once it cannot keep up."""
    if utilisation >= 1.0:
        return math.inf
    return utilisation * service_seconds * (1.0 + squared_cv) / (2.0 * (1.0 - utilisation))


def wait_at(percentile: int, utilisation: float, mean_seconds: float) -> float:
    """Wait at a percentile: a request waits at all with probability `utilisation`, and then exponentially long."""
    waiting_longer = 1.0 - percentile / 100.0
    if utilisation <= waiting_longer:
        return 0.0
    return mean_seconds / utilisation * math.log(utilisation / waiting_longer)


def batch_at(percentile: int, mean_batch: float) -> float:
    """Running sequences at a percentile: their number swings like a Poisson variable."""
    return mean_batch + quantile(percentile) * math.sqrt(max(0.0, mean_batch))
