"""Recent arrivals of requests: as fronts count them, else as engines finished and queued them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.snapshot import STALE_SECONDS
from weft.engines import FRONTS
from weft.observe.samples.window import INSIDE
from weft.observe.signals.odd_counts import MOST_PER_SECOND, goes_down_and_up, leaps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from weft.engines import Counter
    from weft.observe.samples.history import History
    from weft.observe.samples.scrape_target import Target
    from weft.observe.samples.window import Window

# Arrivals are counted over at least this long: a few scrapes, and short against the start of an engine.
ARRIVAL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Arrived:
    """Requests within some seconds; None if unknown."""

    requests: float | None = None
    seconds: float | None = None
    at_front: bool = False


def arrivals(windows: list[Window], fronts: list[Target], histories: Mapping[str, History]) -> Arrived:
    """Arrivals counted by all pods of the front, or derived from the engines if some of these do not tell.

    A front also counts what no engine takes, so neither a full queue nor a dead pool looks like no demand.
    """
    return _at_front(fronts, histories) or _at_engines(windows)


def _at_front(fronts: list[Target], histories: Mapping[str, History]) -> Arrived | None:
    known = [histories[front.uid].recent(ARRIVAL_SECONDS, FRONTS.names) for front in fronts if front.uid in histories]
    counted = [(_counted(history), history.span_seconds) for history in known if history.age_seconds <= STALE_SECONDS]
    told = [(requests, span) for requests, span in counted if requests is not None]
    seconds = _common_seconds([span for _, span in told])
    if not fronts or len(told) < len(fronts) or seconds < ARRIVAL_SECONDS / 2:
        return None
    requests = _within(seconds, told)
    if requests > MOST_PER_SECOND * seconds * len(fronts) or any(_is_odd(histories[each.uid]) for each in fronts):
        return None
    return Arrived(requests, seconds, at_front=True)


def _common_seconds(spans: Sequence[float]) -> float:
    """The seconds to count over: the shortest span of a pod that was there for all of them, else the longest of all.

    A pod that did not answer for some scrapes is counted over more, and one that was just added over fewer.
    """
    return min((span for span in spans if span >= ARRIVAL_SECONDS), default=max(spans, default=0.0))


def _within(seconds: float, counted: Iterable[tuple[float, float]]) -> float:
    """Requests of all pods within some seconds, from those of each over its own span: longer ones count in part."""
    return sum(requests * seconds / max(span, seconds) for requests, span in counted)


def _is_odd(history: History) -> bool:
    """Whether some count over the window cannot be of successive requests."""
    names = {counter.name for way in FRONTS.ways for counter in way.added}
    lines = [line for name in names for line in history.lines(name)]
    return goes_down_and_up(lines) or leaps(lines)


def _counted(history: History) -> float | None:
    """Arrivals at one pod of the front, by the first counter that it shows; None without any."""
    way = next((way for way in FRONTS.ways if any(map(history.has, way.shown_by))), None)
    added = _growth(history, way.added) if way is not None else None
    if way is None or added is None:
        return None
    return max(0.0, added - (_growth(history, way.taken) or 0.0))


def _growth(history: History, counters: Iterable[Counter]) -> float | None:
    grown = [history.increase_from_birth(counter.name, counter.labels) for counter in counters]
    known = [growth for growth in grown if growth is not None]
    return sum(known) if known else None


def _counted_in(window: Window) -> tuple[str, ...]:
    inside = () if INSIDE in window.contradicted else (window.series.running, window.series.waiting)
    names = (window.series.finished, *inside)
    return tuple(name for name in names if name is not None)


def _at_engines(windows: list[Window]) -> Arrived:
    """Arrivals at engines: finished requests, plus the growth of those inside."""
    recent = [(window, window.history.recent(ARRIVAL_SECONDS, _counted_in(window))) for window in windows]
    answered = [history.increase(window.series.finished) for window, history in recent]
    spans = [history.span_seconds for _, history in recent]
    seconds = _common_seconds(spans)
    if all(growth is None for growth in answered) or seconds < ARRIVAL_SECONDS / 2:
        return Arrived()
    inside = [sum(history.change(name) for name in _counted_in(window)[1:]) for window, history in recent]
    came = [(growth or 0.0) + more for growth, more in zip(answered, inside, strict=True)]
    return Arrived(max(0.0, _within(seconds, zip(came, spans, strict=True))), seconds)
