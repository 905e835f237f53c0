"""Metrics of what was decided for each pool and learnt about it, unrounded, and how many of its replicas serve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.control.metrics.pass_gauges import GaugeTable, PassGauge, single
from weft.decide.measured.judged import targets_of
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weft.control.metrics.pass_gauges import Reading, ShownPass
    from weft.domain.cluster import PodRecord
    from weft.domain.decision import PoolDecision
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.snapshot import PoolRecord, ResourceKey
    from weft.domain.status import Assignment, Condition

POOL = ("namespace", "pool")
OF_CONVERGING = frozenset({"Ready", "Reconciling", "Stalled"})  # as they were in the status that was decided on


@dataclass(frozen=True, slots=True)
class StandingPool:
    """A pool that exists, whether it is decided on or is being deleted."""

    record: PoolRecord | None
    decision: PoolDecision | None


@dataclass(frozen=True, slots=True)
class DecidedPool:
    """A pool that was decided on; `crew` are all its existing pods."""

    decision: PoolDecision
    memory: ScaleMemory | None
    crew: tuple[PodRecord, ...]


def conditions_of(existing: Iterable[Condition], decided: Iterable[Condition]) -> Iterator[Reading]:
    """Those of the status that converging owns, and those that were decided."""
    for each in (*(each for each in existing if each.kind in OF_CONVERGING), *decided):
        yield (each.kind, each.explanation.reason.value), each.status == "True"


def how_many_serve(assignments: Iterable[Assignment], crew: Iterable[PodRecord]) -> int:
    """How many of the assigned replicas of a pool serve; `crew` are all pods of the pool that exist."""
    pods: dict[int, list[PodRecord]] = {}
    for pod in crew:
        if pod.identity is not None:
            pods.setdefault(pod.identity.replica, []).append(pod)
    return sum(each.is_served_by(pods.get(each.replica, ())) for each in assignments)


def _standing(shown: ShownPass) -> Iterator[tuple[ResourceKey, StandingPool]]:
    decided = {each.key: each for each in shown.decisions.pools}
    records = {each.key: each for each in shown.snapshot.pools}
    for key in records | decided:
        yield key, StandingPool(records.get(key), decided.get(key))


def _decided(shown: ShownPass) -> Iterator[tuple[ResourceKey, DecidedPool]]:
    memory, crews = shown.decisions.memory, shown.crews
    for each in shown.decisions.pools:
        yield each.key, DecidedPool(each, memory.get(each.key.uid), crews.get(each.key.uid, ()))


def _conditions(pool: StandingPool) -> Iterator[Reading]:
    existing = pool.record.conditions if pool.record is not None else ()
    return conditions_of(existing, pool.decision.conditions if pool.decision is not None else ())


def _targets(pool: StandingPool) -> Iterator[Reading]:
    """The targets that its replicas can miss."""
    if pool.record is None or pool.record.spec is None:
        return
    slo = targets_of(pool.record.spec.role, pool.record.spec.slo)
    for kind, targets in (("ttft", slo.ttft), ("tpot", slo.tpot)):
        for percentile, seconds in targets:
            yield (kind, percentile), seconds


def _requested(pool: DecidedPool) -> Iterator[Reading]:
    if (request := pool.decision.request) is not None and request.gpus:
        yield (request.accelerator, request.domain_gpus, request.gpus_per_node), request.gpus


def _scale_reason(pool: DecidedPool) -> Iterator[Reading]:
    if (scale := pool.decision.status.scale) is not None:
        yield (scale.reason.value,), 1


def _gpus(pool: DecidedPool) -> int:
    return sum(each.gpus_per_pod * each.pods for each in pool.decision.status.assignments)


def _capacity(pool: DecidedPool) -> float | None:
    plan = pool.decision.status.plan
    return plan.prediction.capacity if plan is not None else None


def _calibration(pool: DecidedPool) -> Iterator[Reading]:
    """Exact factors, which the status has rounded; absent until something was measured."""
    if pool.memory is None or pool.memory.calibration is None or pool.memory.calibration.factors.points == 0:
        return
    factors = pool.memory.calibration.factors
    yield ("prefill",), factors.prefill
    yield ("decode",), factors.decode
    yield ("ttft_tail",), factors.ttft_tail
    yield ("tpot_tail",), factors.tpot_tail


def _named(pool: DecidedPool, *, slow: bool) -> Iterator[Reading]:
    """Replicas that are named as slow, or as failing to fetch KV."""
    outliers = pool.memory.outliers if pool.memory is not None else None
    for each in outliers.named if outliers is not None else ():
        if (each.why is Reason.SlowerThanSiblings) == slow:
            yield (each.replica,), each.worse


STANDING: GaugeTable[StandingPool] = GaugeTable(
    POOL,
    _standing,
    (
        PassGauge("weft_pool_condition", "1 while a condition is True", ("condition", "reason"), _conditions),
        PassGauge("weft_pool_slo_seconds", "Latency targets", ("kind", "percentile"), _targets),
    ),
)
DECIDED: GaugeTable[DecidedPool] = GaugeTable(
    POOL,
    _decided,
    (
        PassGauge(
            "weft_pool_capacity_requested_gpus",
            "GPUs that no hole of the fabric offers: domain_gpus of them free in one NVLink domain, node_gpus a node",
            ("accelerator", "domain_gpus", "node_gpus"),
            _requested,
        ),
        single(
            "weft_pool_desired_replicas", "Replicas that should run", lambda pool: pool.decision.status.desired_replicas
        ),
        single(
            "weft_pool_recommended_replicas", "Replicas that Weft would run", lambda pool: pool.decision.recommended
        ),
        single(
            "weft_pool_assigned_replicas",
            "Replicas that have their nodes",
            lambda pool: len(pool.decision.status.assignments),
        ),
        single(
            "weft_pool_ready_replicas",
            "Ready replicas",
            lambda pool: how_many_serve(pool.decision.status.assignments, pool.crew),
        ),
        PassGauge("weft_pool_scale_reason", "1 for why this many replicas should run", ("reason",), _scale_reason),
        single("weft_pool_gpus", "GPUs of the assigned replicas", _gpus),
        single("weft_pool_replica_capacity", "Predicted requests per second per replica", _capacity),
        PassGauge(
            "weft_calibration",
            "Measured over predicted time of prompts and of decode steps, and their tails",
            ("kind",),
            _calibration,
        ),
        PassGauge(
            "weft_pool_slow_replica_ratio",
            "Latency of a slow replica over that of its siblings",
            ("replica",),
            lambda pool: _named(pool, slow=True),
        ),
        PassGauge(
            "weft_pool_failed_transfer_ratio",
            "KV transfers that fail at a replica, 0 to 1",
            ("replica",),
            lambda pool: _named(pool, slow=False),
        ),
    ),
)
