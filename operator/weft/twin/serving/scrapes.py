"""Scrapes of simulated engines: when they succeed, what they keep, and what the operator learns from them.

No page is rendered: a scrape copies the engine's counts, and a window is the difference of two copies. Windows are as
long as those of `DirectSource`, and mean what `observe_pool` reads in them.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Protocol, TypeVar

from weft.domain.snapshot import STALE_SECONDS
from weft.domain.values.remembered import LastAnswers
from weft.observe.signals.arriving import ARRIVAL_SECONDS, Arrived
from weft.observe.signals.observation import common_seconds
from weft.twin.serving.observing import Scrape, SeenEngine, observe_engine, observe_engines, scrape

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolObservation
    from weft.domain.start_up import MeasuredStart
    from weft.twin.serving.served import ServedEngine


class TimedScrape(Protocol):
    """Anything that is scraped at some time."""

    @property
    def at(self) -> float:
        """Time of the scrape in seconds."""


T = TypeVar("T", bound=TimedScrape)
_POOLS = 2  # most pools that a stream goes through


@dataclass(frozen=True, slots=True)
class ScrapeOptions:
    """When scrapes happen: all engines and the front together at multiples of `interval_seconds`.

    Results are known `delay_seconds` later, and rates are over the last `window_seconds`. No scrape succeeds in `gaps`,
    each [from, to) in seconds, and `lost_share` of all scrapes of single engines fail.
    """

    interval_seconds: float = 15.0
    delay_seconds: float = 1.0
    window_seconds: float = 60.0
    gaps: tuple[tuple[float, float], ...] = ()
    lost_share: float = 0.0

    def __post_init__(self) -> None:
        """Raise `ValueError` for options with which nothing could ever be observed."""
        if self.interval_seconds <= 0 or self.delay_seconds < 0 or not 0 <= self.lost_share <= 1:
            raise ValueError("an interval is above 0 seconds, a delay not below, and a share from 0 to 1")
        if self.window_seconds < self.interval_seconds:
            raise ValueError("a window has room for two scrapes")


@dataclass(frozen=True, slots=True)
class Tries:
    """How many attempts the front has counted up to a scrape."""

    at: float
    count: int


@dataclass(frozen=True, slots=True)
class _Known:
    """A pool's observation: when it was made, from which engines and newest scrape, and until when it holds."""

    at: float
    engines: tuple[str, ...]
    newest: float
    holds_until: float
    observation: PoolObservation


@dataclass(frozen=True, slots=True)
class _Seen:
    """The input of an observation: engines expected, with figures, and heard (with ages); arrivals; the total rate."""

    expected: int
    engines: tuple[SeenEngine, ...]
    heard: tuple[tuple[str, float], ...]
    arrived: Arrived
    rate: float | None


