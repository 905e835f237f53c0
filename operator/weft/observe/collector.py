"""The metrics of all pools, collected every few seconds, with their age in between."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from weft.domain.crews import crews_of, of_no_replica
from weft.domain.errors import Invalid
from weft.domain.snapshot import Caveat, PoolObservation
from weft.domain.spec import RouterKind
from weft.observe.samples.history import Origin
from weft.observe.samples.whole_replicas import of_whole_replicas
from weft.observe.signals.observation import observe_pool, words_of
from weft.observe.sources.targets import fronts_of, targets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from weft.domain.cluster import PodRecord
    from weft.domain.crews import Crews
    from weft.domain.snapshot import EngineWord, PoolRecord, ResourceKey
    from weft.observe.samples.history import History
    from weft.observe.samples.scrape_target import EngineTarget, Target
    from weft.observe.sources.source import MetricsSource

    # A pool, its replicas and the routers or pickers that count its requests.
    _Asked = tuple[PoolRecord, tuple[EngineTarget, ...], tuple[Target, ...]]

AT_A_GATEWAY = Caveat(
    "the Gateway's endpoint picker reports no metrics: requests are counted only once an engine has them"
)


log = logging.getLogger(__name__)

NOBODY: Mapping[str, tuple[Target, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Seen:
    """The result of one collection by pool UID: observations, and the pages they come from.

    `at` is when it began: whoever answered first waited for all others, and does not look fresher for that.
    """

    at: float
    observed: dict[str, PoolObservation]
    pages: Mapping[str, tuple[tuple[EngineTarget, ...], Mapping[str, History]]]


class MetricsCollector:
    """Keeps the last observation of each pool. `collect` runs in one event loop, `observations` anywhere."""

    def __init__(self, source: MetricsSource, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is observed yet."""
        self._source = source
        self._clock = clock
        self._seen = _Seen(clock(), {}, {})
        self._misread: frozenset[ResourceKey] = frozenset()
        self.engines_read: dict[Origin, int] = dict.fromkeys(Origin, 0)

    async def collect(
        self,
        pools: Iterable[PoolRecord],
        pods: tuple[PodRecord, ...],
        pickers: Mapping[str, tuple[Target, ...]] = NOBODY,
    ) -> None:
        """Ask the source once for the pods of all pools, and for the endpoint pickers of pools that have one."""
        crews = crews_of(pods)
        asked = [
            (pool, targets, pickers.get(pool.key.uid) or _routers_of(pool, crews))
            for pool, targets in _engines_of(pools, crews)
        ]
        every = {front.uid: front for _, _, fronts in asked for front in fronts}
        engines = {page.uid: page for _, targets, _ in asked for each in targets for page in (each, *each.pages)}
        every |= engines  # engines take precedence, whatever a Service selects
        began, leaving = self._clock(), {pod.uid for pod in pods if pod.finishing}
        histories = await self._source.collect(every.values())
        whole, observed, failed = await asyncio.to_thread(_read, asked, histories, leaving)  # seconds, for a thousand
        pages = {pool.key.uid: (targets, whole) for pool, targets, _ in asked}
        self._seen = _Seen(began, observed, pages)
        self._tell_of(failed)
        read = Counter(history.origin for uid, history in histories.items() if uid in engines)
        self.engines_read = {origin: read[origin] for origin in Origin}

    def observations(self) -> dict[str, PoolObservation]:
        """The last observations by pool UID, aged by the time since: a source that hangs must not look fresh."""
        at, observed = self._seen.at, self._seen.observed
        elapsed = self._clock() - at
        return {uid: replace(seen, age_seconds=seen.age_seconds + elapsed) for uid, seen in observed.items()}

    def engines(self, uid: str, pods: Container[str]) -> dict[str, EngineWord]:
        """What engines in these pods of a pool last reported, by pod name, aged by the time since."""
        last = self._seen  # read once, so that both parts are of one collection
        if uid not in last.pages:
            return {}
        targets, histories = last.pages[uid]
        told = words_of([each for each in targets if each.pod in pods], histories)
        elapsed = self._clock() - last.at
        return {pod: replace(word, age_seconds=word.age_seconds + elapsed) for pod, word in told.items()}

    def _tell_of(self, failed: Mapping[ResourceKey, Exception]) -> None:
        """Log pools whose metrics cannot be read, once while it lasts, as collections are frequent."""
        for key in failed.keys() - self._misread:
            log.error("metrics of %s cannot be read", key, exc_info=failed[key])
        self._misread = frozenset(failed)

    async def close(self) -> None:
        """Close the source."""
        await self._source.close()


def _read(
    asked: Sequence[_Asked], histories: Mapping[str, History], leaving: Container[str]
) -> tuple[dict[str, History], dict[str, PoolObservation], dict[ResourceKey, Exception]]:
    """Windows of whole replicas, observations by pool UID, and errors of pools whose metrics cannot be read."""
    whole = of_whole_replicas((target for _, targets, _ in asked for target in targets), histories)
    observed: dict[str, PoolObservation] = {}
    failed: dict[ResourceKey, Exception] = {}
    for pool, targets, fronts in asked:
        stay = staying(targets, leaving)
        try:
            observed[pool.key.uid] = _with_what_is_not_told(pool, observe_pool(stay, whole, fronts))
        except Exception as error:  # noqa: BLE001 - whatever it is, other pools can still be read
            observed[pool.key.uid], failed[pool.key] = _nothing_read(stay, whole, error), error
    return whole, observed, failed


def _nothing_read(targets: Sequence[EngineTarget], whole: Mapping[str, History], error: Exception) -> PoolObservation:
    """An observation with only the pods that answered, so that the pool keeps its size and none counts as silent."""
    told = Caveat(f"Weft made a mistake while reading them, please report: {error!r}"[:200])
    heard = tuple((each.pod, 0.0) for each in targets if each.uid in whole)
    return PoolObservation(len(targets), 0, 0.0, caveats=(told,), heard=heard)


def staying(targets: Iterable[EngineTarget], leaving: Container[str]) -> list[EngineTarget]:
    """The targets whose pods stay: requests that a leaving pod finishes are no load of the others."""
    return [target for target in targets if target.uid not in leaving]


def _with_what_is_not_told(pool: PoolRecord, seen: PoolObservation) -> PoolObservation:
    """The observation, with a caveat if an endpoint picker reports no demand (docs/metrics.md says why it may not)."""
    if pool.router_kind is not RouterKind.Gateway or seen.arrivals_at_front:
        return seen
    return replace(seen, caveats=(*seen.caveats, AT_A_GATEWAY))


def _routers_of(pool: PoolRecord, crews: Crews) -> tuple[Target, ...]:
    return fronts_of(pool, crews.get(of_no_replica(pool.key.namespace), ()))


def _models(pool: PoolRecord) -> frozenset[str]:
    """The names by which engines may report the model that the pool serves."""
    if pool.spec is None:
        return frozenset()
    model = pool.spec.model
    return frozenset((model.model_id, *model.served_names, *(name for name, _ in model.adapters)))


def _engines_of(pools: Iterable[PoolRecord], crews: Crews) -> Iterator[tuple[PoolRecord, tuple[EngineTarget, ...]]]:
    """Replicas of the pools whose engine is resolved and known to this version of Weft."""
    for pool in pools:
        release = pool.status.engine
        if release is None:
            continue
        try:
            yield pool, targets_of(pool.key.uid, crews.get(pool.key.uid, ()), release, _models(pool))
        except Invalid:
            continue
