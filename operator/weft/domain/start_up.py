"""How long a replica takes from its node to its first answer, and what that is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.figures import seconds
from weft.domain.made_often import made_often

if TYPE_CHECKING:
    from collections.abc import Iterable

# Of a start that was measured, in their order. Its node sets a pod up (volumes, devices, network), pulls its images,
# init containers download; then the engine loads weights, where it says for how long, and does the rest of its start.
PHASES = ("setup", "image", "download", "weights", "engine")
# The last of a pool that count: what one start in three had for once is in none of the medians.
KEPT_STARTS = 5
LONGEST_PHASE_SECONDS = 36_000  # more is a pod that was unready for a while


@made_often
@dataclass(frozen=True, slots=True)
class MeasuredStart:
    """How long a replica took that got ready: whole seconds of each of `PHASES`.

    `replica` is its id, which tells starts apart: ids of replicas of a pool only grow.
    """

    replica: int
    phases: tuple[int, int, int, int, int]


def usual_phases(starts: Iterable[MeasuredStart]) -> tuple[int, ...]:
    """What each phase takes in a usual start: the upper median of each; nothing of no starts."""
    return tuple([sorted(each)[len(each) // 2] for each in zip(*(start.phases for start in starts), strict=True)])


@dataclass(frozen=True, slots=True)
class StartUp:
    """Seconds of a start: pulling the engine's `image`, getting the `weights` to the GPUs, the `engine`'s own work.

    These are estimated. `measured` is what starts of the pool took in all, None before one was; it is in use at once.
    `phases` are the parts of that, by `PHASES`, empty where nobody could tell them apart.
    """

    image: int
    weights: int
    engine: int
    measured: int | None = None
    phases: tuple[int, ...] = ()

    @property
    def estimated(self) -> int:
        """Seconds that all parts are estimated to take together."""
        return self.image + self.weights + self.engine

    @property
    def in_use(self) -> int:
        """The time that a start is taken to need."""
        return self.estimated if self.measured is None else self.measured

    @property
    def basis(self) -> str:
        """The time that is in use, and where it is from: `140 s measured`, `316 s estimated`."""
        return f"{seconds(self.in_use)} {'estimated' if self.measured is None else 'measured'}"

    @property
    def parts(self) -> str:
        """What is estimated of each part: `image 100 s, weights 68 s, engine 148 s`."""
        return _listed((("image", self.image), ("weights", self.weights), ("engine", self.engine)))

    @property
    def measured_parts(self) -> str:
        """What was measured of each phase that took any time: `image 40 s, engine 100 s`."""
        return _listed((name, value) for name, value in zip(PHASES, self.phases, strict=False) if value)

    def __str__(self) -> str:
        """The one line of the status, of `weft explain` and of `weft plan`."""
        if self.measured is None:
            return f"{self.basis}: {self.parts}"
        parts = self.measured_parts
        return f"{self.basis}{': ' if parts else ''}{parts}; {seconds(self.estimated)} estimated: {self.parts}"


def _listed(named: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {seconds(value) if value else '0 s'}" for name, value in named)