class Scrapes:
    """The recent scrapes of every engine and of the front."""

    def __init__(self, options: ScrapeOptions, seed: int) -> None:
        """Start without any scrape."""
        self._options = options
        self._random = Random(seed)
        self._rings: defaultdict[str, deque[Scrape]] = defaultdict(deque)
        self._starts: dict[str, MeasuredStart | None] = {}
        self._tries: deque[Tries] = deque()
        self._known: dict[str, _Known] = {}
        self._idle: LastAnswers[_Seen, PoolObservation] = LastAnswers(_POOLS)

    def in_gap(self, now: float) -> bool:
        """Whether no scrape succeeds at this time."""
        return any(begin <= now < end for begin, end in self._options.gaps)

    def loses_one(self) -> bool:
        """Draw whether the next scrape of a single engine fails."""
        return self._options.lost_share > 0.0 and self._random.random() < self._options.lost_share

    def take(self, name: str, served: ServedEngine, now: float) -> None:
        """Scrape an engine."""
        self._starts[name] = served.start
        self._keep(self._rings[name], scrape(served.engine, now))

    def count_tries(self, count: int, now: float) -> None:
        """Scrape the front, which like vllm-router counts every request of a client, sent on or not."""
        self._keep(self._tries, Tries(now, count))

    def forget(self, name: str) -> None:
        """Drop the scrapes of an engine that is gone."""
        self._rings.pop(name, None)
        self._starts.pop(name, None)

    def observe(self, pool: str, engines: tuple[str, ...], now: float) -> PoolObservation | None:
        """Return what is known of a pool's engines by now; None before the first scrape is known.

        Where no newer scrape is known, it is the last observation with a greater age.
        """
        tries = self._window(self._tries, now)
        if not tries:
            return None
        newest, known = tries[-1].at, self._known.get(pool)
        if known is None or known.newest != newest or known.engines != engines or now > known.holds_until:
            known = self._known[pool] = self._observe(pool, engines, tries, now)
        observation, passed = known.observation, now - known.at
        if not passed or not observation.pods:
            return observation
        return replace(observation, age_seconds=observation.age_seconds + passed)

    def _observe(self, pool: str, engines: tuple[str, ...], tries: list[Tries], now: float) -> _Known:
        seen, windows, heard, oldest = [], [], [], tries[-1].at
        for name in engines:
            window = self._window(self._rings[name], now) if name in self._rings else []
            if not window or now - window[-1].at > STALE_SECONDS:
                continue
            heard.append((name, max(0.0, now - window[-1].at)))
            if len(window) > 1:
                seen.append(observe_engine(name, window[0], window[-1], now, self._starts[name]))
                windows.append(window)
                oldest = min(oldest, window[-1].at)
        observation = self._added_up(
            pool, _Seen(len(engines), tuple(seen), tuple(heard), _arrived(tries, now), _rate_of_all(windows))
        )
        holds_until = oldest + STALE_SECONDS if now - oldest <= STALE_SECONDS else math.inf
        return _Known(now, engines, tries[-1].at, holds_until, observation)

    def _added_up(self, pool: str, seen: _Seen) -> PoolObservation:
        """Return the last observation again while no count grows and nothing that is seen changes."""
        if any(each.grown.any() for each in seen.engines):
            return _added_up(seen)
        return self._idle.ask(pool, seen, _added_up)

    def _window(self, ring: deque[T], now: float) -> list[T]:
        """Return the scrapes known by now that are in the window before the newest of them."""
        latest = now - self._options.delay_seconds
        known = [taken for taken in ring if taken.at <= latest]
        earliest = known[-1].at - self._options.window_seconds if known else latest
        return [taken for taken in known if taken.at >= earliest]

    def _keep(self, ring: deque[T], taken: T) -> None:
        """Add a scrape, and drop those that no window of a fresh scrape can contain."""
        options = self._options
        ring.append(taken)
        while ring[0].at < taken.at - options.delay_seconds - STALE_SECONDS - options.window_seconds:
            ring.popleft()


def _added_up(seen: _Seen) -> PoolObservation:
    found = observe_engines(seen.expected, seen.engines, seen.arrived, seen.rate)
    return replace(found, heard=seen.heard)


def _rate_of_all(windows: list[list[Scrape]]) -> float | None:
    """Return requests per second of all engines, over the time in which all were seen, as `observe_pool` does."""
    seconds = common_seconds([window[-1].at - window[0].at for window in windows])
    return sum(_rate(window, seconds) for window in windows) if windows else None


def _rate(window: list[Scrape], seconds: float | None) -> float:
    first, last = window[0], window[-1]
    if seconds is not None:
        first = next((taken for taken in reversed(window) if taken.at <= last.at - seconds), first)
    return float(last.counts[0] - first.counts[0]) / max(last.at - first.at, seconds or 0.0)


def _arrived(tries: list[Tries], now: float) -> Arrived:
    """Return the arrivals since the newest scrape of the front that is old enough for a rate."""
    last = tries[-1]
    older = [taken for taken in tries if taken.at <= last.at - ARRIVAL_SECONDS]
    first = older[-1] if older else tries[0]
    seconds = last.at - first.at
    if now - last.at > STALE_SECONDS or seconds < ARRIVAL_SECONDS / 2:
        return Arrived()
    return Arrived(last.count - first.count, seconds, at_front=True)
