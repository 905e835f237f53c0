"""What arrives: sizes by `bench/mixes.yaml`, Poisson arrivals, exponential lifetimes; the same for every placer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

FILE = Path(__file__).parents[1] / "mixes.yaml"
HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Span:
    """How long a run takes, in lifetimes of mean length: those before counting begins, and those that count."""

    lifetime_seconds: float
    warm_up_lifetimes: float
    measured_lifetimes: float

    @property
    def begin(self) -> float:
        """When counting begins."""
        return self.warm_up_lifetimes * self.lifetime_seconds

    @property
    def end(self) -> float:
        """When the run ends."""
        return self.begin + self.measured_lifetimes * self.lifetime_seconds


@dataclass(frozen=True, slots=True)
class Rescaling(Span):
    """Pools that grow and shrink: mean life of a replica in seconds, mean replicas of a pool."""

    replicas: float


@dataclass(frozen=True, slots=True)
class Settings(Span):
    """`bench/mixes.yaml`, parsed: times in seconds, shares of arrivals by GPUs of a replica."""

    mixes: dict[str, dict[int, float]]
    loads: tuple[float, ...]
    racks: int
    trays_per_rack: int
    gpus_per_tray: int
    trays_down: tuple[float, ...]
    move_seconds: float
    patience_seconds: float
    rescaling: Rescaling


@cache
def settings() -> Settings:
    """What the file says."""
    read: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    rescaling = read["rescaling"]
    return Settings(
        mixes=read["mixes"],
        loads=tuple(read["loads"]),
        lifetime_seconds=read["lifetime_hours"] * HOUR_SECONDS,
        warm_up_lifetimes=read["warm_up_lifetimes"],
        measured_lifetimes=read["measured_lifetimes"],
        racks=read["racks"],
        trays_per_rack=read["trays_per_rack"],
        gpus_per_tray=read["gpus_per_tray"],
        trays_down=tuple(read["trays_down"]),
        move_seconds=read["move_seconds"],
        patience_seconds=read["patience_minutes"] * 60.0,
        rescaling=Rescaling(
            lifetime_seconds=rescaling["lifetime_hours"] * HOUR_SECONDS,
            warm_up_lifetimes=rescaling["warm_up_lifetimes"],
            measured_lifetimes=rescaling["measured_lifetimes"],
            replicas=rescaling["replicas"],
        ),
    )


@dataclass(frozen=True, slots=True)
class Arrival:
    """One replica that wants GPUs at a time for so many seconds. `number` is its own."""

    number: int
    at: float
    gpus: int
    life_seconds: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """One cell of the benchmark: which mix at which load, with which part of the trays down."""

    mix: str
    load: float
    trays_down: float = 0.0
    largest: int | None = None  # larger replicas are left out, and the others make up the load

    @property
    def shares(self) -> dict[int, float]:
        """Weights of sizes among the arrivals."""
        return {size: share for size, share in settings().mixes[self.mix].items() if size <= (self.largest or size)}

    def down(self, seed: int) -> frozenset[tuple[int, int]]:
        """(rack, tray) of those that are not there."""
        known = settings()
        trays = [(rack, tray) for rack in range(known.racks) for tray in range(known.trays_per_rack)]
        return frozenset(Random(f"down {seed}").sample(trays, round(self.trays_down * len(trays))))

    def capacity(self, seed: int) -> int:
        """GPUs of the trays that are up."""
        known = settings()
        return (known.racks * known.trays_per_rack - len(self.down(seed))) * known.gpus_per_tray


def arrivals(scenario: Scenario, seed: int) -> tuple[Arrival, ...]:
    """All replicas of a run in order of time; those that begin it arrive at 0, as many as the load asks for."""
    known, chance = settings(), Random(f"arrivals {scenario.mix} {scenario.load} {seed}")
    sizes, weights = tuple(scenario.shares), tuple(scenario.shares.values())
    mean_gpus = sum(size * share for size, share in scenario.shares.items()) / sum(weights)
    together = scenario.load * scenario.capacity(seed) / mean_gpus
    per_second = together / known.lifetime_seconds
    times = [0.0] * round(together)
    while (after := (times[-1] if times else 0.0) + chance.expovariate(per_second)) < known.end:
        times.append(after)
    return tuple(
        Arrival(number, at, chance.choices(sizes, weights)[0], chance.expovariate(1.0 / known.lifetime_seconds))
        for number, at in enumerate(times)
    )
