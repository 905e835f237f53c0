"""What the simulation asks of a placer, and the rules of other schedulers: whole replicas or none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.placement_bench.mixes import Arrival, Settings

Trays = list[tuple[int, int, int]]  # (rack, tray, GPUs) that a replica holds


@dataclass(frozen=True, slots=True)
class Started:
    """A replica has its place and serves after a while, with a share of the capacity that was asked for."""

    share: float = 1.0
    after_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Pending:
    """Some of its pods hold GPUs, the others wait: it serves when the placer says so, or is given up."""


Outcome = Started | Pending | None  # None: there is no place, and nothing is held


class Placer(Protocol):
    """Who decides where replicas go. Times are seconds of the simulation."""

    moves: int  # so far, and the GPUs that they held twice
    moved_gpus: int

    def offer(self, arrival: Arrival, now: float, siblings: Sequence[int] = ()) -> Outcome:
        """Place it, or not; `siblings` are replicas of its pool."""

    def victim(self, numbers: Sequence[int]) -> int:
        """Which of the replicas of a pool leaves when it shrinks."""

    def leave(self, number: int) -> Iterable[int]:
        """It is gone (or given up); answers with pending replicas that are whole now."""

    def advance(self, now: float) -> None:
        """What ends by itself until now."""

    def fits(self, gpus: int) -> bool:
        """Whether a replica of that size would get a place now, at once and without moves."""

    def could_fit(self, gpus: int) -> bool:
        """The same, with moves if the placer makes any."""


class Racks:
    """Free GPUs of every tray, and of every rack how many pods of 1, 2 and 4 GPUs fit."""

    def __init__(self, known: Settings, down: Iterable[tuple[int, int]]) -> None:
        self.per_tray = known.gpus_per_tray
        self.free = [[self.per_tray] * known.trays_per_rack for _ in range(known.racks)]
        for rack, tray in down:
            self.free[rack][tray] = 0
        self.sizes = [size for size in (1, 2, 4) if size <= self.per_tray]
        self.pods = {size: [sum(gpus // size for gpus in trays) for trays in self.free] for size in self.sizes}

    def pod(self, gpus: int) -> tuple[int, int]:
        """(pods, GPUs of each) of a replica: above one tray whole trays."""
        return max(1, gpus // self.per_tray), min(gpus, self.per_tray)

    def take(self, rack: int, tray: int, gpus: int) -> None:
        """Hold GPUs of a tray; a negative number gives them back."""
        before = self.free[rack][tray]
        self.free[rack][tray] = before - gpus
        for size in self.sizes:
            self.pods[size][rack] += (before - gpus) // size - before // size

    def gpus_in(self, rack: int) -> int:
        """Free GPUs of a rack."""
        return self.pods[1][rack]

    def fits(self, gpus: int) -> bool:
        """Whether one rack holds it."""
        pods, size = self.pod(gpus)
        return max(self.pods[size]) >= pods


class OneRack(ABC):
    """A rule that picks a rack that holds the whole replica, and trays in it."""

    def __init__(self, racks: Racks) -> None:
        self.racks = racks
        self.held: dict[int, Trays] = {}
        self.moves = self.moved_gpus = 0

    def offer(self, arrival: Arrival, now: float, siblings: Sequence[int] = ()) -> Outcome:  # noqa: ARG002
        pods, size = self.racks.pod(arrival.gpus)
        fitting = [rack for rack, room in enumerate(self.racks.pods[size]) if room >= pods]
        if not fitting:
            return None
        rack = self.choose(fitting, size)
        trays = self.racks.free[rack]
        chosen = sorted((self.order(gpus, size), tray) for tray, gpus in enumerate(trays) if gpus >= size)[:pods]
        self.held[arrival.number] = [(rack, tray, size) for _, tray in chosen]
        for _, tray in chosen:
            self.racks.take(rack, tray, size)
        return Started()

    @abstractmethod
    def choose(self, racks: list[int], size: int) -> int:
        """One of the racks that hold the replica, whose pods have `size` GPUs."""

    @abstractmethod
    def order(self, free: int, size: int) -> int:
        """Trays with the least come first."""

    def victim(self, numbers: Sequence[int]) -> int:
        """The newest, as a Deployment's and a LeaderWorkerSet's highest index."""
        return max(numbers)

    def leave(self, number: int) -> Iterable[int]:
        for rack, tray, gpus in self.held.pop(number, ()):
            self.racks.take(rack, tray, -gpus)
        return ()

    def advance(self, now: float) -> None:  # noqa: B027 - a default, which placers with moves replace
        """Nothing ends by itself."""

    def fits(self, gpus: int) -> bool:
        return self.racks.fits(gpus)

    def could_fit(self, gpus: int) -> bool:
        return self.racks.fits(gpus)


class Kueue(OneRack):
    """Topology-aware scheduling of Kueue, profile BestFit, rack required: counts pods, at the rack and at the node.

    Of the domains that hold all pods the one in which the fewest fit, then the first by name
    (`findBestFitDomain` in `pkg/cache/.../tas_flavor_snapshot.go`).
    """

    def choose(self, racks: list[int], size: int) -> int:
        room = self.racks.pods[size]
        return min(racks, key=lambda rack: room[rack])

    def order(self, free: int, size: int) -> int:
        return free // size


class Kai(OneRack):
    """Bin packing of KAI: the rack, and then the node, with the fewest free GPUs. Its consolidation is left out."""

    def choose(self, racks: list[int], size: int) -> int:  # noqa: ARG002
        return min(racks, key=self.racks.gpus_in)

    def order(self, free: int, size: int) -> int:  # noqa: ARG002
        return free


class Pooled:
    """The bound: all trays in one rack, so that only the trays themselves are in the way."""

    def __init__(self, racks: Racks) -> None:
        self.racks = racks
        self.held: dict[int, Trays] = {}
        self.moves = self.moved_gpus = 0
        self.trays: list[set[tuple[int, int]]] = [set() for _ in range(racks.per_tray + 1)]  # by free GPUs
        for rack, trays in enumerate(racks.free):
            for tray, gpus in enumerate(trays):
                self.trays[gpus].add((rack, tray))

    def offer(self, arrival: Arrival, now: float, siblings: Sequence[int] = ()) -> Outcome:  # noqa: ARG002
        pods, size = self.racks.pod(arrival.gpus)
        tightest = next((trays for trays in self.trays[size:] if len(trays) >= pods), None)
        if tightest is None:
            return None
        self.held[arrival.number] = [(*tray, size) for tray in islice(tightest, pods)]
        for rack, tray, gpus in self.held[arrival.number]:
            self._take(rack, tray, gpus)
        return Started()

    def _take(self, rack: int, tray: int, gpus: int) -> None:
        self.trays[self.racks.free[rack][tray]].discard((rack, tray))
        self.racks.take(rack, tray, gpus)
        self.trays[self.racks.free[rack][tray]].add((rack, tray))

    def victim(self, numbers: Sequence[int]) -> int:
        """The newest, as a Deployment's and a LeaderWorkerSet's highest index."""
        return max(numbers)

    def leave(self, number: int) -> Iterable[int]:
        for rack, tray, gpus in self.held.pop(number, ()):
            self._take(rack, tray, -gpus)
        return ()

    def advance(self, now: float) -> None:
        """Nothing ends by itself."""

    def fits(self, gpus: int) -> bool:
        pods, size = self.racks.pod(gpus)
        return any(len(trays) >= pods for trays in self.trays[size:])

    def could_fit(self, gpus: int) -> bool:
        return self.fits(gpus)
