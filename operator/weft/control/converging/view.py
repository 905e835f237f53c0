"""What converging a resource reads, built once per change of the caches and shared by all workers."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.reasons import Reason
from weft.engines import engine_label
from weft.fabric import build_fabric
from weft.observe.custom_resources.claims import of_no_foreign_pool
from weft.observe.snapshot_builder import SnapshotBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.control.context import Context
    from weft.domain.cluster import ObjectRecord, PodRecord
    from weft.domain.fabric import Fabric
    from weft.domain.snapshot import PoolRecord, SplitRecord
    from weft.domain.status import Condition


@dataclass(frozen=True, slots=True)
class View:
    """The world as of one revision of the caches, indexed by owner."""

    revision: tuple[int, int]
    fabric: Fabric
    pools: dict[str, PoolRecord]
    splits: dict[str, SplitRecord]
    pods: dict[str, tuple[PodRecord, ...]]  # by pool UID; routers by UID of the pool or split that they serve
    objects: dict[str, tuple[ObjectRecord, ...]]  # by namespace
    versions: dict[str, int]  # resource versions of pools and splits

    def children(self, split_uid: str) -> tuple[PoolRecord, ...]:
        """The pools that a split owns."""
        return tuple(pool for pool in self.pools.values() if pool.split_uid == split_uid)

    def pods_near(self, pool: PoolRecord) -> tuple[PodRecord, ...]:
        """Pods of a pool, and routers of the split that it is a half of."""
        routers = self.pods.get(pool.split_uid, ()) if pool.split_uid is not None else ()
        return (*self.pods.get(pool.key.uid, ()), *routers)

    def waiting(self) -> Iterable[str]:
        """UIDs of pools and splits that may be waiting for a change elsewhere in the cluster.

        Pools with gated pods wait for room, halves of a split in a rollout for routers of the previous pair, pools for
        routers of the previous engine, pools with unrouted pods for metrics of their engines, halves without a pod for
        the ComputeDomain of their split, and both kinds for a name that an object of somebody else has.
        """
        pools = (uid for uid, pool in self.pools.items() if _waits(pool, self.pods.get(uid, ())))
        return (*pools, *(uid for uid, split in self.splits.items() if _waits_for_a_name(split.conditions)))


def by_whom(pods: Iterable[PodRecord]) -> dict[str, tuple[PodRecord, ...]]:
    """Engine pods by the UID of their pool, routers by that of the pool or split they serve."""
    found: dict[str, list[PodRecord]] = defaultdict(list)
    for pod in pods:
        uid = pod.identity.pool_uid if pod.identity is not None else pod.front_of
        if uid is not None:
            found[uid].append(pod)
    return {uid: tuple(together) for uid, together in found.items()}


def _waits(pool: PoolRecord, pods: Iterable[PodRecord]) -> bool:
    pair = pool.spec.pair if pool.spec is not None else ""
    known = {"", engine_label(pool.status.engine.name)} if pool.status.engine is not None else {""}
    return (
        _has_yet_to_share(pool)
        or _waits_for_a_name(pool.conditions)
        or any(pod.gated or pod.finishing or (pod.pair != pair if pair else pod.engine not in known) for pod in pods)
    )


def _waits_for_a_name(conditions: Iterable[Condition]) -> bool:
    """Whether the caches show an object of somebody else under a wanted name, so that they will show its end.

    What only a write found has no label of Weft's, and no cache: it stalls, and is tried again after a back-off.
    """
    taken = {each.kind for each in conditions if each.explanation.reason is Reason.NameTaken}
    return "Ready" in taken and "Stalled" not in taken


def _has_yet_to_share(pool: PoolRecord) -> bool:
    shared = (each.compute_domain for each in pool.status.assignments if not each.complete)
    return pool.split_uid is not None and any(each is not None and each.name for each in shared)


class Viewer:
    """Makes and caches views; thread-safe."""

    def __init__(self, context: Context) -> None:
        """No view is made before it is asked for."""
        self._context = context
        self._builder = SnapshotBuilder(context.sources)
        self._lock = threading.Lock()
        self._view: View | None = None

    def view(self) -> View:
        """A view at least as new as every change that was reported before this call."""
        with self._lock:
            revision = (self._context.cluster.revision, self._context.resources.revision)
            if self._view is None or self._view.revision != revision:
                self._view = self._make(revision)
            return self._view

    def _make(self, revision: tuple[int, int]) -> View:
        cluster = self._context.cluster
        claimed, reports = cluster.pods(), cluster.reports()
        read = self._builder.pools()
        pods = of_no_foreign_pool(claimed, read)
        together = by_whom(pods)
        by_namespace: dict[str, list[ObjectRecord]] = defaultdict(list)
        for record in self._builder.objects():
            by_namespace[record.namespace].append(record)
        pools = self._builder.regained(read, together, reports)
        splits = self._builder.splits()
        return View(
            revision,
            build_fabric(cluster.nodes(), pods, self._context.catalog, reports),
            {pool.key.uid: pool for pool in pools},
            {split.key.uid: split for split in splits},
            together,
            {namespace: tuple(found) for namespace, found in by_namespace.items()},
            self._builder.versions(),
        )
