"""Build one frozen Snapshot from the caches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from weft.api import parse_pool, parse_split
from weft.domain.crews import crews_of
from weft.domain.reasons import Reason
from weft.domain.relaxations import permitting
from weft.domain.snapshot import Snapshot
from weft.domain.spec import RouterKind
from weft.domain.stumbling import left_as_they_are
from weft.engines import adapter_for, engine_in
from weft.observe.custom_resources.bodies import Bodies
from weft.observe.custom_resources.cache import POOL_KIND, SPLIT_KIND
from weft.observe.custom_resources.claims import of_no_foreign_pool, of_no_foreign_split
from weft.observe.custom_resources.regaining import Regaining
from weft.observe.objects.records import read_object

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from weft.domain.cluster import ObjectRecord, PodRecord
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.reports import Reports
    from weft.domain.snapshot import PoolObservation, PoolRecord, ResourceKey, SplitRecord
    from weft.domain.spec import PoolSpec, SplitSpec
    from weft.domain.stumbling import Stumbled
    from weft.observe.api_server.lookups import ConfigFiles, Priorities
    from weft.observe.api_server.pod_logs import PodLogs
    from weft.observe.custom_resources.cache import ResourceCache
    from weft.observe.informers.cluster import ClusterCache


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of a snapshot. `relaxations` are those that the administrator allows."""

    cluster: ClusterCache
    resources: ResourceCache
    configs: ConfigFiles
    priorities: Priorities
    logs: PodLogs
    relaxations: tuple[str, ...] = ()


class SnapshotBuilder:
    """Builds snapshots; parsed resources are kept until their version changes. Not thread-safe: for one caller."""

    def __init__(
        self, sources: Sources, told: Callable[[ResourceKey, Stumbled], None] = lambda _key, _mistake: None
    ) -> None:
        """The caches may still be empty: check `ClusterCache.synced` before deciding anything.

        `told` is called for each resource that cannot be read, once per version, or once while its pods are the cause.
        """
        self._sources = sources
        self._pools = Bodies(parse_pool, told)
        self._splits = Bodies(parse_split, told)
        self._regaining = Regaining(told)

    def build(
        self, now: float, observations: Mapping[str, PoolObservation], memory: Mapping[str, ScaleMemory]
    ) -> Snapshot:
        """Everything as known at `now` (epoch seconds); may read a ConfigMap or a failed pod's log."""
        blind_seconds = self._sources.cluster.blind_seconds  # of what is read below, at most
        read = self.pools()
        claimed = of_no_foreign_pool(self._sources.cluster.pods(), read)
        pods = self._sources.logs.add(claimed, logs_needed(read))
        reports = self._sources.cluster.reports()
        pools = self.regained(read, crews_of(pods), reports)
        snapshot = Snapshot(
            now=now,
            pools=pools,
            splits=self.splits(),
            nodes=self._sources.cluster.nodes(),
            pods=pods,
            observations=dict(observations),
            memory=dict(memory),
            reports=reports,
            queueing=self._sources.cluster.queueing(),
            quotas=self._sources.cluster.quotas(),
            blind_seconds=blind_seconds,
        )
        held = self._pools.held() | self._splits.held() | self._regaining.held
        return left_as_they_are(snapshot, held) if held else snapshot

    def pools(self) -> tuple[PoolRecord, ...]:
        """All pools that can be parsed, with their ConfigMap and priority looked up."""
        cluster, bodies = self._sources.cluster, self._sources.resources.bodies
        shown, taken = cluster.shown_pairs(), cluster.taken_routes()
        read = self._pools.read(bodies(POOL_KIND), partial(self._complete_pool, shown=shown, taken=taken))
        return of_no_foreign_split(read, bodies(SPLIT_KIND))

    def regained(
        self, pools: tuple[PoolRecord, ...], pods: Mapping[str, Sequence[PodRecord]], reports: Reports
    ) -> tuple[PoolRecord, ...]:
        """The pools with their lost replicas, without those that cannot be read; `pods` are by pool UID."""
        return self._regaining.read(pools, pods, reports)

    def splits(self) -> tuple[SplitRecord, ...]:
        """All splits that can be parsed, without those with a half left out; call it after `pools` and `regained`."""
        read, halved = self._sources.resources.bodies(SPLIT_KIND), self._pools.owners() | self._regaining.owners
        return tuple(split for split in self._splits.read(read, self._complete_split) if split.key.uid not in halved)

    def versions(self) -> dict[str, int]:
        """Resource versions by UID that the last `pools` and `splits` were parsed from: what a decision was made on."""
        return self._pools.versions() | self._splits.versions()

    def objects(self) -> tuple[ObjectRecord, ...]:
        """All our objects other than pods and top-level resources; child pools are included."""
        children = (
            body for body in self._sources.resources.bodies(POOL_KIND) if body["metadata"].get("ownerReferences")
        )
        return (*self._sources.cluster.objects(), *(read_object(body) for body in children))

    def _complete_pool(
        self, record: PoolRecord, shown: Mapping[tuple[str, str], str], taken: Container[tuple[str, str]]
    ) -> PoolRecord:
        if record.spec is None:
            return record
        spec = self._filled(record.key.namespace, record.spec)
        name, known = spec.pod.priority_class, self._sources.priorities
        lacks = self._sources.cluster.lacks_for_gateways if spec.router.kind is RouterKind.Gateway else None
        found = replace(record, spec=spec, priority=known.value(name), preempts=known.preempts(name), lacks=lacks)
        split = record.key.namespace, record.split_uid or ""
        pair = shown.get(split, "")
        return replace(found, shown=pair, route_taken=split in taken) if pair else found

    def _complete_split(self, record: SplitRecord) -> SplitRecord:
        if record.spec is None:
            return record
        namespace = record.key.namespace
        prefill = self._filled(namespace, record.spec.prefill)
        decode = self._filled(namespace, record.spec.decode)
        spec: SplitSpec = replace(record.spec, prefill=prefill, decode=decode)
        return replace(record, spec=spec, priority=self._sources.priorities.value(prefill.pod.priority_class))

    def _filled(self, namespace: str, spec: PoolSpec) -> PoolSpec:
        """The spec with the model's config.json, and with what the administrator permits pods."""
        spec = permitting(spec, self._sources.relaxations)
        if spec.model.config_map is None:
            return spec
        text = self._sources.configs.text(namespace, *spec.model.config_map)
        return replace(spec, model=replace(spec.model, config_json=text))


def logs_needed(pools: tuple[PoolRecord, ...]) -> Callable[[PodRecord], bool]:
    """A test whether a pod that ended by itself left no root cause in its termination message.

    An engine whose core was killed ends with exit code 0, for which the kubelet keeps no log tail.
    """
    engines = {pool.key.uid: pool.status.engine.name for pool in pools if pool.status.engine is not None}

    def needs_log(pod: PodRecord) -> bool:
        if pod.failure is None or pod.identity is None or pod.failure.exit_code is None or pod.terminating:
            return False
        engine = engines.get(pod.identity.pool_uid)
        said = adapter_for(engine_in(pod, engine)).failure(pod.failure.message) if engine is not None else None
        return said is None or said.reason is Reason.EngineCoreDied

    return needs_log
