"""Metrics of what is in the fabric, what of it is free, how large the holes are, and what looked odd.

One series for each NVLink domain while there are few; with many, the number of series would burden Prometheus.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.control.metrics.pass_gauges import GaugeTable, PassGauge
from weft.placement import by_accelerator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.control.metrics.pass_gauges import Reading, ShownPass
    from weft.domain.reasons import Explanation
    from weft.domain.room import AcceleratorRoom, DomainRoom

MOST_DOMAINS = 1000


@dataclass(frozen=True, slots=True)
class ShownFabric:
    """The fabric as the last decision leaves it, by NVLink domain and by accelerator."""

    rooms: tuple[DomainRoom, ...]
    kinds: tuple[AcceleratorRoom, ...]
    notes: tuple[Explanation, ...]


def _fabric(shown: ShownPass) -> Iterator[tuple[None, ShownFabric]]:
    rooms = shown.decisions.rooms
    yield None, ShownFabric(rooms, by_accelerator(rooms), shown.decisions.notes)


def _total(fabric: ShownFabric) -> Iterator[Reading]:
    return (((kind.accelerator,), kind.total) for kind in fabric.kinds)


def _notes(fabric: ShownFabric) -> Iterator[Reading]:
    counts = Counter(note.reason.value for note in fabric.notes)
    return (((reason,), count) for reason, count in counts.items())


def _free(fabric: ShownFabric) -> Iterator[Reading]:
    each = len(fabric.rooms) <= MOST_DOMAINS
    free: Counter[tuple[str, str, str]] = Counter()
    for room in fabric.rooms:
        free[room.zone, room.domain if each else "", room.accelerator] += room.free
    return iter(free.items())


def _slots(fabric: ShownFabric) -> Iterator[Reading]:
    return (((kind.accelerator, size), count) for kind in fabric.kinds for size, count in kind.slots)


def _largest(fabric: ShownFabric) -> Iterator[Reading]:
    return (((kind.accelerator,), kind.largest) for kind in fabric.kinds)


def _fragmentation(fabric: ShownFabric) -> Iterator[Reading]:
    return (((kind.accelerator, size), kind.unusable_share(size)) for kind in fabric.kinds for size, _ in kind.slots)


FABRIC: GaugeTable[ShownFabric] = GaugeTable(
    (),
    _fabric,
    (
        PassGauge("weft_fabric_gpus", "GPUs of all nodes", ("accelerator",), _total),
        PassGauge("weft_fabric_notes", "What looked odd while nodes were read", ("reason",), _notes),
        PassGauge(
            "weft_fabric_free_gpus",
            "GPUs that a new replica may have; of a whole zone (domain is empty) beyond 1,000 NVLink domains",
            ("zone", "domain", "accelerator"),
            _free,
        ),
        PassGauge(
            "weft_fabric_free_slots",
            "Replicas of so many GPUs that would fit if nothing else came",
            ("accelerator", "gpus"),
            _slots,
        ),
        PassGauge(
            "weft_fabric_largest_slot_gpus",
            "GPUs of the largest replica that would fit into one NVLink domain",
            ("accelerator",),
            _largest,
        ),
        PassGauge(
            "weft_fabric_fragmentation_ratio",
            "Share of the free GPUs that replicas of so many GPUs cannot use",
            ("accelerator", "gpus"),
            _fragmentation,
        ),
    ),
)
