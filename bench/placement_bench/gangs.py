"""Pods of a gang that are scheduled one by one: the first lands where it fits, the rest have to follow into its rack.

So LeaderWorkerSet users have it on the stock scheduler: required pod affinity on the rack, and nobody who looks whether
the rack holds the gang. Pods that find no room stay pending, while the others hold their GPUs; pending ones take what
becomes free in their rack, the oldest gang first. The simulation gives a gang up that is not whole in time.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from bench.placement_bench.placers import Pending, Started

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

    from bench.placement_bench.mixes import Arrival
    from bench.placement_bench.placers import Outcome, Racks, Trays


class Affinity:
    """The stock scheduler: LeastAllocated (`spread`) or MostAllocated scores of GPUs, ties at random as it does."""

    def __init__(self, racks: Racks, chance: Random, *, spread: bool) -> None:
        self.racks, self.chance, self.spread = racks, chance, spread
        self.held: dict[int, Trays] = {}
        self.missing: dict[int, dict[int, int]] = defaultdict(dict)  # rack -> gang -> pods that wait, oldest first
        self.moves = self.moved_gpus = 0

    def offer(self, arrival: Arrival, now: float, siblings: Sequence[int] = ()) -> Outcome:  # noqa: ARG002
        pods, size = self.racks.pod(arrival.gpus)
        rack = self._bind(arrival.number, size, range(len(self.racks.free)))
        if rack is None:
            return None
        for bound in range(1, pods):
            if self._bind(arrival.number, size, (rack,)) is None:
                self.missing[rack][arrival.number] = pods - bound
                return Pending()
        return Started()

    def _bind(self, number: int, size: int, racks: Iterable[int]) -> int | None:
        """Put one pod on the node that scores best; the rack that it is in."""
        candidates = [rack for rack in racks if self.racks.pods[size][rack]]
        rooms = [(gpus, rack, tray) for rack in candidates for tray, gpus in enumerate(self.racks.free[rack])]
        rooms = [room for room in rooms if room[0] >= size]
        if not rooms:
            return None
        best = (max if self.spread else min)(room[0] for room in rooms)
        _, rack, tray = self.chance.choice([room for room in rooms if room[0] == best])
        self.racks.take(rack, tray, size)
        self.held.setdefault(number, []).append((rack, tray, size))
        return rack

    def victim(self, numbers: Sequence[int]) -> int:
        """The newest, as a Deployment's and a LeaderWorkerSet's highest index."""
        return max(numbers)

    def leave(self, number: int) -> Iterable[int]:
        left = self.held.pop(number, [])
        for rack, tray, gpus in left:
            self.racks.take(rack, tray, -gpus)
        whole: list[int] = []
        for rack in {rack for rack, _, _ in left}:
            self.missing[rack].pop(number, None)
            whole += self._follow(rack)
        return whole

    def _follow(self, rack: int) -> list[int]:
        """Bind pods that waited for room in their rack; gangs that are whole now."""
        waiting, whole = self.missing[rack], []
        for number in list(waiting):
            while waiting[number] and self._bind(number, self.racks.per_tray, (rack,)) is not None:
                waiting[number] -= 1
            if not waiting[number]:
                del waiting[number]
                whole.append(number)
        return whole

    def advance(self, now: float) -> None:
        """Nothing ends by itself."""

    def fits(self, gpus: int) -> bool:
        return self.racks.fits(gpus)

    def could_fit(self, gpus: int) -> bool:
        return self.racks.fits(gpus)
