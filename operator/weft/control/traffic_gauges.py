"""Metrics of each pool's observed traffic, unrounded: the status has rounded values, and fewer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Gauge

from weft.domain.start_up import PHASES, usual_phases

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from weft.domain.snapshot import PoolObservation

# name without `weft_pool_`, field of the observation, meaning
_FIGURES = (
    ("requests_per_second", "requests_per_second", "Requests per second"),
    ("requests_waiting", "waiting", "Requests that wait for capacity"),
    ("requests_waiting_for_kv", "waiting_for_kv", "Requests that wait for KV to arrive or to leave"),
    ("kv_usage_ratio", "kv_usage", "KV cache in use"),
    ("kv_transfer_seconds", "transfer_seconds", "Mean time of a KV transfer"),
    ("startup_seconds", "startup_seconds", "Median start of the ready replicas"),
)
_TOKENS = (
    ("input", "mean", "input_tokens"),
    ("input", "p95", "input_tokens_p95"),
    ("output", "mean", "output_tokens"),
    ("output", "p95", "output_tokens_p95"),
    ("computed_input", "mean", "computed_input_tokens"),
)


class TrafficGauges:
    """Gauges by pool; unknown values are absent."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Start without values."""
        self._registry = registry
        self._figures = [(self._gauge(name, text), field) for name, field, text in _FIGURES]
        self._latency = self._gauge("latency_seconds", "Observed latency", "kind", "percentile")
        self._tokens = self._gauge("tokens", "Tokens of a request", "kind", "statistic")
        self._arriving = self._gauge("requests_arriving_per_second", "Requests that came in lately", "counted_by")
        self._phases = self._gauge("startup_phase_seconds", "Phases of a usual start, of the last ones", "phase")
        self._caveat = self._gauge("metrics_caveat", "1 for each thing that is odd about an engine's metrics", "caveat")

    def clear(self) -> None:
        """Remove the values of all pools."""
        gauges = (gauge for gauge, _ in self._figures)
        for gauge in (*gauges, self._latency, self._tokens, self._arriving, self._phases, self._caveat):
            gauge.clear()

    def show(self, place: tuple[str, str], seen: PoolObservation | None) -> None:
        """Show the observation of one pool, `place` being (namespace, name)."""
        if seen is None:
            return
        for gauge, field in self._figures:
            _set(gauge, place, getattr(seen, field))
        for kind, values in (("ttft", seen.ttft), ("tpot", seen.tpot)):
            for percentile, seconds in values:
                _set(self._latency, (*place, kind, str(percentile)), seconds)
        for kind, statistic, field in _TOKENS:
            _set(self._tokens, (*place, kind, statistic), getattr(seen, field))
        if seen.arrivals is not None and seen.arrival_seconds:
            counted_by = "front" if seen.arrivals_at_front else "engines"
            _set(self._arriving, (*place, counted_by), seen.arrivals / seen.arrival_seconds)
        self._show_named(place, seen)

    def _show_named(self, place: tuple[str, str], seen: PoolObservation) -> None:
        for phase, seconds in zip(PHASES, usual_phases(seen.starts), strict=False):
            _set(self._phases, (*place, phase), seconds)
        for caveat in seen.caveats:
            _set(self._caveat, (*place, caveat.says), 1)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"weft_pool_{name}", text, ("namespace", "pool", *labels), registry=self._registry)


def _set(gauge: Gauge, labels: tuple[str, ...], value: float | None) -> None:
    if value is not None:
        gauge.labels(*labels).set(value)
