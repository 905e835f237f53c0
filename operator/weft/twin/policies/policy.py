"""What a scaling policy sees of the simulated fleet, and what it answers.

Weft itself needs no such policy: `decide` sizes pools in mode Auto. Any other policy sizes pools in mode External and
writes the count through `/scale`, as an HPA does; Weft decides shapes and placement in both cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.domain.capacity import Capacity
    from weft.domain.shape import Plan
    from weft.domain.snapshot import PoolObservation
    from weft.domain.workload import Role, Slo, Workload
    from weft.twin.engine.speed import EngineSpeed


@dataclass(frozen=True, slots=True)
class PoolView:
    """One pool as a policy sees it.

    `count` was last asked for, of which `ready` replicas serve and `starting` do not yet; `least` and `most` bound it.
    `capacity` is what replicas serve within `slo`, and `speed` the step times of one: both by the performance model,
    not as they truly are. `workload` is what the user declared. `observation` is None before anything was
    measured.
    """

    name: str
    role: Role
    count: int
    ready: int
    starting: int
    least: int
    most: int
    gpus: int
    capacity: Capacity
    plan: Plan
    speed: EngineSpeed
    slo: Slo
    workload: Workload
    observation: PoolObservation | None = None

    def clamp(self, count: int) -> int:
        """Return the nearest allowed count."""
        return max(self.least, min(self.most, count))


class Policy(Protocol):
    """A rule that sizes pools, with whatever memory it keeps. One object decides in one simulation only."""

    @property
    def name(self) -> str:
        """The name for `--policy`."""
        ...

    @property
    def every_seconds(self) -> float:
        """Seconds between two decisions."""
        ...

    def counts(self, now: float, pools: tuple[PoolView, ...]) -> Mapping[str, int]:
        """Return the wanted count of each pool by name; a pool without one keeps its count. `now` never goes back."""
        ...
