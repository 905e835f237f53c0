"""Weft's own metrics: decisions by reason, writes by kind, age of the caches, exact figures of each pool."""

from __future__ import annotations

from collections import Counter as Counted
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from weft.control.metrics.fabric_gauges import FABRIC
from weft.control.metrics.pass_gauges import PassCollector, ShownPass
from weft.control.metrics.pool_gauges import DECIDED, STANDING
from weft.control.metrics.split_gauges import SPLITS
from weft.control.metrics.traffic_gauges import TRAFFIC
from weft.domain.crews import crews_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.control.metrics.pass_gauges import Failures
    from weft.domain.decision import Decisions
    from weft.domain.snapshot import Snapshot
    from weft.observe.samples.history import Origin

DECISION_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Telemetry:
    """Has a registry of its own, so that several operators can live in one process."""

    def __init__(self) -> None:
        """All counters start at zero."""
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
        self.leads = self._gauge("weft_leader", "1 while this process decides and writes, 0 while it stands by", ())
        self.snapshot_age = self._gauge("weft_snapshot_age_seconds", "Age of the oldest cache", ())
        self._engines_read = self._gauge(
            "weft_engines_read", "Engines whose metrics are known, by who told them", ("origin",)
        )
        self.loop_lag = self._gauge("weft_loop_lag_seconds", "How late the event loop ran its last timer", ())
        self._pass = PassCollector((STANDING, DECIDED, FABRIC, TRAFFIC, SPLITS))
        self.registry.register(self._pass)

    def count_write(self, kind: str, verb: str) -> None:
        """Count one write that succeeded."""
        self.writes.labels(kind, verb).inc()

    def show_engines_read(self, engines: Mapping[Origin, int]) -> None:
        """Show how many engines the last collection read, by origin."""
        for origin, count in engines.items():
            self._engines_read.labels(origin.value).set(count)

    def show(self, snapshot: Snapshot, decisions: Decisions) -> Failures | None:
        """Show this pass to the scrapes that follow; resources and domains that it lacks are gone from them.

        Returns what scrapes of earlier passes could not show since the last call, by resource, with the error; under
        None what is about no resource. It is None if there was no scrape.
        """
        reasons = Counted(each.status.scale.reason.value for each in decisions.pools if each.status.scale is not None)
        for reason, count in reasons.items():
            self.decisions.labels(reason).inc(count)
        return self._pass.show(ShownPass(snapshot, decisions, crews_of(snapshot.pods)))

    def text_of_standby(self) -> bytes:
        """Only that this process does not lead: whatever it could say of pools and passes, the leader says."""
        return generate_latest(self.registry.restricted_registry(["weft_leader"]))

    def text(self) -> bytes:
        """The current metrics in Prometheus' text format. Any thread may ask."""
        return generate_latest(self.registry)

    def _gauge(self, name: str, text: str, names: tuple[str, ...]) -> Gauge:
        return Gauge(name, text, names, registry=self.registry)
