"""What is known of one pool while a pass decides about it, and what comes of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.made_often import made_often

if TYPE_CHECKING:
    from weft.decide.budgets import Share
    from weft.decide.growth import Growth
    from weft.decide.planning import Planned
    from weft.decide.survivors import Survivors
    from weft.domain.cluster import PodRecord
    from weft.domain.decision import PoolDecision
    from weft.domain.moves import Relocation
    from weft.domain.reasons import Explanation
    from weft.domain.snapshot import Outlier, PoolObservation, RolloutWait, ScaleMemory
    from weft.domain.status import Failure, Handover
    from weft.placement import Departure
    from weft.scaling import ScaleAnswer


@made_often
@dataclass(frozen=True, slots=True)
class Turn:
    """One pool's turn: its plan, what survived, how many there shall be, and what is measured.

    `live` names the workload values that metrics replace; `asked` is as in `Growth`; `taught` is what measurements of
    its replicas give to tell; `share` what it gets of quotas, where that is less than it wants. `memory` goes with this
    plan: a shape that is only tried leaves none.
    """

    planned: Planned
    survivors: Survivors
    scale: ScaleAnswer
    observation: PoolObservation | None
    left: tuple[PodRecord, ...]  # pods of replicas that have no assignment any more
    memory: ScaleMemory
    live: tuple[str, ...] = ()
    asked: Handover | Explanation | None = None
    taught: Explanation | None = None
    share: Share | None = None

    @property
    def name(self) -> str:
        """The pool, as messages name it."""
        return f"{self.planned.pool.key.namespace}/{self.planned.pool.key.name}"

    @property
    def draining(self) -> bool:
        """Whether pods of another revision still exist although nothing assigns them any more."""
        return any(pod.identity is not None and pod.identity.revision != self.planned.revision for pod in self.left)


@dataclass(frozen=True, slots=True)
class Weighing:
    """How many replicas the rollout of a pool leaves serving for its traffic, 0 where only its limits count.

    `waits` is what is known of a rollout that waited when the last pass ended.
    """

    needed: int
    waits: RolloutWait | None = None


NOTHING_TO_WEIGH = Weighing(0)


@dataclass(slots=True)
class Course:
    """A turn under way: who leaves is settled, who comes is not yet. `moving` stay until they are replaced.

    `relocations` are what the status says of moves for other pools, so far; `awaited` is said of moves for this one,
    which open the nodes `opening`. `preempted` says which replica goes for a pool of higher priority. `no_room` says
    that an outlier has no successor for want of room, `replaced` which one gets one by this pass; `remarks`
    are told beside where the replicas are. `took` is when it last waited for what lower pools give up, and
    `waits_seconds` how long it waits until quotas count that. `present` are all replicas that a rollout weighs, with
    what its traffic needs, and `waits` is what the next pass shall know of a rollout that waits.
    """

    turn: Turn
    failure: Failure | None
    gone: tuple[Departure, ...]
    growth: Growth
    moving: tuple[Departure, ...]
    relocations: tuple[Relocation, ...] = ()
    awaited: Explanation | None = None
    opening: tuple[str, ...] = ()
    preempted: Explanation | None = None
    replaced: Outlier | None = None
    no_room: bool = False
    remarks: tuple[str, ...] = ()
    took: float | None = None
    waits_seconds: float | None = None
    present: tuple[Departure, ...] = ()
    weighing: Weighing = NOTHING_TO_WEIGH
    waits: RolloutWait | None = None

    @property
    def have(self) -> int:
        """Replicas that stay, and that come in this pass."""
        return self.growth.have

    @property
    def wanted(self) -> int:
        """How many replicas it would have, whatever quotas pay for."""
        return self.growth.desired if self.turn.share is None else self.turn.share.want


@made_often
@dataclass(frozen=True, slots=True)
class Outcome:
    """A pool's decision, what to remember of it, and when time alone would change it."""

    decision: PoolDecision
    memory: ScaleMemory | None
    wake_after_seconds: float | None
