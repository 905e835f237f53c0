"""How long a replica takes from its binding to its first answer, and the phases of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.texts.figures import seconds
from weft.domain.values.made_often import made_often

if TYPE_CHECKING:
    from collections.abc import Iterable

# The phases of a measured start, in order: the node sets the pod up (volumes, devices, network), pulls images, init
# containers download; then the engine loads weights, where it reports how long, and does the rest of its start.
PHASES = ("setup", "image", "download", "weights", "engine")
# How many of a pool's last starts count: what only one start in three needed is in none of the medians.
KEPT_STARTS = 5
LONGEST_PHASE_SECONDS = 36_000  # longer is a pod that was unready for a while


@made_often
@dataclass(frozen=True, slots=True)
class MeasuredStart:
    """The duration of a replica's successful start: whole seconds of each of `PHASES`.

    `replica` is its id, which identifies the start: replica ids of a pool only grow.
    """

    replica: int
    phases: tuple[int, int, int, int, int]


def usual_phases(starts: Iterable[MeasuredStart]) -> tuple[int, ...]:
    """The upper median of each phase in seconds; empty if there are no starts."""
    return tuple([sorted(each)[len(each) // 2] for each in zip(*(start.phases for start in starts), strict=True)])


@dataclass(frozen=True, slots=True)
class StartUp:
    """Estimated seconds of a start: pulling the engine's `image`, loading the `weights`, the `engine`'s own work.

    `measured` is what a start of the pool takes, all phases together; it replaces the estimate, and is None before.
    `phases` are its parts, in the order of `PHASES`, empty where they are not known.
    """

    image: int
    weights: int
    engine: int
    measured: int | None = None
    phases: tuple[int, ...] = ()

    @property
    def estimated(self) -> int:
        """The estimated total in seconds."""
        return self.image + self.weights + self.engine

    @property
    def in_use(self) -> int:
        """Seconds to count on for a start: measured, else estimated."""
        return self.estimated if self.measured is None else self.measured

    @property
    def basis(self) -> str:
        """The time in use and its source: `140 s measured`, `316 s estimated`."""
        return f"{seconds(self.in_use)} {'estimated' if self.measured is None else 'measured'}"

    @property
    def parts(self) -> str:
        """The estimated parts: `image 100 s, weights 68 s, engine 148 s`."""
        return _listed((("image", self.image), ("weights", self.weights), ("engine", self.engine)))

    @property
    def measured_parts(self) -> str:
        """The measured phases that took any time: `image 40 s, engine 100 s`."""
        return _listed((name, value) for name, value in zip(PHASES, self.phases, strict=False) if value)

    def __str__(self) -> str:
        """The line in the status, `weft explain` and `weft plan`."""
        if self.measured is None:
            return f"{self.basis}: {self.parts}"
        parts = self.measured_parts
        return f"{self.basis}{': ' if parts else ''}{parts}; {seconds(self.estimated)} estimated: {self.parts}"


def _listed(named: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {seconds(value) if value else '0 s'}" for name, value in named)
