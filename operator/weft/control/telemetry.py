"""Weft's own metrics: decisions by reason, writes by kind, age of its picture, the exact figures of each pool."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from weft.control.fabric_gauges import FabricGauges
from weft.control.split_gauges import SplitGauges
from weft.control.traffic_gauges import TrafficGauges
from weft.decide.judged import seen_of
from weft.domain.crews import crews_of
from weft.domain.reasons import Reason
from weft.domain.workload import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from weft.domain.cluster import PodRecord
    from weft.domain.decision import Decisions, PoolDecision, SplitDecision
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.snapshot import PoolRecord, ResourceKey, Snapshot
    from weft.domain.status import Assignment, Condition
    from weft.observe.history import Origin

Shown = TypeVar("Shown", bound="PoolRecord | PoolDecision | SplitDecision")

DECISION_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
POOL = ("namespace", "pool")
OF_CONVERGING = frozenset({"Ready", "Reconciling", "Stalled"})  # as the status had them when it was decided


class Telemetry:
    """A registry of its own, so that several operators can live in one process."""

    def __init__(self) -> None:
        """Everything at zero."""
        self._replacing = threading.Lock()  # deciding has its own thread, and a scrape must not see half of its figures
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
        self.snapshot_age = self._gauge("weft_snapshot_age_seconds", "Age of the oldest cache", ())
        self._engines_read = self._gauge(
            "weft_engines_read", "Engines whose metrics are known, by who told them", ("origin",)
        )
        self.loop_lag = self._gauge("weft_loop_lag_seconds", "How late the event loop ran its last timer", ())
        self._per_pool: list[Gauge] = []
        self._condition = self._of_pools("weft_pool_condition", "1 while a condition is True", "condition", "reason")
        self._requested = self._of_pools(
            "weft_pool_capacity_requested_gpus",
            "GPUs that no hole of the fabric offers: domain_gpus of them free in one NVLink domain, node_gpus a node",
            "accelerator",
            "domain_gpus",
            "node_gpus",
        )
        self._replicas = self._of_pools("weft_pool_desired_replicas", "Replicas that should run")
        self._recommended = self._of_pools("weft_pool_recommended_replicas", "Replicas that Weft would run")
        self._assigned = self._of_pools("weft_pool_assigned_replicas", "Replicas that have their nodes")
        self._ready = self._of_pools("weft_pool_ready_replicas", "Ready replicas")
        self._capacity = self._of_pools("weft_pool_replica_capacity", "Predicted requests per second per replica")
        self._calibration = self._of_pools(
            "weft_calibration",
            "Measured over predicted time of prompts and of decode steps, and their tails",
            "kind",
        )
        self._slow = self._of_pools(
            "weft_pool_slow_replica_ratio", "Latency of a slow replica over that of its siblings", "replica"
        )
        self._failing = self._of_pools(
            "weft_pool_failed_transfer_ratio", "KV transfers that fail at a replica, 0 to 1", "replica"
        )
        self._fabric = FabricGauges(self.registry)
        self._traffic = TrafficGauges(self.registry)
        self._splits = SplitGauges(self.registry)

    def count_write(self, kind: str, verb: str) -> None:
        """One write that was carried out."""
        self.writes.labels(kind, verb).inc()

    def show_engines_read(self, engines: Mapping[Origin, int]) -> None:
        """How many engines the last collection knows, from whom."""
        for origin, count in engines.items():
            self._engines_read.labels(origin.value).set(count)

    def show(self, snapshot: Snapshot, decisions: Decisions) -> dict[ResourceKey, Exception]:
        """Replace the figures of all pools and domains at once; those that are gone disappear.

        Gives of whom figures cannot be shown, and why: some or all of them are absent.
        """
        failed: dict[ResourceKey, Exception] = {}
        with self._replacing:
            for gauge in self._per_pool:
                gauge.clear()
            self._traffic.clear()
            self._splits.clear()
            crews, roles = crews_of(snapshot.pods), roles_of(snapshot.pools)
            _show_each(snapshot.pools, self._show_progress, failed)
            _show_each(decisions.splits, self._splits.show, failed)
            show = partial(self._show_pool, snapshot=snapshot, decisions=decisions, crews=crews, roles=roles)
            _show_each(decisions.pools, show, failed)
            self._fabric.show(decisions.rooms)
        return failed

    def text(self) -> bytes:
        """The exposition now."""
        with self._replacing:
            return generate_latest(self.registry)

    def _show_progress(self, pool: PoolRecord) -> None:
        progress = (each for each in pool.conditions if each.kind in OF_CONVERGING)
        self._show_conditions((pool.key.namespace, pool.key.name), progress)

    def _show_pool(
        self,
        decision: PoolDecision,
        snapshot: Snapshot,
        decisions: Decisions,
        crews: Mapping[str, Sequence[PodRecord]],
        roles: Mapping[str, Role],
    ) -> None:
        place, uid = (decision.key.namespace, decision.key.name), decision.key.uid
        self._show_decision(place, decision)
        self._traffic.show(place, seen_of(roles.get(uid, Role.Aggregated), snapshot.observations.get(uid)))
        self._show_learning(place, decisions.memory.get(uid))
        self._show_outliers(place, decisions.memory.get(uid))
        self._ready.labels(*place).set(how_many_serve(decision.status.assignments, crews.get(uid, ())))

    def _show_decision(self, place: tuple[str, str], decision: PoolDecision) -> None:
        status = decision.status
        if status.scale is not None:
            self.decisions.labels(status.scale.reason.value).inc()
        self._replicas.labels(*place).set(status.desired_replicas)
        self._recommended.labels(*place).set(decision.recommended)
        self._assigned.labels(*place).set(len(status.assignments))
        if status.plan is not None:
            self._capacity.labels(*place).set(status.plan.prediction.capacity)
        if (request := decision.request) is not None:
            sizes = str(request.domain_gpus), str(request.gpus_per_node)
            self._requested.labels(*place, request.accelerator, *sizes).set(request.gpus)
        self._show_conditions(place, decision.conditions)

    def _show_conditions(self, place: tuple[str, str], conditions: Iterable[Condition]) -> None:
        for each in conditions:
            self._condition.labels(*place, each.kind, each.explanation.reason.value).set(each.status == "True")

    def _show_learning(self, place: tuple[str, str], memory: ScaleMemory | None) -> None:
        """The exact factors, of which the status has rounded ones; absent until something was measured."""
        if memory is None or memory.calibration is None or memory.calibration.factors.points == 0:
            return
        factors = memory.calibration.factors
        self._calibration.labels(*place, "prefill").set(factors.prefill)
        self._calibration.labels(*place, "decode").set(factors.decode)
        for kind, tail in (("ttft_tail", factors.ttft_tail), ("tpot_tail", factors.tpot_tail)):
            if tail is not None:
                self._calibration.labels(*place, kind).set(tail)

    def _show_outliers(self, place: tuple[str, str], memory: ScaleMemory | None) -> None:
        """Replicas that are named as slow, or as failing to fetch KV."""
        outliers = memory.outliers if memory is not None else None
        for each in outliers.named if outliers is not None else ():
            gauge = self._slow if each.why is Reason.SlowerThanSiblings else self._failing
            gauge.labels(*place, str(each.replica)).set(each.worse)

    def _of_pools(self, name: str, text: str, *names: str) -> Gauge:
        gauge = self._gauge(name, text, (*POOL, *names))
        self._per_pool.append(gauge)
        return gauge

    def _gauge(self, name: str, text: str, names: tuple[str, ...]) -> Gauge:
        return Gauge(name, text, names, registry=self.registry)


def _show_each(every: Iterable[Shown], show: Callable[[Shown], None], failed: dict[ResourceKey, Exception]) -> None:
    for each in every:
        try:
            show(each)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is about the figures of this one alone
            failed[each.key] = error


def roles_of(pools: Iterable[PoolRecord]) -> dict[str, Role]:
    """By UID, of those whose spec is understood."""
    return {pool.key.uid: pool.spec.role for pool in pools if pool.spec is not None}


def how_many_serve(assignments: Iterable[Assignment], crew: Iterable[PodRecord]) -> int:
    """Of the replicas of a pool, of whose pods `crew` are all that exist."""
    pods: dict[int, list[PodRecord]] = {}
    for pod in crew:
        if pod.identity is not None:
            pods.setdefault(pod.identity.replica, []).append(pod)
    return sum(each.is_served_by(pods.get(each.replica, ())) for each in assignments)
