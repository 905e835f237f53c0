"""Metrics of each split: its conditions, and the KV transfer that is expected between its halves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Gauge

from weft.control.pool_gauges import OF_CONVERGING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import CollectorRegistry

    from weft.domain.decision import SplitDecision
    from weft.domain.snapshot import SplitRecord
    from weft.domain.status import Condition

SPLIT = ("namespace", "split")


class SplitGauges:
    """Gauges of splits; without a plan only the conditions."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Start without values."""
        self._condition = Gauge(
            "weft_split_condition",
            "1 while a condition of the split is True",
            (*SPLIT, "condition", "reason"),
            registry=registry,
        )
        self._rate = Gauge(
            "weft_split_transport_bytes_per_second",
            "What each prefill GPU should send",
            (*SPLIT, "transport"),
            registry=registry,
        )
        self._seconds = Gauge(
            "weft_split_kv_transfer_expected_seconds",
            "What a KV transfer should take",
            (*SPLIT, "prompt"),
            registry=registry,
        )

    def clear(self) -> None:
        """Remove the values of all splits."""
        for gauge in (self._condition, self._rate, self._seconds):
            gauge.clear()

    def show_progress(self, split: SplitRecord) -> None:
        """Show the conditions that converging owns."""
        self._show_conditions(
            (split.key.namespace, split.key.name), (each for each in split.conditions if each.kind in OF_CONVERGING)
        )

    def show(self, decision: SplitDecision) -> None:
        """Show the values of one split."""
        place, wire, seen = (decision.key.namespace, decision.key.name), decision.transport, decision.observed
        self._show_conditions(place, decision.conditions)
        if wire is None:
            return
        self._rate.labels(*place, wire.name).set(wire.bytes_per_second)
        measured = seen.transfer_expected if seen is not None else None
        for prompt, seconds in (("mean", wire.mean_seconds), ("p95", wire.p95_seconds), ("measured", measured)):
            if seconds is not None:
                self._seconds.labels(*place, prompt).set(seconds)

    def _show_conditions(self, place: tuple[str, str], conditions: Iterable[Condition]) -> None:
        for each in conditions:
            self._condition.labels(*place, each.kind, each.explanation.reason.value).set(each.status == "True")
