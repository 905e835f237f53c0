"""ResourceQuotas of a simulated cluster: what its pods use of them, and which pods they refuse."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from weft.domain.quotas import COUNT_OF_PODS, limited_device
from weft.domain.values.changed import changed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.quotas import QuotaRecord
    from weft.twin.cluster.pods import SimulatedPod


def counted(quotas: Iterable[QuotaRecord], pods: Iterable[SimulatedPod]) -> tuple[QuotaRecord, ...]:
    """Add what these pods use to each quota's `used`, at once: a real controller lags."""
    created = list(pods)
    return tuple(_with(quota, [pod for pod in created if _counts(quota, pod)]) for quota in quotas)


def refuse(quotas: Iterable[QuotaRecord], pods: Iterable[SimulatedPod], asked: SimulatedPod) -> bool:
    """Whether a quota makes the API server refuse another pod beside these."""
    concerned = [quota for quota in quotas if _counts(quota, asked)]
    return any(
        used > hard and _takes(limit, asked)
        for quota in counted(concerned, [*pods, asked])
        for (limit, hard), (_, used) in zip(quota.hard, quota.used, strict=True)
    )


def _counts(quota: QuotaRecord, pod: SimulatedPod) -> bool:
    at_home = pod.record.namespace == quota.namespace and not pod.record.ended
    return at_home and quota.counts(pod.priority_class, sized=pod.sized)


def _with(quota: QuotaRecord, pods: Iterable[SimulatedPod]) -> QuotaRecord:
    used = Counter(dict(quota.used))
    for pod in pods:
        for limit, _ in quota.hard:
            used[limit] += _takes(limit, pod)
    return changed(quota, used=tuple((limit, used[limit]) for limit, _ in quota.hard))


def _takes(limit: str, pod: SimulatedPod) -> int:
    if limit in COUNT_OF_PODS:
        return 1
    return dict(pod.record.requests).get(limited_device(limit) or "", 0)
