"""Metrics of what was decided for each pool and learnt about it, unrounded, and how many of its replicas serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Gauge

from weft.decide.measured.judged import targets_of
from weft.domain.reasons import Reason
from weft.domain.workload import Slo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import CollectorRegistry

    from weft.domain.cluster import PodRecord
    from weft.domain.decision import PoolDecision
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.snapshot import PoolRecord
    from weft.domain.status import Assignment, Condition

POOL = ("namespace", "pool")
OF_CONVERGING = frozenset({"Ready", "Reconciling", "Stalled"})  # as they were in the status that was decided on


class PoolGauges:
    """Gauges of pools; a value that a pool does not have is absent."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Start without values."""
        self._registry = registry
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
        self._scale = self._of_pools("weft_pool_scale_reason", "1 for why this many replicas should run", "reason")
        self._gpus = self._of_pools("weft_pool_gpus", "GPUs of the assigned replicas")
        self._target = self._of_pools("weft_pool_slo_seconds", "Latency targets", "kind", "percentile")
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

    def clear(self) -> None:
        """Remove the values of all pools."""
        for gauge in self._per_pool:
            gauge.clear()

    def show_record(self, pool: PoolRecord) -> None:
        """Show the conditions that converging owns, and the targets that its replicas can miss."""
        place = pool.key.namespace, pool.key.name
        self._show_conditions(place, (each for each in pool.conditions if each.kind in OF_CONVERGING))
        slo = targets_of(pool.spec.role, pool.spec.slo) if pool.spec is not None else Slo()
        for kind, targets in (("ttft", slo.ttft), ("tpot", slo.tpot)):
            for percentile, seconds in targets:
                self._target.labels(*place, kind, str(percentile)).set(seconds)

    def show(self, decision: PoolDecision, memory: ScaleMemory | None, crew: Iterable[PodRecord]) -> None:
        """Show the values of one pool; `crew` are all its existing pods."""
        place = decision.key.namespace, decision.key.name
        self._show_decision(place, decision)
        self._show_learning(place, memory)
        self._show_outliers(place, memory)
        self._ready.labels(*place).set(how_many_serve(decision.status.assignments, crew))

    def _show_decision(self, place: tuple[str, str], decision: PoolDecision) -> None:
        status = decision.status
        self._replicas.labels(*place).set(status.desired_replicas)
        self._recommended.labels(*place).set(decision.recommended)
        self._assigned.labels(*place).set(len(status.assignments))
        self._gpus.labels(*place).set(sum(each.gpus_per_pod * each.pods for each in status.assignments))
        if status.scale is not None:
            self._scale.labels(*place, status.scale.reason.value).set(1)
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
        """Show exact calibration factors, which the status has rounded; absent until something was measured."""
        if memory is None or memory.calibration is None or memory.calibration.factors.points == 0:
            return
        factors = memory.calibration.factors
        self._calibration.labels(*place, "prefill").set(factors.prefill)
        self._calibration.labels(*place, "decode").set(factors.decode)
        for kind, tail in (("ttft_tail", factors.ttft_tail), ("tpot_tail", factors.tpot_tail)):
            if tail is not None:
                self._calibration.labels(*place, kind).set(tail)

    def _show_outliers(self, place: tuple[str, str], memory: ScaleMemory | None) -> None:
        """Show replicas that are named as slow, or as failing to fetch KV."""
        outliers = memory.outliers if memory is not None else None
        for each in outliers.named if outliers is not None else ():
            gauge = self._slow if each.why is Reason.SlowerThanSiblings else self._failing
            gauge.labels(*place, str(each.replica)).set(each.worse)

    def _of_pools(self, name: str, text: str, *names: str) -> Gauge:
        gauge = Gauge(name, text, (*POOL, *names), registry=self._registry)
        self._per_pool.append(gauge)
        return gauge


def how_many_serve(assignments: Iterable[Assignment], crew: Iterable[PodRecord]) -> int:
    """How many of the assigned replicas of a pool serve; `crew` are all pods of the pool that exist."""
    pods: dict[int, list[PodRecord]] = {}
    for pod in crew:
        if pod.identity is not None:
            pods.setdefault(pod.identity.replica, []).append(pod)
    return sum(each.is_served_by(pods.get(each.replica, ())) for each in assignments)
