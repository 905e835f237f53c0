"""The clock: one run of events against one placer. What has no place is lost, or waits with patience."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from bench.placement_bench.placers import Pending, Started

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.placement_bench.mixes import Arrival, Settings
    from bench.placement_bench.placers import Placer

GIVE_UP_SECONDS = 600.0  # a gang that is not whole by then is deleted, and rejected
WEDGED_SECONDS = 60.0  # bound in part for longer than that
SAMPLE_SECONDS = 600.0  # between two looks whether a large replica would fit
LARGE = 64
RETRY_SECONDS = 300.0  # between two tries for the queue: moves for one that waits are not looked for at every departure


class Event(NamedTuple):
    """Something that happens to a replica (or nobody); of events at one time the earlier one by `rank` comes first."""

    at: float
    rank: int
    number: int


ENDS, GIVES_UP, RETRIES, SAMPLES = range(4)


@dataclass(slots=True)
class Measured:
    """What one run did, counted after it has warmed up. GPUs weigh each replica; seconds where a name says so."""

    offered_gpus: int = 0
    rejected_gpus: float = 0.0
    gangs: int = 0
    wedged: set[int] = field(default_factory=set)  # gangs that were bound in part for too long
    served_gpu_seconds: float = 0.0
    samples: int = 0
    large_fits: int = 0
    large_could_fit: int = 0
    room_for_large: int = 0  # samples with as many GPUs free anywhere
    waits: list[float] = field(default_factory=list)
    moves: int = 0
    moved_gpus: int = 0
    admitted: set[int] = field(default_factory=set)  # of the whole run, in full or in part


class Simulation:
    """One placer under one list of arrivals. Without patience what has no place at once is lost."""

    def __init__(self, placer: Placer, known: Settings, capacity: int, patience_seconds: float = 0.0) -> None:
        self.placer, self.known, self.capacity, self.patience = placer, known, capacity, patience_seconds
        self.events: list[Event] = []
        self.by_number: dict[int, Arrival] = {}
        self.pending: dict[int, float] = {}  # gangs that hold some of their GPUs, since when
        self.queue: list[int] = []
        self.busy_gpus: dict[int, int] = {}
        self.measured = Measured()

    def run(self, arrivals: Sequence[Arrival]) -> Measured:
        """All events in order."""
        self.by_number = {each.number: each for each in arrivals}
        self._schedule(self.known.begin, SAMPLES)
        if self.patience:
            self._schedule(0.0, RETRIES)
        moved_before = (0, 0)
        for arrival in arrivals:
            self._until(arrival.at)
            if arrival.at < self.known.begin:
                moved_before = self.placer.moves, self.placer.moved_gpus
            self._arrives(arrival)
        self._until(self.known.end)
        for number in [*self.queue, *self.pending]:
            self._reject(number)
        self.measured.moves = self.placer.moves - moved_before[0]
        self.measured.moved_gpus = self.placer.moved_gpus - moved_before[1]
        return self.measured

    def _schedule(self, at: float, rank: int, number: int = -1) -> None:
        heapq.heappush(self.events, Event(at, rank, number))

    def _until(self, now: float) -> None:
        while self.events and self.events[0].at <= now:
            event = heapq.heappop(self.events)
            self.placer.advance(event.at)
            if event.rank == ENDS:
                self.busy_gpus.pop(event.number)
                self._free(event.number, event.at)
            elif event.rank == GIVES_UP:
                self._gives_up(event)
            elif event.rank == RETRIES:
                self._retry(event.at)
                self._schedule(event.at + RETRY_SECONDS, RETRIES)
            else:
                self._sample(event.at)
                self._schedule(event.at + SAMPLE_SECONDS, SAMPLES)
        self.placer.advance(now)

    def _counts(self, number: int) -> bool:
        return self.by_number[number].at >= self.known.begin

    def _arrives(self, arrival: Arrival) -> None:
        counted = self._counts(arrival.number)
        self.measured.offered_gpus += arrival.gpus if counted else 0
        self.measured.gangs += counted and arrival.gpus > self.known.gpus_per_tray
        if not self._offer(arrival.number, arrival.at):
            if self.patience:
                self.queue.append(arrival.number)
            else:
                self._reject(arrival.number)

    def _offer(self, number: int, now: float) -> bool:
        outcome = self.placer.offer(self.by_number[number], now)
        if isinstance(outcome, Pending):
            self.pending[number] = now
            self._schedule(now + GIVE_UP_SECONDS, GIVES_UP, number)
        elif outcome is not None:
            self._starts(number, now, outcome)
        return outcome is not None

    def _starts(self, number: int, now: float, started: Started) -> None:
        """It serves with a share of its GPUs; the rest of its demand is rejected."""
        arrival, begins = self.by_number[number], now + started.after_seconds
        ends = begins + arrival.life_seconds
        self._schedule(ends, ENDS, number)
        self.busy_gpus[number] = arrival.gpus
        self.measured.admitted.add(number)
        within = min(ends, self.known.end) - max(begins, self.known.begin)
        self.measured.served_gpu_seconds += max(0.0, within) * arrival.gpus
        if self._counts(number):
            self.measured.rejected_gpus += (1.0 - started.share) * arrival.gpus
            self.measured.waits.append(begins - arrival.at)

    def _reject(self, number: int) -> None:
        if self._counts(number):
            self.measured.rejected_gpus += self.by_number[number].gpus

    def _free(self, number: int, now: float) -> None:
        """Gangs that become whole by it start."""
        for whole in self.placer.leave(number):
            since = self.pending.pop(whole)
            self._note_wedged(whole, now - since)
            self._starts(whole, now, Started())

    def _gives_up(self, event: Event) -> None:
        since = self.pending.get(event.number)
        if since is not None and event.at - since >= GIVE_UP_SECONDS:
            del self.pending[event.number]
            self._note_wedged(event.number, event.at - since)
            self._free(event.number, event.at)
            if self.patience:
                self.queue.append(event.number)  # whoever asked for it asks again
            else:
                self._reject(event.number)

    def _note_wedged(self, number: int, seconds: float) -> None:
        if self._counts(number) and seconds > WEDGED_SECONDS:
            self.measured.wedged.add(number)

    def _retry(self, now: float) -> None:
        """First come first served, but who does not fit holds up nobody: of each size only the first is tried then."""
        without_place: set[int] = set()
        for number in list(self.queue):
            arrival = self.by_number[number]
            if now - arrival.at > self.patience:
                self.queue.remove(number)
                self._reject(number)
            elif arrival.gpus not in without_place:
                if self._offer(number, now):
                    self.queue.remove(number)
                else:
                    without_place.add(arrival.gpus)

    def _sample(self, now: float) -> None:
        if now >= self.known.end:
            return
        fits = self.placer.fits(LARGE)
        self.measured.samples += 1
        self.measured.large_fits += fits
        self.measured.large_could_fit += fits or self.placer.could_fit(LARGE)
        self.measured.room_for_large += self.capacity - sum(self.busy_gpus.values()) >= LARGE
