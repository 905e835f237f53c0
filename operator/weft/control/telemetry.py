"""Weft's own metrics: decisions by reason, writes by kind, age of the caches, exact figures of each pool."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from weft.control.fabric_gauges import FabricGauges
from weft.control.pool_gauges import PoolGauges
from weft.control.split_gauges import SplitGauges
from weft.control.traffic_gauges import TrafficGauges
from weft.decide.measured.judged import seen_of
from weft.domain.crews import crews_of
from weft.domain.workload import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from weft.domain.cluster import PodRecord
    from weft.domain.decision import Decisions, PoolDecision, SplitDecision
    from weft.domain.snapshot import PoolRecord, ResourceKey, Snapshot, SplitRecord
    from weft.observe.history import Origin

Shown = TypeVar("Shown", bound="PoolRecord | SplitRecord | PoolDecision | SplitDecision")

DECISION_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Telemetry:
    """Has a registry of its own, so that several operators can live in one process."""

    def __init__(self) -> None:
        """All counters start at zero."""
        self._replacing = threading.Lock()  # deciding has its own thread, and a scrape must not see half of the values
        self.registry = CollectorRegistry()
        self.decisions = Counter(
            "weft_decisions", "Decisions about pools by the reason of their scale", ["reason"], registry=self.registry
        )
        self.decision_seconds = Histogram(
            "weft_decision_seconds", "Time of one global decision", buckets=DECISION_BUCKETS, registry=self.registry
        )
        self.writes = Counter(
            "weft_writes", "Writes that the API server took", ["kind", "verb"], registry=self.registry
        )
        self.passes = Counter("weft_passes", "Passes over one resource that were carried out", registry=self.registry)
        self.failures = Counter(
            "weft_pass_failures", "Passes that ended in an error, by reason", ["loop", "reason"], registry=self.registry
        )
        for loop in ("decide", "converge"):
            self.failures.labels(loop, "Bug")  # from zero on: a series that begins at one has not increased
        self.snapshot_age = self._gauge("weft_snapshot_age_seconds", "Age of the oldest cache", ())
        self._engines_read = self._gauge(
            "weft_engines_read", "Engines whose metrics are known, by who told them", ("origin",)
        )
        self.loop_lag = self._gauge("weft_loop_lag_seconds", "How late the event loop ran its last timer", ())
        self._pools = PoolGauges(self.registry)
        self._fabric = FabricGauges(self.registry)
        self._traffic = TrafficGauges(self.registry)
        self._splits = SplitGauges(self.registry)

    def count_write(self, kind: str, verb: str) -> None:
        """Count one write that succeeded."""
        self.writes.labels(kind, verb).inc()

    def show_engines_read(self, engines: Mapping[Origin, int]) -> None:
        """Show how many engines the last collection read, by origin."""
        for origin, count in engines.items():
            self._engines_read.labels(origin.value).set(count)

    def show(self, snapshot: Snapshot, decisions: Decisions) -> dict[ResourceKey, Exception]:
        """Replace the values of all pools and domains at once; those that are gone disappear.

        Returns the resources whose values cannot be shown, with the error: some or all of them are absent.
        """
        failed: dict[ResourceKey, Exception] = {}
        with self._replacing:
            self._pools.clear()
            self._traffic.clear()
            self._splits.clear()
            crews, roles = crews_of(snapshot.pods), roles_of(snapshot.pools)
            _show_each(snapshot.pools, self._pools.show_record, failed)
            _show_each(snapshot.splits, self._splits.show_progress, failed)
            _show_each(decisions.splits, self._splits.show, failed)
            show = partial(self._show_pool, snapshot=snapshot, decisions=decisions, crews=crews, roles=roles)
            _show_each(decisions.pools, show, failed)
            self._fabric.show(decisions.rooms, decisions.notes)
        return failed

    def text(self) -> bytes:
        """The current metrics in Prometheus' text format."""
        with self._replacing:
            return generate_latest(self.registry)

    def _show_pool(
        self,
        decision: PoolDecision,
        snapshot: Snapshot,
        decisions: Decisions,
        crews: Mapping[str, Sequence[PodRecord]],
        roles: Mapping[str, Role],
    ) -> None:
        place, uid = (decision.key.namespace, decision.key.name), decision.key.uid
        if decision.status.scale is not None:
            self.decisions.labels(decision.status.scale.reason.value).inc()
        self._pools.show(decision, decisions.memory.get(uid), crews.get(uid, ()))
        self._traffic.show(place, seen_of(roles.get(uid, Role.Aggregated), snapshot.observations.get(uid)))

    def _gauge(self, name: str, text: str, names: tuple[str, ...]) -> Gauge:
        return Gauge(name, text, names, registry=self.registry)


def _show_each(every: Iterable[Shown], show: Callable[[Shown], None], failed: dict[ResourceKey, Exception]) -> None:
    for each in every:
        try:
            show(each)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is about the figures of this one alone
            failed[each.key] = error


def roles_of(pools: Iterable[PoolRecord]) -> dict[str, Role]:
    """Roles of pools by UID, without pools whose spec cannot be parsed."""
    return {pool.key.uid: pool.spec.role for pool in pools if pool.spec is not None}
