"""What is known of one pool while a pass decides about it, and what comes of that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weft.decide.counting.accounts import Accounts
from weft.decide.replicas.promises import holder_name
from weft.domain.crews import NO_ROUTERS, SplitRouters
from weft.domain.reasons import Explanation, Reason
from weft.domain.values.made_often import made_often

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.decide.counting.budgets import Share
    from weft.decide.plans.planning import Planned
    from weft.decide.replicas.survivors import Survivors
    from weft.domain.cluster import PodRecord
    from weft.domain.decision import PoolDecision
    from weft.domain.moves import Relocation
    from weft.domain.pool_memory import Outlier, RolloutWait, ScaleMemory
    from weft.domain.snapshot import PoolObservation
    from weft.domain.status import Assignment, Failure, Handover
    from weft.placement import Departure, FreeMap, Hold
    from weft.scaling import ScaleAnswer


_OTHERWISE_REFUSED = frozenset({Reason.BudgetExhausted, Reason.Preempting, Reason.Preempted, Reason.Paused})


@made_often
@dataclass(frozen=True, slots=True)
class Turn:
    """One pool's turn: its plan, what survived, how many there shall be, and what is measured.

    `live` names the workload values that metrics replace; `asked` is as in `Growth`; `taught` is what measurements of
    its replicas give to tell; `share` what it gets of quotas, where that is less than it wants; `barred` whether they
    pay for no successor of its earlier replicas, no node could ever hold one, or no queue takes one, and `frozen`
    whether `maxGPUs` pays for none in its unit. `routers` are those of its split, for a half that rolls. `memory` goes
    with this plan: a shape that is only tried leaves none.
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
    barred: bool = False
    frozen: bool = False
    routers: SplitRouters = NO_ROUTERS

    @property
    def name(self) -> str:
        """The name of the pool in messages."""
        return f"{self.planned.pool.key.namespace}/{self.planned.pool.key.name}"

    @property
    def predecessors(self) -> tuple[PodRecord, ...]:
        """Pods of another revision that still exist although nothing assigns them any more."""
        planned = self.planned.revision
        return tuple(pod for pod in self.left if pod.identity is not None and pod.identity.revision != planned)

    @property
    def draining(self) -> bool:
        """Whether there are any of these, whether they end or not."""
        return bool(self.predecessors)


@dataclass(frozen=True, slots=True)
class Weighing:
    """How many replicas the rollout of a pool `keeps` serving for its traffic, 0 where only its limits count.

    `waits` is what is known of a rollout that waited when the last pass ended.
    """

    keeps: int
    waits: RolloutWait | None = None


NOTHING_TO_WEIGH = Weighing(0)


@made_often
@dataclass(frozen=True, slots=True)
class Leaving:
    """Who leaves: `gone` do so now, and `moving` stay until they are replaced.

    `present` are all replicas that a rollout weighs, with what its traffic needs.
    """

    present: tuple[Departure, ...] = ()
    gone: tuple[Departure, ...] = ()
    moving: tuple[Departure, ...] = ()
    weighing: Weighing = NOTHING_TO_WEIGH

    @property
    def ids(self) -> set[int]:
        """Ids of all replicas that leave, now or once they are replaced."""
        return {each.assignment.replica for each in (*self.gone, *self.moving)}


@made_often
@dataclass(frozen=True, slots=True)
class OwnMoves:
    """The moves of replicas that concern one pool.

    `told` are the moves that its replicas make for other pools, as its status lists them. `awaited` explains the moves
    that others make for it, which free the nodes `opening`.
    """

    told: tuple[Relocation, ...] = ()
    awaited: Explanation | None = None
    opening: tuple[str, ...] = ()


@made_often
@dataclass(frozen=True, slots=True)
class Swap:
    """The outlier whose successor this pass places; `no_room` says that it was due and there is no room for one."""

    replaced: Outlier | None = None
    no_room: bool = False


@made_often
@dataclass(frozen=True, slots=True)
class Later:
    """What the next pass has to know, and when it has to come at the latest.

    `waited_for_lower` is when the pool last waited for what lower pools give up (epoch seconds), `counted_in_seconds`
    how long until quotas count that. `waits` is set for a rollout that waits.
    """

    waited_for_lower: float | None = None
    counted_in_seconds: float | None = None
    waits: RolloutWait | None = None


@made_often
@dataclass(frozen=True, slots=True)
class Why:
    """What is told in addition to the refusal in `growth`.

    `preempted` says which replica goes for a pool of higher priority, `remarks` are added to the message of `Placed`,
    and `events` belong to this pass alone.
    """

    preempted: Explanation | None = None
    remarks: tuple[str, ...] = ()
    events: tuple[Explanation, ...] = ()


STAYS, NO_MOVES, NO_SWAP, NOTHING_LATER, NOTHING_TO_SAY = Leaving(), OwnMoves(), Swap(), Later(), Why()


