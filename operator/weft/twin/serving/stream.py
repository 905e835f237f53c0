"""Serves one stream of requests: a front, engines that come and go, their scrapes, and the answers.

It goes from event to event in order of time: arrivals, checks of engines in which a request may have ended, and
scheduled calls for scrapes, retries and clients that lose patience.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from weft.twin.serving.agenda import Agenda
from weft.twin.serving.dispatch import Dispatch, begun
from weft.twin.serving.scrapes import Scrapes
from weft.twin.serving.served import ServedEngine

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from weft.domain.snapshot import PoolObservation
    from weft.domain.start_up import MeasuredStart
    from weft.twin.engine.speed import EngineSpeed
    from weft.twin.outcome import Answers
    from weft.twin.serving.front import FrontOptions
    from weft.twin.serving.scrapes import ScrapeOptions
    from weft.twin.traffic.trace import Trace


@dataclass(frozen=True, slots=True)
class Route:
    """Which pools serve a stream: `pool`, which for a split is the prefill pool, and `decode_pool` for a split only."""

    stream: str
    pool: str
    decode_pool: str | None = None
    namespace: str = "default"

    @property
    def pools(self) -> tuple[str, ...]:
        """The pools of the stream, in the order in which a request goes through them."""
        return (self.pool,) if self.decode_pool is None else (self.pool, self.decode_pool)


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """A trace of requests, and the pools that serve them."""

    trace: Trace
    route: Route


class Serving:
    """One stream of requests, its front and its engines. Times are seconds since the trace began, and never go back.

    A change at some time comes after all traffic up to then.
    """

    def __init__(self, trace: Trace, route: Route, front: FrontOptions, scrapes: ScrapeOptions, seed: int) -> None:
        """Start without engines; the same seed and the same calls give the same outcome."""
        self._trace = trace
        self._agenda = Agenda()
        self._front = Dispatch(trace, route.pools, front, self._agenda)
        self._scrapes = Scrapes(scrapes, seed)
        self._interval = scrapes.interval_seconds
        self._engines: dict[str, ServedEngine] = {}
        self._started = 0
        self._arrivals = array("d", trace.arrivals.tobytes())
        self._row, self._arrival = 0, self._arrivals[0] if len(trace) else math.inf  # the next arrival
        self._now = self._awake = -math.inf  # how far it went, and up to where more than scrapes happened

    @property
    def retried(self) -> int:
        """Attempts that were not the first one of their request."""
        return self._front.retried

    def start(self, engine: str, pool: str, speed: EngineSpeed, now: float, start: MeasuredStart | None = None) -> None:
        """Add an engine that is ready and routed from now on; it gets the requests that wait at the front.

        Raises `ValueError` for a name that is taken, and `KeyError` for a pool that does not serve this stream.
        """
        self.advance(now)
        if engine in self._engines:
            raise ValueError(f"{engine} runs already")
        if self._trace.blocks and not speed.hash_tokens:
            speed = replace(speed, hash_tokens=self._trace.block_tokens)
        self._started += 1
        served = ServedEngine(pool, speed, now, self._started)
        served.start = start
        self._front.add(served, now)
        self._engines[engine] = served

    def unroute(self, engine: str, now: float) -> None:
        """Route no new request to an engine; requests inside go on."""
        self.advance(now)
        self._front.remove(self._engines[engine])

    def end(self, engine: str, now: float) -> None:
        """Remove an engine, with the knowledge of the front: requests still inside are lost now."""
        self.advance(now)
        served = self._engines.pop(engine)
        self._scrapes.forget(engine)
        self._front.die(served, now)
        self._front.bury(served, now)

    def kill(self, engine: str, now: float) -> None:
        """Let an engine's node die: nothing comes from it, and the front still routes to it until it notices."""
        self.advance(now)
        self._front.kill(self._engines[engine], now)

    def load(self, engine: str) -> int:
        """Count the requests inside an engine, and prompts whose KV is still to be fetched; 0 if it is dead or gone."""
        served = self._engines.get(engine)
        if served is None or not served.alive:
            return 0
        self._front.look(served, self._now)
        return served.engine.load + len(served.kept)

    def advance(self, until: float) -> None:
        """Run all traffic and engines up to a time; raises `ValueError` for a time in the past.

        It may be one that `rest` passed over, where nothing happened but scrapes.
        """
        if self._awake <= until <= self._now and self._awake < self._now:
            return
        if until < self._now:
            raise ValueError(f"it is {self._now} already, and not {until}")
        if not self._agenda.calls:
            self._call_scrape(math.ceil(min(0.0, until) / self._interval))
        self._go_on(until)
        self._now = self._awake = until

    @property
    def rests_until(self) -> float:
        """When the next request arrives; now, as long as any is open."""
        if self._row < len(self._arrivals) and self._front.ledger.ended < self._row:
            return self._now
        idle = all(not served.engine.load and not served.kept for served in self._engines.values())
        return self._arrival if idle else self._now

    def rest(self, until: float) -> None:
        """Go on to a time before which nothing but scrapes happens; it may still be told of changes before it."""
        awake = self._awake
        self.advance(until)
        self._awake = awake

    def _go_on(self, until: float) -> None:
        """Run what is due up to a time, in order; of what is due together, arrivals come first and checks last."""
        agenda, front = self._agenda, self._front
        calls, looks = agenda.calls, agenda.looks
        while True:
            arrival, called = self._arrival, calls[0][0]
            due = arrival if arrival <= called else called  # noqa: FURB136 - `min` takes several times as long
            if looks and looks[0][0] < due:
                due = looks[0][0]
                if due > until:
                    return
                served = agenda.next_look()
                if served is not None:
                    front.look(served, due)
            elif due > until:
                return
            elif due == arrival:
                self._arrive(due)
            else:
                agenda.next_call()

    def observe(self, pool: str, expected: Sequence[str], now: float) -> PoolObservation | None:
        """Return what is known by now of these engines of a pool; None before the first scrape is known."""
        self.advance(now)
        return self._scrapes.observe(pool, tuple(expected), now)

    def sample(self, pool: str) -> tuple[int, int, float]:
        """Return a pool's waiting requests (at the front or for capacity), running ones, and mean use of KV memory."""
        alive = [served for served in self._engines.values() if served.pool == pool and served.alive]
        for served in alive:
            self._front.hear(served, self._now)
        engines = [served.engine for served in alive]
        return (
            self._front.waiting(pool) + sum(engine.waiting_for_capacity for engine in engines),
            sum(engine.running for engine in engines),
            fmean(engine.kv_usage for engine in engines) if engines else 0.0,
        )

    @property
    def ended_at(self) -> float | None:
        """When the last request was answered or failed; None while any is open or yet to come."""
        for served in self._engines.values():
            if served.alive:
                self._front.hear(served, self._now)
        return self._front.ledger.ended_at if self._front.ledger.is_closed else None

    def answers(self) -> Answers:
        """Return every request that has ended; those without a first token for a minute count as failed.

        Other open requests are left out: after enough time has been advanced there are none.
        """
        for served in self._engines.values():
            self._front.look(served, self._now)
        return self._front.ledger.answers(self._row, self._now, begun(self._engines.values()))

    def unfinished(self) -> NDArray[np.float64]:
        """Return the arrival times, in seconds of the trace, of the requests that `answers` leaves out."""
        return self._front.ledger.unfinished(self._row, self._now, begun(self._engines.values()))

    def _arrive(self, now: float) -> None:
        row = self._row
        self._row = row + 1
        self._arrival = self._arrivals[row + 1] if row + 1 < len(self._arrivals) else math.inf
        self._front.ask(row, now)

    def _call_scrape(self, turn: int) -> None:
        """Schedule scrape number `turn`, at that multiple of the interval."""
        self._agenda.call(turn * self._interval, lambda now: self._scrape(turn, now))

    def _scrape(self, turn: int, now: float) -> None:
        self._call_scrape(turn + 1)
        if not self._scrapes.in_gap(now):
            for name, served in self._engines.items():
                if served.alive and not self._scrapes.loses_one():
                    self._front.hear(served, now)
                    self._scrapes.take(name, served, now)
            self._scrapes.count_tries(self._front.tried, now)
