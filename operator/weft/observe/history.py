"""Samples of one pod's engine metrics over the last window, whichever source they came from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from weft.observe.arithmetic import Sample, increase, latest, rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.domain.snapshot import Buckets

Labels = tuple[tuple[str, str], ...]
SeriesKey = tuple[str, Labels]  # (name of the sample, its labels without those of the target)

TARGET_LABELS = {"instance", "job", "namespace", "pod", "container", "endpoint", "service", "node", "prometheus"}


@dataclass(frozen=True, slots=True)
class Target:
    """One pod whose engine answers metrics. `names` are the families worth keeping."""

    uid: str
    namespace: str
    pod: str
    ip: str
    port: int
    path: str
    names: tuple[str, ...]

    @property
    def url(self) -> str:
        """Where the engine serves its metrics; IPv6 addresses get their brackets."""
        host = f"[{self.ip}]" if ":" in self.ip else self.ip
        return f"http://{host}:{self.port}{self.path}"


class Origin(StrEnum):
    """Who told us the samples."""

    Engine = "engine"
    Prometheus = "prometheus"


@dataclass(frozen=True, slots=True)
class History:
    """Samples by series. `now` is on the same clock as the samples' times, and no other."""

    now: float
    series: Mapping[SeriesKey, tuple[Sample, ...]] = field(hash=False)
    origin: Origin = Origin.Engine

    @property
    def age_seconds(self) -> float:
        """Seconds since the newest sample of any series; infinite when there is none."""
        newest = max((at for samples in self.series.values() for at, _ in samples), default=-math.inf)
        return max(0.0, self.now - newest)

    def has(self, name: str) -> bool:
        """Whether any sample of that name was seen."""
        return any(key[0] == name for key in self.series)

    def gauge(self, name: str, wanted: Labels = ()) -> tuple[float, ...]:
        """Newest value of each series of that name whose labels include `wanted`."""
        values = (latest(samples) for samples in self._of(name, wanted))
        return tuple(value for value in values if value is not None)

    def rate(self, name: str, wanted: Labels = ()) -> float | None:
        """Growth per second, summed over the series of that name."""
        return _sum(rate(samples) for samples in self._of(name, wanted))

    def increase(self, name: str, wanted: Labels = ()) -> float | None:
        """Growth over the window, summed over the series of that name."""
        return _sum(increase(samples) for samples in self._of(name, wanted))

    def buckets(self, name: str) -> Buckets:
        """Growth of each bucket of the histogram `name`, summed over its series."""
        grown: dict[float, float] = {}
        for (sample, tags), samples in self.series.items():
            bound = _bound(dict(tags).get("le")) if sample == f"{name}_bucket" else None
            more = increase(samples) if bound is not None else None
            if bound is not None and more is not None:
                grown[bound] = grown.get(bound, 0.0) + more
        return tuple(sorted(grown.items()))

    def recent(self, seconds: float) -> History:
        """The same from the newest sample on that is at least `seconds` older than the newest of all."""
        newest = max((at for samples in self.series.values() for at, _ in samples), default=self.now)
        series = {key: _since(samples, newest - seconds) for key, samples in self.series.items()}
        return History(self.now, series, self.origin)

    @property
    def span_seconds(self) -> float:
        """Seconds between the oldest and the newest sample; 0 without any."""
        times = [at for samples in self.series.values() for at, _ in samples]
        return max(times) - min(times) if times else 0.0

    def change(self, name: str) -> float:
        """How much a gauge grew from its oldest to its newest sample, summed over its series."""
        return sum(samples[-1][1] - samples[0][1] for samples in self._of(name, ()) if samples)

    def mean(self, name: str) -> float | None:
        """Mean observation of the histogram `name` over the window; None when nothing was observed."""
        total, count = self.increase(f"{name}_sum"), self.increase(f"{name}_count")
        return total / count if total is not None and count else None

    def _of(self, name: str, wanted: Labels) -> Iterable[tuple[Sample, ...]]:
        return (s for (sample, tags), s in self.series.items() if sample == name and set(wanted) <= set(tags))


def series_key(name: str, tags: Mapping[str, str]) -> SeriesKey:
    """Key of one series without the labels that a scraper adds about its target."""
    return name, tuple(sorted((key, value) for key, value in tags.items() if key not in TARGET_LABELS))


def _since(samples: tuple[Sample, ...], start: float) -> tuple[Sample, ...]:
    """Samples from the last one at or before `start` on."""
    before = [position for position, (at, _) in enumerate(samples) if at <= start]
    return samples[before[-1] :] if before else samples


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _bound(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
