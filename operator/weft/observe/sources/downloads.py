"""Progress of init containers that download weights, as they report it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.observe.samples.scrape_target import Target
from weft.observe.sources.direct import DirectSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.domain.cluster import PodRecord
    from weft.observe.samples.history import History

PATH = "/metrics"
HERE, TOTAL = "weft_weights_downloaded_bytes", "weft_weights_total_bytes"  # as weft.pods.download_weights exposes them


class Downloads:
    """Keeps the last report of each. Collected from one event loop; `told_of` may be called from anywhere."""

    def __init__(self) -> None:
        """Nothing is known before the first collection."""
        self._source = DirectSource()
        self._told: Mapping[str, tuple[float, float]] = {}

    async def collect(self, ports: Mapping[str, int], pods: Iterable[PodRecord]) -> None:
        """Ask every pod that downloads; `ports` are the engines' ports by engine name, as in pod labels."""
        histories = await self._source.collect(target for pod in pods if (target := _target(pod, ports)) is not None)
        self._told = {uid: figures for uid, history in histories.items() if (figures := _figures(history)) is not None}

    def told_of(self, pods: Iterable[PodRecord]) -> tuple[PodRecord, ...]:
        """The same pods, with the bytes of those that download."""
        told = self._told
        return tuple(_with(pod, told.get(pod.uid)) for pod in pods)

    async def close(self) -> None:
        """Close the connections."""
        await self._source.close()


def _target(pod: PodRecord, ports: Mapping[str, int]) -> Target | None:
    if pod.download is None or pod.download.done or pod.ip is None or pod.identity is None:
        return None
    port = ports.get(pod.engine)
    place = (pod.uid, pod.namespace, pod.name, pod.ip)
    return Target(*place, port, PATH, (HERE, TOTAL)) if port is not None else None


def _figures(history: History) -> tuple[float, float] | None:
    here, total = history.gauge(HERE), history.gauge(TOTAL)
    return (here[0], total[0]) if here and total else None


def _with(pod: PodRecord, told: tuple[float, float] | None) -> PodRecord:
    if pod.download is None or told is None:
        return pod
    return replace(pod, download=replace(pod.download, here=told[0], total=told[1]))
