"""Samples of one pod's engine metrics over the last window, from either source."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from heapq import nlargest, nsmallest
from operator import itemgetter
from typing import TYPE_CHECKING

from weft.observe.samples.arithmetic import Sample, Times, grown, increase, joint_pace, usable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from weft.domain.snapshot import Buckets

Labels = tuple[tuple[str, str], ...]
SeriesKey = tuple[str, Labels]  # (name of the sample, its labels without those of the target)

# Ranks that compute one request together: if each has its own series, they count the same requests.
LOCKSTEP_LABELS = {"tp_rank", "pp_rank", "moe_ep_rank"}
# SGLang's gauges report a queue by priority and in total as `priority=""`, a label that Prometheus drops. In its
# counters and histograms that means requests without a priority, and there is no total.
PART_LABEL = "priority"
PAGE_LABEL = "page"  # separates series of the same name on two pages of one replica
TARGET_LABELS = {"instance", "job", "namespace", "pod", "container", "endpoint", "service", "node", "prometheus"}

_time_of = itemgetter(0)


class Origin(StrEnum):
    """The source of the samples."""

    Engine = "engine"
    Prometheus = "prometheus"


@dataclass(frozen=True, slots=True)
class History:
    """Samples by series. `now` is on the same clock as the samples' times, and no other.

    A series whose samples begin later than `begun`, and later than others, appeared in between. One page that lacks a
    series may be truncated: only two in a row mean that it did not exist. `asked_seconds` is how long ago the pod
    answered another source.
    """

    now: float
    series: Mapping[SeriesKey, tuple[Sample, ...]] = field(hash=False)
    origin: Origin = Origin.Engine
    begun: float = -math.inf
    asked_seconds: float = math.inf
    _by_name: dict[str, list[SeriesKey]] = field(init=False, repr=False, compare=False, default_factory=dict)
    _usable: dict[SeriesKey, list[Sample]] = field(init=False, repr=False, compare=False, default_factory=dict)
    _ends: list[tuple[float, float]] = field(init=False, repr=False, compare=False, default_factory=list)
    _in_order: list[Times] = field(init=False, repr=False, compare=False, default_factory=list)
    # By name: several figures read them, and searching each time was a fifth of all work.
    _told: dict[str, list[list[Sample]]] = field(init=False, repr=False, compare=False, default_factory=dict)
    _of_gauge: dict[str, list[list[Sample]]] = field(init=False, repr=False, compare=False, default_factory=dict)
    _growth: dict[str, float | None] = field(init=False, repr=False, compare=False, default_factory=dict)
    _by_bound: dict[str, Buckets] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Index the series by name."""
        for key in self.series:
            self._by_name.setdefault(key[0], []).append(key)

    @property
    def _times(self) -> tuple[float, float]:
        """Times of the oldest and newest sample, computed once; infinite without any."""
        if not self._ends:
            times = {at for samples in set(map(_times_of, self.series.values())) for at in samples}
            self._ends.append((min(times, default=math.inf), max(times, default=-math.inf)))
        return self._ends[0]

    @property
    def age_seconds(self) -> float:
        """Seconds since the newest sample of any series; infinite without any."""
        return max(0.0, self.now - self._times[1])

    @property
    def silent_seconds(self) -> float:
        """Seconds since the pod answered any source, as far as known."""
        return min(self.age_seconds, self.asked_seconds)

    def beside(self, other: History) -> History:
        """The same samples, noting that another source asked the pod, too."""
        found = replace(self, asked_seconds=other.age_seconds)
        found._ends.extend(self._ends)  # noqa: SLF001 - of our own kind, and found by looking at every sample
        return found

    def has(self, name: str) -> bool:
        """Whether any sample with this name was seen."""
        return name in self._by_name

    def shows(self, name: str) -> bool:
        """Whether the gauge, counter or histogram with this name was seen with any usable value."""
        return any(self._lines(name)) or any(self._lines(f"{name}_count"))

    def gauge(self, name: str, wanted: Labels = ()) -> tuple[float, ...]:
        """The newest value of each series with this name whose labels include `wanted`."""
        return tuple([line[-1][1] for line in self._gauges(name, wanted) if line])

    def rate(self, name: str) -> float | None:
        """Growth per second of all series with this name together; None without any."""
        pages: dict[str, list[list[Sample]]] = {}
        for key in self._keys(name, ()):
            pages.setdefault(dict(key[1]).get(PAGE_LABEL, ""), []).append(self._line(key))
        return _sum(map(joint_pace, pages.values()))

    def lines(self, name: str) -> Iterable[list[Sample]]:
        """The usable samples of each series with this name, in order of time."""
        return self._lines(name)

    def moves(self, first: Iterable[str], but: str | None = None) -> bool:
        """Whether any series except those named `but` changed in the window; `first` are names to check first."""
        likely = (line for name in first for line in self._lines(name))
        return any(map(_changes, likely)) or any(_changes(self._line(key)) for key in self.series if key[0] != but)

    def stands_still(self, name: str, seconds: float) -> bool:
        """Whether each series with this name was constant and above zero for `seconds`; False without any."""
        lines = [line for line in self._lines(name) if line]
        return bool(lines) and all(
            line[-1][1] > 0 and line[-1][0] - line[0][0] >= seconds and not _changes(line) for line in lines
        )

    def values(self, label: str) -> set[str]:
        """The values of a label over all series."""
        return {text for _, labels in self.series for name, text in labels if name == label}

    def count(self, name: str) -> int:
        """How many series with this name were in the window."""
        return len(self._by_name.get(name, ()))

    def gone(self, name: str) -> int:
        """How many series with this name the last two pages with the name both lack: a single page may be truncated."""
        return len(self._by_name.get(name, ())) - len(self._present(self._by_name.get(name, ())))

    def counted_seconds(self, name: str) -> float | None:
        """Seconds between the first and the last usable sample with this name; None without two."""
        times = [at for line in self._lines(name) for at, _ in line]
        return max(times) - min(times) if len(times) > 1 else None

    def increase(self, name: str) -> float | None:
        """Growth over the window, summed over the series with this name; None without any."""
        if name not in self._growth:
            self._growth[name] = _sum(map(grown, self._lines(name)))
        return self._growth[name]

    def increase_from_birth(self, name: str, wanted: Labels = ()) -> float | None:
        """As `increase`, but a series that did not exist at first has grown from zero."""
        oldest = max(self.begun, min((samples[0][0] for samples in self.series.values() if samples), default=math.inf))
        lines = [samples for samples in self._of(name, wanted) if samples]
        return _sum(increase(((oldest, 0.0), *line) if line[0][0] > oldest else line) for line in lines)

    def buckets(self, name: str) -> Buckets:
        """Growth of each bucket of the histogram `name`, summed over its series."""
        if name not in self._by_bound:
            self._by_bound[name] = self._grown_buckets(name)
        return self._by_bound[name]

    def _grown_buckets(self, name: str) -> Buckets:
        counted: dict[float, float] = {}
        for key in self._keys(f"{name}_bucket", ()):
            bound, more = _bound(key[1]), grown(self._line(key))
            if bound is not None and more is not None:
                counted[bound] = counted.get(bound, 0.0) + more
        return tuple(sorted(counted.items()))

    def recent(self, seconds: float, names: Iterable[str]) -> History:
        """Series with these names, from the newest sample that is at least `seconds` older than the newest of all."""
        newest = self._times[1] if self._times[1] > -math.inf else self.now
        kept = [key for name in names for key in self._by_name.get(name, ())]
        series = {key: _since(self.series[key], newest - seconds) for key in kept}
        first = nsmallest(2, {at for key in kept for at, _ in self.series[key]})
        return History(self.now, series, self.origin, max([newest - seconds, *first[1:]]))

    @property
    def span_seconds(self) -> float:
        """Seconds between the oldest and the newest sample; 0 without any."""
        oldest, newest = self._times
        return newest - oldest if newest > -math.inf else 0.0

    def change(self, name: str) -> float:
        """How much a gauge grew from its oldest to its newest sample, summed over its series."""
        return sum(line[-1][1] - line[0][1] for line in self._gauges(name) if line)

    def most(self, name: str) -> float:
        """The maximum of a gauge in the window, summed over its series; 0 without any."""
        return sum(self.peaks(name))

    def peaks(self, name: str) -> tuple[float, ...]:
        """The maximum of each series of a gauge in the window."""
        return tuple(max(value for _, value in line) for line in self._gauges(name) if line)

    def mean(self, name: str) -> float | None:
        """Mean observation of the histogram `name` over the window; None if nothing was observed."""
        total, count = self.increases(f"{name}_sum", f"{name}_count")
        return total / count if total is not None and count else None

    def increases(self, one: str, other: str) -> tuple[float | None, float | None]:
        """Growth of two counters that are parts of one ratio, over the time for which both have samples.

        A truncated page in between has only one of them: prompts would look twice as long, or half.
        """
        lines = [line for name in (one, other) for line in self._lines(name)]
        if len({(line[0][0], line[-1][0]) for line in lines if line}) < 2:  # noqa: PLR2004 - all are of the same time
            return self.increase(one), self.increase(other)
        told, beside = self._times_of_each(one), self._times_of_each(other)
        return self._grown_beside(one, beside), self._grown_beside(other, told)

    def _times_of_each(self, name: str) -> dict[Labels, set[float]]:
        return {key[1]: {at for at, _ in self._line(key)} for key in self._keys(name, ())}

    def _grown_beside(self, name: str, other: Mapping[Labels, set[float]]) -> float | None:
        """Growth at the times of which the other counter has samples, too, with the same labels if it has these."""
        if not any(other.values()):
            return self.increase(name)
        anywhere = set[float]().union(*other.values())
        every = ((self._line(key), other.get(key[1], anywhere)) for key in self._keys(name, ()))
        return _sum(grown([sample for sample in line if sample[0] in times]) for line, times in every)

    def _of(self, name: str, wanted: Labels) -> Iterable[tuple[Sample, ...]]:
        return (self.series[key] for key in self._keys(name, wanted))

    def _lines(self, name: str) -> Iterable[list[Sample]]:
        if name not in self._told:
            self._told[name] = [self._line(key) for key in self._keys(name, ())]
        return self._told[name]

    def _gauges(self, name: str, wanted: Labels = ()) -> Iterable[list[Sample]]:
        if wanted:
            return map(self._line, _wholes(self._keys(name, wanted)))
        if name not in self._of_gauge:
            self._of_gauge[name] = [self._line(key) for key in _wholes(self._present(self._keys(name, ())))]
        return self._of_gauge[name]

    def _present(self, keys: Iterable[SeriesKey]) -> list[SeriesKey]:
        """The series on either of the last two pages that have any of them: changing labels must not add up."""
        every = [key for key in keys if self.series[key]]
        ends = {self.series[key][-1][0] for key in every}
        if len(ends) < 2:  # noqa: PLR2004 - all are of one page, or none is there
            return every
        pages: dict[str, list[SeriesKey]] = {}
        for key in every:
            pages.setdefault(dict(key[1]).get(PAGE_LABEL, ""), []).append(key)
        return [key for together in pages.values() for key in self._of_the_last_two(together)]

    def _of_the_last_two(self, keys: list[SeriesKey]) -> list[SeriesKey]:
        since = min(nlargest(2, {at for key in keys for at, _ in self.series[key]}))
        return [key for key in keys if self.series[key][-1][0] >= since]

    def _line(self, key: SeriesKey) -> list[Sample]:
        """The usable samples of one series, cached as several figures read them."""
        if key not in self._usable:
            self._usable[key] = usable(self.series[key], self._in_order)
        return self._usable[key]

    def _keys(self, name: str, wanted: Labels) -> Iterable[SeriesKey]:
        """Keys of the series with this name; of ranks in lockstep only the first.

        The first series tells whether there are such ranks: an engine gives all series of a name the same labels, as
        its metrics client declares the labels of each name once.
        """
        keys = self._by_name.get(name, [])
        if wanted:
            keys = [key for key in keys if set(wanted) <= set(key[1])]
        if not any(label in LOCKSTEP_LABELS for key in keys[:1] for label, _ in key[1]):
            return keys
        first: dict[Labels, SeriesKey] = {}
        for key in sorted(keys):
            first.setdefault(tuple(tag for tag in key[1] if tag[0] not in LOCKSTEP_LABELS), key)
        return first.values()


