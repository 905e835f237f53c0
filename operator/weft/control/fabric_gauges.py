"""Metrics of what is in the fabric, what of it is free, how large the holes are, and what looked odd.

One series for each NVLink domain while there are few; with many, the number of series would burden Prometheus.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client import Gauge

from weft.placement import by_accelerator

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prometheus_client import CollectorRegistry

    from weft.domain.reasons import Explanation
    from weft.domain.room import DomainRoom

MOST_DOMAINS = 1000


class FabricGauges:
    """Gauges of the fabric as the last decision leaves it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Start without values."""
        self._total = Gauge("weft_fabric_gpus", "GPUs of all nodes", ("accelerator",), registry=registry)
        self._notes = Gauge(
            "weft_fabric_notes", "What looked odd while nodes were read", ("reason",), registry=registry
        )
        self._free = Gauge(
            "weft_fabric_free_gpus",
            "GPUs that a new replica may have; of a whole zone (domain is empty) beyond 1,000 NVLink domains",
            ("zone", "domain", "accelerator"),
            registry=registry,
        )
        self._slots = Gauge(
            "weft_fabric_free_slots",
            "Replicas of so many GPUs that would fit if nothing else came",
            ("accelerator", "gpus"),
            registry=registry,
        )
        self._largest = Gauge(
            "weft_fabric_largest_slot_gpus",
            "GPUs of the largest replica that would fit into one NVLink domain",
            ("accelerator",),
            registry=registry,
        )
        self._fragmentation = Gauge(
            "weft_fabric_fragmentation_ratio",
            "Share of the free GPUs that replicas of so many GPUs cannot use",
            ("accelerator", "gpus"),
            registry=registry,
        )

    def show(self, rooms: Sequence[DomainRoom], notes: Iterable[Explanation]) -> None:
        """Replace all values; domains, accelerators and notes that are gone disappear."""
        for gauge in (self._total, self._notes, self._free, self._slots, self._largest, self._fragmentation):
            gauge.clear()
        for reason, count in Counter(note.reason for note in notes).items():
            self._notes.labels(reason.value).set(count)
        each = len(rooms) <= MOST_DOMAINS
        free: Counter[tuple[str, str, str]] = Counter()
        for room in rooms:
            free[room.zone, room.domain if each else "", room.accelerator] += room.free
        for labels, gpus in free.items():
            self._free.labels(*labels).set(gpus)
        for kind in by_accelerator(rooms):
            self._total.labels(kind.accelerator).set(kind.total)
            self._largest.labels(kind.accelerator).set(kind.largest)
            for size, count in kind.slots:
                self._slots.labels(kind.accelerator, str(size)).set(count)
                self._fragmentation.labels(kind.accelerator, str(size)).set(kind.unusable_share(size))
