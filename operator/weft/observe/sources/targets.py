"""Which pods are asked for metrics."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from weft.domain.crews import routers_before
from weft.engines import FRONTS, release_in, series_in_image
from weft.observe.samples.scrape_target import EngineTarget, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from weft.domain.cluster import PodRecord
    from weft.domain.shape import EngineRelease
    from weft.domain.snapshot import PoolRecord
    from weft.engines import EngineSeries


def targets_of(
    pool_uid: str, pods: Iterable[PodRecord], planned: EngineRelease, models: frozenset[str] = frozenset()
) -> tuple[EngineTarget, ...]:
    """Every ready replica of a pool, also one that drains, by its first pod with all pages of the replica.

    Each is read as the release that its pod runs, also during a rollout; `models` are the names that the pool serves.
    Raises `Invalid` for a planned version without numbers.
    """
    named = cache(series_in_image)  # for this call: few releases, of maybe a thousand pods
    named(planned)

    def series(pod: PodRecord) -> EngineSeries:
        return named(release_in(pod, planned))

    answering: dict[int, list[PodRecord]] = {}
    for pod in pods:
        if pod.identity is not None and pod.identity.pool_uid == pool_uid and pod.api_servers:
            answering.setdefault(pod.identity.replica, []).append(pod)
    asked = (_pages(sorted(each, key=lambda pod: pod.rank), series) for each in answering.values())
    named_pages = ((replace(pages[0], models=models), pages[1:]) for pages in asked if pages)
    return tuple(replace(first, pages=others) if others else first for first, others in named_pages)


def _pages(pods: list[PodRecord], series: Callable[[PodRecord], EngineSeries]) -> tuple[EngineTarget, ...]:
    """Each port of each pod, the first of the first pod first; empty unless all of them are ready."""
    if pods[0].rank > 0 or not all(pod.serves and pod.ip is not None for pod in pods):
        return ()
    return tuple(_page(pod, number, series(pod)) for pod in pods for number in range(pod.api_servers))


def _page(pod: PodRecord, number: int, series: EngineSeries) -> EngineTarget:
    uid, port = f"{pod.uid}/{number}" if number else pod.uid, series.port + number
    return EngineTarget(
        uid=uid,
        namespace=pod.namespace,
        pod=pod.name,
        ip=pod.ip or "",
        port=port,
        path=series.path,
        names=series.names,
        startup_seconds=pod.startup_seconds,
        shares_pod=pod.api_servers > 1,
        start=pod.start,
        series=series,
        revision=pod.identity.revision if pod.identity is not None else "",
    )


def fronts_of(pool: PoolRecord, pods: Iterable[PodRecord]) -> tuple[Target, ...]:
    """The ready pods of the router of a pool, or of the split that it belongs to."""
    return tuple(
        Target(pod.uid, pod.namespace, pod.name, pod.ip, FRONTS.port, FRONTS.path, FRONTS.names)
        for pod in routers_before(pool, pods)
        if pod.serves and pod.ip is not None
    )
