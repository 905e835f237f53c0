"""Long-lived pools that grow and shrink, one replica at a time: who leaves is the placer's choice."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from random import Random
from typing import TYPE_CHECKING

from bench.placement_bench.mixes import Arrival, settings
from bench.placement_bench.simulation import LARGE, Measured

if TYPE_CHECKING:
    from bench.placement_bench.mixes import Scenario
    from bench.placement_bench.placers import Placer


@dataclass(frozen=True, slots=True)
class Change:
    """A pool wants one replica more or one less, at a time in seconds."""

    at: float
    pool: int
    step: int


@dataclass(frozen=True, slots=True)
class Fleet:
    """GPUs of one replica of each pool, and how many replicas each wants, in order of time."""

    gpus: tuple[int, ...]
    changes: tuple[Change, ...]


def fleet(scenario: Scenario, seed: int) -> Fleet:
    """Pools whose mean demand is the load; wishes rise at a constant rate and fall in proportion to what is wanted."""
    known, chance = settings(), Random(f"fleet {scenario.mix} {scenario.load} {seed}")
    shares, mean = known.mixes[scenario.mix], known.rescaling.replicas
    demand, gpus = scenario.load * scenario.capacity(seed), list[int]()
    while sum(gpus) * mean < demand:
        gpus += chance.choices(tuple(shares), tuple(shares.values()))
    gpus[-1] = max(size for size in shares if size <= gpus[-1] - (sum(gpus) - demand / mean) or size == min(shares))
    changes = [change for pool in range(len(gpus)) for change in _wishes(pool, chance)]
    return Fleet(tuple(gpus), tuple(sorted(changes, key=lambda each: each.at)))


def _wishes(pool: int, chance: Random) -> list[Change]:
    known = settings()
    mean, life = known.rescaling.replicas, known.rescaling.lifetime_seconds
    end = known.rescaling.end
    wanted = round(mean)
    changes = [Change(chance.random(), pool, 1) for _ in range(wanted)]
    now = 1.0
    while True:
        up, down = mean / life, wanted / life
        now += chance.expovariate(up + down)
        if now >= end:
            return changes
        step = 1 if chance.random() < up / (up + down) else -1
        wanted += step
        changes.append(Change(now, pool, step))


class Rescaled:
    """One placer under the wishes of a fleet. What a pool lacks is tried again whenever something leaves."""

    def __init__(self, placer: Placer, wishes: Fleet, capacity: int) -> None:
        self.placer, self.fleet, self.capacity = placer, wishes, capacity
        self.wanted = [0] * len(wishes.gpus)
        self.present: list[list[int]] = [[] for _ in wishes.gpus]
        self.short: list[int] = []  # pools with less than they want, the longest first
        self.numbers = count()
        self.measured = Measured()
        self.lacked_gpu_seconds = self.wanted_gpu_seconds = 0.0

    def run(self) -> Measured:
        """All wishes in order. Rejected is what is lacking, over time; offered is what is wanted."""
        begin, end = settings().rescaling.begin, settings().rescaling.end
        before, moved = 0.0, (0, 0)
        for change in self.fleet.changes:
            self._pass_time(max(before, begin), change.at)
            if change.at < begin:
                moved = self.placer.moves, self.placer.moved_gpus
            before = change.at
            self.placer.advance(change.at)
            self._change(change)
        self._pass_time(before, end)
        scale = 1.0 / (end - begin)
        self.measured.offered_gpus = round(self.wanted_gpu_seconds * scale)
        self.measured.rejected_gpus = self.lacked_gpu_seconds * scale
        self.measured.moves = self.placer.moves - moved[0]
        self.measured.moved_gpus = self.placer.moved_gpus - moved[1]
        return self.measured

    def _pass_time(self, since: float, until: float) -> None:
        seconds = until - since
        if seconds <= 0.0:
            return
        wanted = sum(gpus * count for gpus, count in zip(self.fleet.gpus, self.wanted, strict=True))
        there = sum(gpus * len(each) for gpus, each in zip(self.fleet.gpus, self.present, strict=True))
        self.wanted_gpu_seconds += wanted * seconds
        self.lacked_gpu_seconds += max(0, wanted - there) * seconds
        self.measured.served_gpu_seconds += there * seconds
        self.measured.samples += 1
        self.measured.large_fits += self.placer.fits(LARGE)
        self.measured.room_for_large += self.capacity - there >= LARGE

    def _change(self, change: Change) -> None:
        pool = change.pool
        self.wanted[pool] += change.step
        if change.step > 0:
            self._grow(pool, change.at)
        elif len(self.present[pool]) > self.wanted[pool]:
            leaving = self.placer.victim(self.present[pool])
            self.present[pool].remove(leaving)
            self.placer.leave(leaving)
            self._retry(change.at)
        self._note(pool)

    def _grow(self, pool: int, now: float) -> bool:
        while len(self.present[pool]) < self.wanted[pool]:
            arrival = Arrival(next(self.numbers), now, self.fleet.gpus[pool], 0.0)
            if self.placer.offer(arrival, now, self.present[pool]) is None:
                return False
            self.present[pool].append(arrival.number)
        return True

    def _retry(self, now: float) -> None:
        without_place: set[int] = set()
        for pool in list(self.short):
            if self.fleet.gpus[pool] not in without_place and not self._grow(pool, now):
                without_place.add(self.fleet.gpus[pool])
            self._note(pool)

    def _note(self, pool: int) -> None:
        lacks = len(self.present[pool]) < self.wanted[pool]
        if lacks and pool not in self.short:
            self.short.append(pool)
        elif not lacks and pool in self.short:
            self.short.remove(pool)
