"""Which pods are asked for metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engines import FRONTS
from weft.observe.history import Target

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.cluster import PodRecord
    from weft.domain.snapshot import PoolRecord
    from weft.engines import EngineSeries


def targets_of(pool_uid: str, pods: Iterable[PodRecord], series: EngineSeries) -> tuple[Target, ...]:
    """The first pod of every ready replica of a pool that still gets requests and has an address."""
    return tuple(
        Target(pod.uid, pod.namespace, pod.name, pod.ip, series.port, series.path, series.names, pod.startup_seconds)
        for pod in pods
        if pod.identity is not None
        and pod.identity.pool_uid == pool_uid
        and pod.identity.rank == 0
        and pod.ready
        and not pod.terminating
        and pod.ip is not None
    )


def fronts_of(pool: PoolRecord, pods: Iterable[PodRecord]) -> tuple[Target, ...]:
    """The ready pods of the router before a pool, or before the split that it belongs to."""
    owners = {pool.key.uid, pool.split_uid} - {None}
    return tuple(
        Target(pod.uid, pod.namespace, pod.name, pod.ip, FRONTS.port, FRONTS.path, FRONTS.names)
        for pod in pods
        if pod.front_of in owners
        and pod.namespace == pool.key.namespace
        and pod.ready
        and not pod.terminating
        and pod.ip is not None
    )