@dataclass(slots=True)
class Growth:
    """How one pool grows in this pass; `refusal` says why it could not grow as far as it should.

    `replaced` were lost or have to move: as many may take what is kept as `spares`. `asked` is what each new replica
    asks of another scheduler, or why it cannot; None where a slot is looked for. `opened` is kept for it alone, too, by
    moves that are under way. `avoided` nodes come last: they did not take or start a replica. `accounts` are the quotas
    that have to pay for every new replica. Of those `kept` so many are only `lasting`, until their nodes go. `held`
    says why nobody comes in this pass though replicas are missing.

    A half that has none of the planned pair is `first` of it while no earlier replica may leave before both halves have
    one. While a pause keeps replicas of an earlier pair, it is `apart`, and both are `hidden` if an endpoint picker is
    shown the earlier one.
    """

    planned: Planned
    desired: int
    kept: list[Assignment]
    missing: int
    next_replica: int
    replaced: tuple[Assignment, ...] = ()
    asked: Handover | Explanation | None = None
    accounts: Accounts = field(default_factory=Accounts)
    spares: list[Hold] = field(default_factory=list)
    opened: list[Hold] = field(default_factory=list)
    avoided: tuple[str, ...] = ()
    added: list[Assignment] = field(default_factory=list)
    lasting: int = 0
    held: Reason | None = None
    refusal: Explanation | None = None
    waits_for: Growth | None = None  # the other half of a pair, which has no slot
    first: bool = False
    apart: bool = False
    hidden: bool = False

    @property
    def wants_more(self) -> bool:
        """Whether another slot should be looked for."""
        return self.refusal is None and len(self.added) < self.missing

    @property
    def lacks_room(self) -> bool:
        """Whether the fabric (and not a budget) has no room for more, and nobody makes room."""
        return self.refusal is not None and self.refusal.reason not in _OTHERWISE_REFUSED

    @property
    def lacks_a_slot(self) -> bool:
        """Whether the fabric has no slot for it, and it does not wait for the other half of its pair."""
        return self.refusal is not None and self.refusal.reason is Reason.NoSlot and self.waits_for is None

    @property
    def is_empty(self) -> bool:
        """Whether it has no replica and shall have some."""
        return self.have < 1 and self.wants_more

    @property
    def starts_a_pair(self) -> bool:
        """Whether its next replica is the first that the other half's new ones could exchange KV with."""
        return self.apart and not self.added

    @property
    def needs_both(self) -> bool:
        """Whether its next replica serves nobody, and replaces nobody, before the other half has one of its pair."""
        return (self.apart or self.first) and not self.added

    @property
    def have(self) -> int:
        """Replicas that stay or are added in this pass."""
        return len(self.kept) - self.lasting + len(self.added)

    @property
    def cost(self) -> float:
        """GPUs of all desired replicas."""
        return float(self.desired * self.planned.plan.shape.gpus)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes of all its replicas."""
        return tuple([node for assignment in (*self.kept, *self.added) for node in assignment.nodes])

    def vacated(self, free: FreeMap) -> Sequence[Hold]:
        """What its own leaving pods hold."""
        return free.vacated(holder_name(self.planned.pool))

    def refuse(self, why: Explanation, waits_for: Growth | None = None) -> None:
        """Look for no further place: for a reason of its own, or as the other half of its pair has none."""
        self.refusal, self.waits_for = why, waits_for

    def add(self, assignment: Assignment) -> None:
        """Add one replica, and charge it to the quotas."""
        self.added.append(assignment)
        self.accounts.pay(self.planned)

    @property
    def fill(self) -> float:
        """Placed replicas per desired one."""
        return self.have / max(1, self.desired)


def from_nothing(turn: Turn, missing: int) -> Growth:
    """A growth only to try: by so many replicas, of a pool as if it had none and nothing were kept for it."""
    return Growth(turn.planned, turn.scale.desired, [], missing, 0)


@dataclass(slots=True)
class Course:
    """A turn under way: `turn` is its input, and everything else is what was decided so far, and why.

    Each value is set by one step of the pass, and replaced by steps that come after it.
    """

    turn: Turn
    failure: Failure | None
    growth: Growth
    leaving: Leaving = STAYS
    moves: OwnMoves = NO_MOVES
    swap: Swap = NO_SWAP
    later: Later = NOTHING_LATER
    why: Why = NOTHING_TO_SAY

    @property
    def have(self) -> int:
        """Replicas that stay or are added in this pass."""
        return self.growth.have

    @property
    def wanted(self) -> int:
        """How many replicas it would have, whatever quotas pay for."""
        return self.growth.desired if self.turn.share is None else self.turn.share.want


@made_often
@dataclass(frozen=True, slots=True)
class PoolOutcome:
    """A pool's decision, what to remember of it, and when time alone would change it."""

    decision: PoolDecision
    memory: ScaleMemory | None
    wake_after_seconds: float | None
