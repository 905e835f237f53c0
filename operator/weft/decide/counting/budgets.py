"""How many replicas the quotas of a namespace pay for, pool by pool, before any place is looked for.

What runs stays: a quota that was lowered takes nothing away. What is left goes to pools by their PriorityClass, within
one priority in rounds (`rounds.py`), and in a split to the half that is further behind, never to half a pair.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from weft.decide.counting.accounts import Accounts, has_no_room, leaves_room
from weft.decide.counting.need import needed_now
from weft.decide.counting.rounds import Fill, fill_of, in_rounds
from weft.decide.counting.worth import worth
from weft.decide.replicas.survivors import strays
from weft.render.facts import device_resource
from weft.scaling import Ceiling

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weft.decide.counting.accounts import QuotaLack
    from weft.decide.plans.planning import Planned
    from weft.decide.replicas.health import AssignedReplica
    from weft.decide.replicas.roll import Roll
    from weft.decide.replicas.survivors import Survivors
    from weft.domain.cluster import PodRecord
    from weft.domain.reasons import Explanation
    from weft.domain.shape import Shape
    from weft.domain.snapshot import PoolObservation, PoolRecord
    from weft.scaling import ScaleAnswer

# How long an assignment may lack pods and count as paid: they take a second, unless a quota was used up meanwhile.
PROMISED_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Share:
    """What a pool may have of the quotas of its namespace: a count of replicas of one shape, fewer than it wants."""

    replicas: int
    shape: Shape
    why: Explanation
    want: int

    def ceiling(self, shape: Shape) -> Ceiling:
        """The same GPUs and pods in replicas of another shape."""
        by_gpus = self.replicas * self.shape.gpus // max(1, shape.gpus)
        by_pods = self.replicas * self.shape.pods // max(1, shape.pods)
        return Ceiling(self.replicas if shape == self.shape else min(by_gpus, by_pods), self.why)


@dataclass(slots=True)
class Claim:
    """How many replicas one pool has (or its leaving pods pay for), wants, and needs for its traffic.

    Its count is never below `held`. `taken` are the replicas of `have` that were taken in this pass. `of_one_size` says
    whether all its replicas have the planned number of GPUs. `short` is what an account lacks for another replica.
    """

    planned: Planned
    have: int
    want: int
    needed_now: int
    held: int = 0
    taken: int = 0
    of_one_size: bool = True
    short: QuotaLack | None = None

    @property
    def fill(self) -> float:
        """The part (0 to 1) of its wanted replicas that it has."""
        return self.have / max(1, self.want)

    @property
    def in_need(self) -> bool:
        """Whether it may take from pools of lower priority because it has fewer than `minReplicas`."""
        pool, fewest = self.planned.pool, self.planned.spec.scaling.min_replicas
        return pool.preempts and self.have < min(fewest, self.want)

    def take_one(self, accounts: Accounts) -> None:
        """Count one replica more, and charge it to the quotas."""
        accounts.pay(self.planned)
        self.have += 1
        self.taken += 1

    def give_back(self, accounts: Accounts) -> None:
        """Give what was `taken` back to the quotas."""
        pool, shape = self.planned.pool, self.planned.plan.shape
        accounts.charge(pool.key.namespace, self.planned.spec, shape, -self.taken * shape.pods)

    def share(self) -> Share | None:
        """What the pool may have, if that is less than it wants; else None."""
        count = max(self.have, self.held)
        if self.short is None or count >= self.want:
            return None
        shape, as_counted = self.planned.plan.shape, self.of_one_size and count == self.have
        why = leaves_room(self.short, count, shape.gpus) if as_counted else has_no_room(self.short)
        return Share(count, shape, why, self.want)


@dataclass(slots=True)
class _Claimant:
    """One pool or both halves of a split, as a party that takes turns at what is left."""

    claims: Sequence[Claim]
    accounts: Accounts
    behind: Claim = field(init=False)

    def __post_init__(self) -> None:
        self._look()

    @property
    def fill(self) -> Fill:
        wanting = (claim for claim in self.claims if claim.have < claim.want)
        return min((fill_of(claim.have, claim.needed_now, claim.want) for claim in wanting), default=Fill(1.0, 1.0))

    @property
    def cost(self) -> float:
        return float(self.behind.want * self.behind.planned.plan.shape.gpus)

    def advance(self) -> bool:
        """Take a replica for the half that is behind, or the first of both halves; whether it wants another turn."""
        absent = [claim for claim in self.claims if claim.have == 0 < claim.want]
        together = absent or [self.behind]
        if (refused := self.accounts.short([claim.planned for claim in together])) is not None:
            for claim in self.claims:
                claim.short = refused
            return False
        for claim in together:
            claim.take_one(self.accounts)
        self._look()
        return self.behind.have < self.behind.want

    def _look(self) -> None:
        self.behind = min(self.claims, key=lambda claim: claim.fill if claim.have < claim.want else 1.0)


def share_out(claims: Iterable[tuple[int, Sequence[Claim]]], accounts: Accounts) -> dict[str, Share]:
    """The shares of pools that get less than they want, by UID; `claims` are (priority, unit), the highest first."""
    every = list(claims)
    in_need = max((priority for priority, each in every if any(claim.in_need for claim in each)), default=None)
    for priority, each in every:
        if in_need is None or priority >= in_need:
            _pay_successors(each, accounts)
    for _, peers in groupby(every, key=lambda each: each[0]):
        wanting = [each for _, each in peers if any(claim.have < claim.want for claim in each)]
        in_rounds([_Claimant(each, accounts) for each in wanting])
    found = ((claim.planned.pool.key.uid, claim.share()) for _, each in every for claim in each)
    return {uid: share for uid, share in found if share is not None}


def _pay_successors(unit: Sequence[Claim], accounts: Accounts) -> None:
    """Pay for successors with what replaced replicas leave, before others want more; the first pair together.

    Otherwise a rollout in place could cost a pool all replicas while pools of higher priority want more than they need.
    """
    while behind := [claim for claim in unit if claim.have < min(claim.held, claim.want)]:
        together = [claim for claim in unit if claim.have == 0 < claim.want] or behind[:1]
        if accounts.short([claim.planned for claim in together]) is not None:
            return
        for claim in together:
            claim.take_one(accounts)


def claim_of(planned: Planned, seen: Survivors, want: int, roll: Roll, told: PoolObservation | None) -> Claim:
    """The claim of a pool, in replicas of the planned shape: those paid for, and what its leaving pods give back."""
    as_planned = seen.standing is not None and seen.standing.revisions <= {planned.revision}
    if as_planned and want <= len(seen.replicas):
        return Claim(planned, want, want, want)
    paid = worth([each.assignment for each in seen.replicas if is_paid(each, roll.heard)], planned.plan)
    back = _given_back(planned, seen, roll)
    sizes = (each.assignment.pods * each.assignment.gpus_per_pod for each in seen.replicas)
    alike = all(gpus == planned.plan.shape.gpus for gpus in sizes)
    return Claim(planned, min(want, paid + back), want, needed_now(planned, told, want), of_one_size=alike)


def replaces_in_its_room(planned: Planned, seen: Survivors, roll: Roll, troubled: frozenset[str]) -> bool:
    """Whether a pool that replaces replicas (in a rollout, or on `troubled` nodes) has lost one, or lets one go."""
    if seen.standing is not None and not seen.standing.strays:
        return False
    leaving = strays(planned.pool, seen, roll)
    earlier = any(each.assignment.revision != planned.revision for each in seen.replicas)
    earlier = earlier or any(pod.identity and pod.identity.revision != planned.revision for pod in leaving)
    moves = any(not troubled.isdisjoint(each.nodes) for each in seen.replicas)
    return (earlier or moves) and bool(leaving or seen.losses)


def _given_back(planned: Planned, seen: Survivors, roll: Roll) -> int:
    """Replicas of the planned shape that the quota of a pool's leaving pods will pay for."""
    counted = [pod for pod in strays(planned.pool, seen, roll) if not pod.ended]
    shape, device = planned.plan.shape, device_resource(planned.plan.shape)
    gpus = sum(pod.asks_for(device) for pod in counted)
    return min(len(counted) // max(1, shape.pods), gpus // max(1, shape.gpus))


def is_paid(replica: AssignedReplica, heard: float) -> bool:
    """Whether the quota counts all pods of a replica, or will in a moment."""
    return replica.whole or heard - replica.assignment.since < PROMISED_SECONDS


def pays_for_no_successor(
    plans: Sequence[Planned],
    survivors: Mapping[str, Survivors],
    roll: Roll,
    rest: Accounts,
    claims: Mapping[str, Claim],
) -> bool:
    """Whether quotas pay for no replica of a new revision of a pool, or of each half, were all earlier ones gone.

    Where there is one already: not even in place of an earlier one that leaves, as a quota was lowered below its use.
    A replica that has waited in vain for its pods does not count as paid for. `rest` is what quotas leave after all
    `claims` (by UID): other pools may take in this pass what a successor would need.
    """
    namespace = plans[0].pool.key.namespace
    if not rest.limit(namespace):
        return False
    seen = {planned.pool.key.uid: survivors[planned.pool.key.uid].replicas for planned in plans}
    first = [each for each in plans if _none_of(each.revision, seen[each.pool.key.uid], roll.heard)]
    without = rest.only(namespace)
    for planned in first:
        claims[planned.pool.key.uid].give_back(without)
        without.give_back(planned, [pod for pod in roll.pods_of(planned.pool) if not pod.ended])
        for shape, pods in owed(planned.pool, seen[planned.pool.key.uid]):
            without.charge(namespace, planned.spec, shape, -pods)
    if without.short(first) is not None:
        return True
    rolling = [each for each in plans if each not in first and _earlier(each.revision, seen[each.pool.key.uid])]
    for planned in rolling:
        claims[planned.pool.key.uid].give_back(without)
        leaving = [pod for pod in strays(planned.pool, survivors[planned.pool.key.uid], roll) if not pod.ended]
        without.give_back(planned, [*leaving, *_makes_way(planned, seen[planned.pool.key.uid])])
    return without.short(rolling) is not None


def _earlier(revision: str, replicas: Sequence[AssignedReplica]) -> list[AssignedReplica]:
    return [each for each in replicas if each.assignment.revision != revision]


def _makes_way(planned: Planned, replicas: Sequence[AssignedReplica]) -> list[PodRecord]:
    """The pods of as many earlier replicas as are as large as one of the planned shape, or of all of them."""
    found: list[PodRecord] = []
    shape, device = planned.plan.shape, device_resource(planned.plan.shape)
    for each in _earlier(planned.revision, replicas):
        if len(found) >= shape.pods and sum(pod.asks_for(device) for pod in found) >= shape.gpus:
            break
        found += each.pods
    return found


def unpaid_of_declared(plans: Sequence[Planned], answers: Sequence[ScaleAnswer], rest: Accounts) -> dict[str, Share]:
    """The present counts as shares, by UID, of pools for whose declared rate quotas pay no further replica.

    They wait for their first replica to be ready. Such a share takes nothing: it only says why there are no more.
    """
    found: dict[str, Share] = {}
    for planned, answer in zip(plans, answers, strict=True):
        lack = rest.short([planned]) if answer.declared > answer.desired else None
        if lack is not None:
            shape, count = planned.plan.shape, answer.desired
            found[planned.pool.key.uid] = Share(count, shape, leaves_room(lack, count, shape.gpus), count)
    return found


def _none_of(revision: str, replicas: Sequence[AssignedReplica], heard: float) -> bool:
    """Whether the pool has replicas, none of which is of this revision and paid for."""
    paid = (each for each in replicas if each.assignment.revision == revision and is_paid(each, heard))
    return bool(replicas) and not any(paid)


def owed(pool: PoolRecord, replicas: Iterable[AssignedReplica]) -> Iterator[tuple[Shape, int]]:
    """For each replica that lacks pods, the shape and the number of pods missing, which no quota counts yet."""
    if pool.status.plan is not None:
        for each in replicas:
            if len(each.pods) < each.assignment.pods:
                yield pool.status.plan.shape, each.assignment.pods - len(each.pods)


def charge_owed(
    accounts: Accounts, pools: Iterable[PoolRecord], survivors: Mapping[str, Survivors], heard: float, *, paid: bool
) -> None:
    """Charge the missing pods of replicas that are paid for (or, with `paid` False, of those that are not)."""
    for pool in pools:
        seen = survivors[pool.key.uid]  # where all stand as they should, every pod is there
        if pool.spec is not None and seen.standing is None and accounts.limit(pool.key.namespace):
            for shape, pods in owed(pool, [each for each in seen.replicas if is_paid(each, heard) is paid]):
                accounts.charge(pool.key.namespace, pool.spec, shape, pods)
