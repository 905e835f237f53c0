"""Gauges whose values are read from the last pass while it is scraped, so that a pass costs next to nothing to show.

A scrape reads one pass from beginning to end, whatever other threads do, and what a pass no longer has is gone.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from weft.domain.crews import Crews
    from weft.domain.decision import Decisions
    from weft.domain.snapshot import ResourceKey, Snapshot

    # Values of the gauge's own labels, as their `str`, and the value; None is absent.
    Reading = tuple[tuple[object, ...], float | None]
    Failures = dict[ResourceKey | None, Exception]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ShownPass:
    """What a pass saw and decided, by reference: nothing in it ever changes. `crews` are of all pods that exist."""

    snapshot: Snapshot
    decisions: Decisions
    crews: Crews


@dataclass(frozen=True, slots=True)
class PassGauge(Generic[T]):
    """A gauge: name, help, labels beside those of the table, and how its values are read from a subject."""

    name: str
    text: str
    labels: tuple[str, ...]
    read: Callable[[T], Iterable[Reading]]


@dataclass(frozen=True, slots=True)
class GaugeTable(Generic[T]):
    """Gauges of the same subjects. Each subject has a resource, whose namespace and name go with `labels`, or None."""

    labels: tuple[str, ...]
    subjects: Callable[[ShownPass], Iterable[tuple[ResourceKey | None, T]]]
    gauges: tuple[PassGauge[T], ...]

    def families(self) -> list[GaugeMetricFamily]:
        """One for each gauge, in the same order, without values."""
        return [GaugeMetricFamily(each.name, each.text, labels=(*self.labels, *each.labels)) for each in self.gauges]

    def read(self, shown: ShownPass, failed: Failures) -> list[GaugeMetricFamily]:
        """One for each gauge. What cannot be read is absent, and in `failed` by its resource."""
        families = self.families()
        try:
            subjects = list(self.subjects(shown))
        except Exception as error:  # noqa: BLE001 - whatever it is, all other tables can be read
            failed[None] = error
            return families
        for gauge, family in zip(self.gauges, families, strict=True):
            for labels, value in _values(gauge, subjects, failed).items():
                family.add_metric(labels, value)
        return families


def single(name: str, text: str, read: Callable[[T], float | None]) -> PassGauge[T]:
    """A gauge with one value for each subject, or none."""
    return PassGauge(name, text, (), lambda subject: (((), read(subject)),))


class PassCollector(Collector):
    """Reads tables from the last pass that was shown, at each scrape anew, in whichever thread that is."""

    def __init__(self, tables: tuple[GaugeTable[Any], ...]) -> None:
        """No pass is shown at first."""
        self._tables = tables
        self._shown: ShownPass | None = None
        self._failed: Failures | None = None
        self._failing = threading.Lock()

    def show(self, shown: ShownPass) -> Failures | None:
        """Replace the pass. Returns what scrapes since the last call could not read, None if there was no scrape."""
        self._shown = shown
        with self._failing:
            failed, self._failed = self._failed, None
        return failed

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """All gauges without values."""
        for table in self._tables:
            yield from table.families()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All gauges with their values of one pass."""
        shown = self._shown  # read once: the next pass may come meanwhile
        if shown is None:
            yield from self.describe()
            return
        failed: Failures = {}
        for table in self._tables:
            yield from table.read(shown, failed)
        with self._failing:
            self._failed = (self._failed or {}) | failed


def _values(
    gauge: PassGauge[T], subjects: Iterable[tuple[ResourceKey | None, T]], failed: Failures
) -> dict[tuple[str, ...], float]:
    """By values of all labels: the same twice would make Prometheus refuse the page."""
    values: dict[tuple[str, ...], float] = {}
    for key, subject in subjects:
        place = () if key is None else (key.namespace, key.name)
        try:
            for labels, value in gauge.read(subject):
                if value is not None:
                    values[*place, *map(str, labels)] = float(value)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is about this figure of this one alone
            failed[key] = error
    return values
