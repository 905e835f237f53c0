"""Metrics of each pool's observed traffic, unrounded: the status has rounded values, and fewer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.control.metrics.pass_gauges import GaugeTable, PassGauge, single
from weft.control.metrics.pool_gauges import POOL
from weft.decide.measured.judged import seen_of
from weft.domain.start_up import PHASES, usual_phases
from weft.domain.workload import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.control.metrics.pass_gauges import Reading, ShownPass
    from weft.domain.snapshot import PoolObservation, ResourceKey


@dataclass(frozen=True, slots=True)
class SeenPool:
    """A pool that was decided on, and observed; `seen` is all that its engines say."""

    role: Role
    seen: PoolObservation

    @property
    def meant(self) -> PoolObservation:
        """Without what means nothing in this role."""
        return seen_of(self.role, self.seen) or self.seen


def _observed(shown: ShownPass) -> Iterator[tuple[ResourceKey, SeenPool]]:
    """A pool whose spec cannot be parsed counts as aggregated."""
    roles = {each.key.uid: each.spec.role for each in shown.snapshot.pools if each.spec is not None}
    for decision in shown.decisions.pools:
        seen = shown.snapshot.observations.get(decision.key.uid)
        if seen is not None:
            yield decision.key, SeenPool(roles.get(decision.key.uid, Role.Aggregated), seen)


def _latency(pool: SeenPool) -> Iterator[Reading]:
    meant = pool.meant
    for kind, values in (("ttft", meant.ttft), ("tpot", meant.tpot)):
        for percentile, seconds in values:
            yield (kind, percentile), seconds


def _tokens(pool: SeenPool) -> Iterator[Reading]:
    seen = pool.seen
    yield ("input", "mean"), seen.input_tokens
    yield ("input", "p95"), seen.input_tokens_p95
    yield ("output", "mean"), seen.output_tokens
    yield ("output", "p95"), seen.output_tokens_p95
    yield ("computed_input", "mean"), seen.computed_input_tokens


def _arriving(pool: SeenPool) -> Iterator[Reading]:
    seen = pool.seen
    if seen.arrivals is not None and seen.arrival_seconds:
        yield ("front" if seen.arrivals_at_front else "engines",), seen.arrivals / seen.arrival_seconds


def _phases(pool: SeenPool) -> Iterator[Reading]:
    for phase, seconds in zip(PHASES, usual_phases(pool.seen.starts), strict=False):
        yield (phase,), seconds


def _caveats(pool: SeenPool) -> Iterator[Reading]:
    for caveat in pool.meant.caveats:
        yield (caveat.says,), 1


TRAFFIC: GaugeTable[SeenPool] = GaugeTable(
    POOL,
    _observed,
    (
        single("weft_pool_requests_per_second", "Requests per second", lambda pool: pool.seen.requests_per_second),
        single("weft_pool_requests_waiting", "Requests that wait for capacity", lambda pool: pool.seen.waiting),
        single(
            "weft_pool_requests_waiting_for_kv",
            "Requests that wait for KV to arrive or to leave",
            lambda pool: pool.seen.waiting_for_kv,
        ),
        single("weft_pool_kv_usage_ratio", "KV cache in use", lambda pool: pool.seen.kv_usage),
        single("weft_pool_kv_transfer_seconds", "Mean time of a KV transfer", lambda pool: pool.seen.transfer_seconds),
        single(
            "weft_pool_startup_seconds", "Median start of the ready replicas", lambda pool: pool.seen.startup_seconds
        ),
        PassGauge("weft_pool_latency_seconds", "Observed latency", ("kind", "percentile"), _latency),
        PassGauge("weft_pool_tokens", "Tokens of a request", ("kind", "statistic"), _tokens),
        PassGauge(
            "weft_pool_requests_arriving_per_second",
            "Requests that came in lately",
            ("counted_by",),
            _arriving,
        ),
        PassGauge("weft_pool_startup_phase_seconds", "Phases of a usual start, of the last ones", ("phase",), _phases),
        PassGauge(
            "weft_pool_metrics_caveat",
            "1 for each thing that is odd about an engine's metrics",
            ("caveat",),
            _caveats,
        ),
    ),
)
