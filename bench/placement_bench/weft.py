"""Weft as a placer: `find_slot`, `repack` and `choose_victims` of the operator, with each lever on or off."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING

from bench.placement_bench.placers import Started
from bench.placement_bench.splits import ACCELERATOR, splits
from bench.records import in_clique, node_record
from weft.catalog import load
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, Shape
from weft.domain.spec import PlacementSpec
from weft.domain.status import Assignment
from weft.fabric import build_fabric
from weft.placement import (
    Departure,
    FreeMap,
    Hold,
    Movable,
    Neighbours,
    Repacking,
    Requirements,
    Slot,
    choose_victims,
    find_slot,
    repack,
)
from weft.placement.search import ALONE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.placement_bench.mixes import Arrival, Settings
    from bench.placement_bench.placers import Outcome
    from weft.domain.cluster import NodeRecord

ANYWHERE = PlacementSpec()
HOLDER = "bench"


@dataclass(frozen=True, slots=True)
class Levers:
    """What Weft may do for a replica without a slot: choose smaller shapes, and move so many others."""

    shapes: bool = False
    moves: int = 0

    def __str__(self) -> str:
        """`shapes, 8 moves`, or `off`."""
        words = [*(["shapes"] if self.shapes else []), *([f"{self.moves} moves"] if self.moves else [])]
        return ", ".join(words) or "off"


@dataclass(slots=True)
class _Replica:
    """One that has its place; nobody moves it before `settled`."""

    movable: Movable
    settled: float


@dataclass(frozen=True, slots=True, order=True)
class _Source:
    """GPUs that replicas leave behind at the end of their moves."""

    until: float
    holds: tuple[tuple[str, int], ...] = field(compare=False)


class Weft:
    """Counts GPUs as the operator does, on a fabric made of node records."""

    def __init__(self, known: Settings, down: Iterable[tuple[int, int]], levers: Levers) -> None:
        self.free = FreeMap.of(build_fabric(node_records(known, frozenset(down)), (), load()))
        self.levers, self.move_seconds = levers, known.move_seconds
        self.splits: Mapping[int, tuple[tuple[int, float], ...]] = splits() if levers.shapes else {}
        self.required = {size: _required(size, known.gpus_per_tray) for size in (1, 2, 4, 8, 16, 32, 64)}
        self.replicas: dict[str, _Replica] = {}
        self.owners: dict[int, list[str]] = {}
        self.sources: list[_Source] = []
        self.moves = self.moved_gpus = 0
        self.seconds: list[float] = []  # of every decision

    def offer(self, arrival: Arrival, now: float, siblings: Sequence[int] = ()) -> Outcome:
        near = Neighbours(tuple(node for number in siblings for node in self.nodes_of(number))) if siblings else ALONE
        began = perf_counter()
        outcome = self._place(arrival, now, near)
        self.seconds.append(perf_counter() - began)
        return outcome

    def _place(self, arrival: Arrival, now: float, near: Neighbours) -> Outcome:
        """Whole if there is a slot or moves open one, else in parts."""
        for parts, share in ((1, 1.0), *self.splits.get(arrival.gpus, ())):
            placed = self._parts(arrival.number, self.required[arrival.gpus // parts], parts, now, near)
            if placed is not None:
                return Started(share, placed)
        return None

    def _parts(self, number: int, required: Requirements, parts: int, now: float, near: Neighbours) -> float | None:
        """Place all parts or none; answers after how many seconds the last one can start. Moves are for the whole."""
        required = replace(required, neighbours=near) if near.siblings else required
        taken: list[str] = []
        after = 0.0
        for part in range(parts):
            owner = f"{number:07d}.{part}"
            slot = find_slot(required.shape, ANYWHERE, self.free, near)
            nodes = slot.nodes if isinstance(slot, Slot) else None
            if nodes is None and parts == 1 and self.levers.moves:
                opened = repack(required, self._movable(now), self.free, self.levers.moves)
                nodes, after = (opened.slot.nodes, self._carry_out(opened, now)) if opened else (None, after)
            if nodes is None:
                self._remove(taken)
                return None
            taken.append(owner)
            self._settle(Movable(owner, required, nodes), now + after)
        self._leave_sources(now, after)
        self.owners[number] = taken
        return after

    def _settle(self, movable: Movable, settled: float) -> None:
        for node in movable.nodes:
            self.free.reserve(Hold(node, movable.gpus_per_pod, HOLDER))
        self.replicas[movable.owner] = _Replica(movable, settled)

    def _movable(self, now: float) -> list[Movable]:
        """Everybody who serves; who starts or moves does not yet."""
        return [each.movable for each in self.replicas.values() if each.settled <= now]

    def _carry_out(self, opened: Repacking, now: float) -> float:
        """Start all moves at once. Answers when they end, in seconds from now."""
        after = self.move_seconds if opened.moves else 0.0
        for move in opened.moves:
            old = self.replicas[move.owner].movable
            self._release(old)
            self._settle(replace(old, nodes=move.target), now + after)
        self.sources.append(_Source(0.0, tuple((node, m.gpus_per_pod) for m in opened.moves for node in m.source)))
        self.moves += len(opened.moves)
        self.moved_gpus += opened.gpus
        return after

    def _leave_sources(self, now: float, after: float) -> None:
        """What nobody else has of the sources is held until the moves are over: all of it until the last one is."""
        if self.sources and not self.sources[-1].until:
            holds = self.sources.pop().holds
            left = tuple((node, gpus) for node, most in holds if (gpus := min(most, self._take(node, most))))
            self.sources.append(_Source(now + after, left))

    def _take(self, node: str, most: int) -> int:
        gpus = min(most, self.free.on(node))
        self.free.reserve(Hold(node, gpus, HOLDER))
        return gpus

    def _release(self, movable: Movable) -> None:
        for node in movable.nodes:
            self.free.release(Hold(node, movable.gpus_per_pod, HOLDER))

    def _remove(self, owners: Iterable[str]) -> None:
        for owner in owners:
            self._release(self.replicas.pop(owner).movable)

    def victim(self, numbers: Sequence[int]) -> int:
        leaving = [Departure(self._assignment(number), ready=True, outdated=False) for number in numbers]
        return choose_victims(leaving, 1, self.free)[0].assignment.replica

    def _assignment(self, number: int) -> Assignment:
        first = self.replicas[self.owners[number][0]].movable
        return Assignment(number, "", self.nodes_of(number), first.gpus_per_pod, since=0.0)

    def leave(self, number: int) -> Iterable[int]:
        self._remove(self.owners.pop(number, ()))
        return ()

    def advance(self, now: float) -> None:
        for source in [each for each in self.sources if each.until <= now]:
            self.sources.remove(source)
            for node, gpus in source.holds:
                self.free.release(Hold(node, gpus, HOLDER))

    def nodes_of(self, number: int) -> tuple[str, ...]:
        """Where all of its parts are."""
        return tuple(node for owner in self.owners[number] for node in self.replicas[owner].movable.nodes)

    def fits(self, gpus: int) -> bool:
        return isinstance(find_slot(self.required[gpus].shape, ANYWHERE, self.free), Slot)

    def could_fit(self, gpus: int, now: float = float("inf")) -> bool:
        if self.fits(gpus):
            return True
        return repack(self.required[gpus], self._movable(now), self.free, self.levers.moves) is not None


def node_records(known: Settings, down: frozenset[tuple[int, int]]) -> list[NodeRecord]:
    """Trays as their nodes look in a cluster; those that are down are not ready."""
    product = load().accelerator(ACCELERATOR).products[0]
    return [
        node_record(
            f"rack-{rack}-tray-{tray}",
            product,
            known.gpus_per_tray,
            in_clique(f"rack-{rack}.1"),
            ready=(rack, tray) not in down,
        )
        for rack in range(known.racks)
        for tray in range(known.trays_per_rack)
    ]


def _required(gpus: int, per_tray: int) -> Requirements:
    shape = Shape(
        EngineName.VLLM,
        ACCELERATOR,
        Precision.FP8,
        data_parallel=gpus,
        expert_parallel=gpus,
        gpus_per_pod=min(gpus, per_tray),
    )
    return Requirements(shape, ANYWHERE)
