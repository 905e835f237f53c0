"""What is asked for: gangs of whole trays in racks of simulated nodes, and what others do meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from e2e.cluster.presets import nvl72_rack

if TYPE_CHECKING:
    from e2e.cluster.presets import SimulatedNode

NODES = 300
TRAYS_PER_RACK = 18
GPUS_PER_TRAY = 4
RACK_LABEL = "nvidia.com/gpu.clique"
SEED = 7


@dataclass(frozen=True, slots=True)
class Trouble:
    """What others do while gangs come, in seconds from the first one, on nodes drawn at random.

    `foreign` pods of one GPU each come `per_second`; nodes are cordoned, and others fall silent, at `at_seconds`.
    """

    foreign: int
    per_second: float
    at_seconds: float
    cordoned: int
    silent: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """Gangs by their trays, in the order in which they are asked for."""

    name: str
    says: str
    gangs: tuple[int, ...]
    trouble: Trouble | None = None

    @property
    def pods(self) -> int:
        """One for each tray."""
        return sum(self.gangs)

    @property
    def load(self) -> float:
        """Part of all trays that is asked for."""
        return self.pods / NODES

    @property
    def sizes(self) -> dict[int, int]:
        """How many gangs of each size, the largest first."""
        return {size: self.gangs.count(size) for size in sorted(set(self.gangs), reverse=True)}


def nodes() -> list[SimulatedNode]:
    """Full NVL72 racks, and one with the trays that are left."""
    full, rest = divmod(NODES, TRAYS_PER_RACK)
    racks = [*([TRAYS_PER_RACK] * full), rest]
    return [tray for index, trays in enumerate(racks) for tray in nvl72_rack(f"rack-{index:02}", trays=trays)]


def shuffled(sizes: dict[int, int]) -> tuple[int, ...]:
    """Gangs in an order that is the same in every run."""
    gangs = [size for size, count in sizes.items() for _ in range(count)]
    Random(SEED).shuffle(gangs)
    return tuple(gangs)


SCENARIOS = (
    Scenario("pairs", "100 gangs of 2 trays", (2,) * 100),
    Scenario(
        "mixed",
        "gangs of 1, 2, 4, 8 and 16 trays that ask for 98 % of all GPUs",
        shuffled({16: 5, 8: 9, 4: 15, 2: 26, 1: 30}),
    ),
    Scenario(
        "trouble",
        "such gangs for 75 % of all GPUs, while 40 pods of others take a GPU each, 6 nodes are cordoned and 4 are lost",
        shuffled({16: 4, 8: 7, 4: 12, 2: 20, 1: 17}),
        Trouble(foreign=40, per_second=4.0, at_seconds=5.0, cordoned=6, silent=4),
    ),
)
