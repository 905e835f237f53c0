"""Metrics of the expected KV transfer between the halves of each split, to compare with what pools measure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Gauge

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from weft.domain.decision import SplitDecision

SPLIT = ("namespace", "split")


class SplitGauges:
    """Gauges of splits that have a plan."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Start without values."""
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
        self._rate.clear()
        self._seconds.clear()

    def show(self, decision: SplitDecision) -> None:
        """Show the values of one split."""
        place, wire, seen = (decision.key.namespace, decision.key.name), decision.transport, decision.observed
        if wire is None:
            return
        self._rate.labels(*place, wire.name).set(wire.bytes_per_second)
        measured = seen.transfer_expected if seen is not None else None
        for prompt, seconds in (("mean", wire.mean_seconds), ("p95", wire.p95_seconds), ("measured", measured)):
            if seconds is not None:
                self._seconds.labels(*place, prompt).set(seconds)
