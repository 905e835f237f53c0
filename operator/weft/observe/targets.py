"""Which pods are asked for metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.observe.history import Target

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.cluster import PodRecord

METRICS_PORT = 8000
METRICS_PATH = "/metrics"


def targets_of(pool_uid: str, pods: Iterable[PodRecord], names: tuple[str, ...]) -> tuple[Target, ...]:
    """The first pod of every ready replica of a pool that still gets requests and has an address."""
    return tuple(
        Target(pod.uid, pod.namespace, pod.name, pod.ip, METRICS_PORT, METRICS_PATH, names)
        for pod in pods
        if pod.identity is not None
        and pod.identity.pool_uid == pool_uid
        and pod.identity.rank == 0
        and pod.ready
        and not pod.terminating
        and pod.ip is not None
    )