def _wholes(keys: Iterable[SeriesKey]) -> Iterable[SeriesKey]:
    """The series without parts by priority if there is a total, too."""
    every = list(keys)
    if len(every) < 2:  # noqa: PLR2004 - a part and its whole
        return every
    parts = {key for key in every if any(label == PART_LABEL and text for label, text in key[1])}
    return every if len(parts) in {0, len(every)} else [key for key in every if key not in parts]


def series_key(name: str, tags: Mapping[str, str]) -> SeriesKey:
    """The key of a series, without the labels that a scraper adds about its target."""
    return name, tuple(sorted((key, value) for key, value in tags.items() if key not in TARGET_LABELS))


def _changes(line: Sequence[Sample]) -> bool:
    return any(value != line[0][1] for _, value in line)


def _times_of(samples: tuple[Sample, ...]) -> tuple[float, ...]:
    return tuple(map(_time_of, samples))


def _since(samples: tuple[Sample, ...], start: float) -> tuple[Sample, ...]:
    """The samples from the last one at or before `start` on."""
    before = [position for position, (at, _) in enumerate(samples) if at <= start]
    return samples[before[-1] :] if before else samples


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


@lru_cache(maxsize=4096)
def _bound(labels: Labels) -> float | None:
    try:
        bound = next((float(text) for label, text in labels if label == "le"), math.nan)
    except ValueError:
        return None
    return None if math.isnan(bound) else bound
