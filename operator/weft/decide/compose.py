"""Compose shaping, scaling and placement over all pools at once: they compete for the same GPUs.

The order is fixed: plans, then what survives of earlier assignments (whose promises come first), then counts and
new places by priority. Nothing here reads a clock, an API or a random number.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from weft.decide import conditions
from weft.decide.accounts import Accounts
from weft.decide.budgets import (
    PROMISED_SECONDS,
    Claim,
    charge_owed,
    claim_of,
    pays_for_no_successor,
    replaces_in_its_room,
    share_out,
)
from weft.decide.counts import Prospect, count, prospects
from weft.decide.course import Outcome, Turn
from weft.decide.forecasts import keep_forecasts
from weft.decide.frozen import as_it_stays
from weft.decide.ground import Ground
from weft.decide.halves import decide_splits
from weft.decide.handover import handed_over
from weft.decide.health import NODE_LOST_SECONDS
from weft.decide.learning import Fleet, learn, unwatched, watch
from weft.decide.making_room import Purse
from weft.decide.network import network_bound
from weft.decide.order import Unit, in_order, priority_of
from weft.decide.outliers import look_for_outliers
from weft.decide.pairs import plan_as_wished, plan_pairs
from weft.decide.planning import Facts
from weft.decide.promises import free_map
from weft.decide.settling import as_decided, both, may_change_again
from weft.decide.steps import take_turns
from weft.decide.succession import resettled
from weft.decide.survivors import Roll, Survivors, survivors
from weft.decide.worth import stays_for_want_of_budget
from weft.domain.changed import changed
from weft.domain.decision import Decisions, PoolDecision
from weft.domain.figures import agreeing, counted
from weft.domain.reasons import Explanation, Reason
from weft.domain.stumbling import stumbled
from weft.fabric import build_fabric
from weft.placement import rooms_of
from weft.scaling import replaced_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weft.catalog import Catalog
    from weft.decide.budgets import Share
    from weft.decide.holes import Replan
    from weft.decide.planning import Planned, Wish
    from weft.domain.cluster import PodRecord
    from weft.domain.snapshot import PoolRecord, ScaleMemory, Snapshot, SplitRecord
    from weft.placement import FreeMap
    from weft.scaling import ScaleAnswer


@dataclass(frozen=True, slots=True)
class _Stage:
    """What one pass has looked up so far; `counted` are answers without any budget, by UID of the unit's first pool.

    `rest` is what quotas leave after `claims`, by UID of the pool.
    """

    snapshot: Snapshot
    roll: Roll
    free: FreeMap
    prospects: dict[str, Prospect]
    survivors: dict[str, Survivors]
    splits: Mapping[str, SplitRecord]
    accounts: Accounts = field(default_factory=Accounts)
    rest: Accounts = field(default_factory=Accounts)
    claims: Mapping[str, Claim] = field(default_factory=dict)
    shares: Mapping[str, Share] = field(default_factory=dict)
    counted: Mapping[str, tuple[ScaleAnswer, ...]] = field(default_factory=dict)

    def is_planned(self, unit: Unit) -> bool:
        """Whether every pool of the unit has a valid plan: half a pair is not worth placing."""
        return all(self.prospects[pool.key.uid].planned is not None for pool in unit)

    def replaces(self, planned: Planned) -> bool:
        """Whether a pool under a quota gives room in it for a successor of what it gives up."""
        if not self.accounts.limit(planned.pool.key.namespace):
            return False
        seen, troubled = self.survivors[planned.pool.key.uid], self.free.fabric.troubled()
        return replaces_in_its_room(planned, seen, self.roll, troubled)

    def held(self, planned: Planned) -> int:
        """So many replicas its count is at least, while room comes for successors that no quota shows yet.

        If it fell, the next one would leave at once, before anybody knows whether there is room for the first.
        """
        known, desired = self.snapshot.memory.get(planned.pool.key.uid), planned.pool.status.desired_replicas
        left = known.left if known is not None else None
        lately = left is not None and 0 <= self.snapshot.now - left < PROMISED_SECONDS
        return desired if lately or self.replaces(planned) else 0


def decide(snapshot: Snapshot, catalog: Catalog) -> Decisions:
    """The next status of every pool and split, and what to remember.

    A second call on its own result changes nothing. For that some moments are decided twice (`decide/settling.py`).
    """
    decisions = _decide_once(snapshot, catalog)
    if not may_change_again(snapshot, decisions):
        return decisions
    return both(decisions, _decide_once(as_decided(snapshot, decisions), catalog))


def _decide_once(snapshot: Snapshot, catalog: Catalog) -> Decisions:
    fabric = build_fabric(snapshot.nodes, snapshot.pods, catalog, snapshot.reports)
    facts, roll = Facts(fabric, catalog), Roll.of(snapshot)
    snapshot = learn(look_for_outliers(snapshot, roll), facts, roll)
    pairs = plan_pairs(snapshot.splits, snapshot.pools, facts)
    units = in_order(snapshot.pools, snapshot.splits)
    stage = _look(snapshot, units, facts, roll, prospects(snapshot, units, facts, pairs))
    stage = _within_budgets(units, stage) if snapshot.quotas else stage
    turns = _all_turns([unit for unit in units if stage.is_planned(unit)], stage)
    unplanned = [pool for unit in units if not stage.is_planned(unit) for pool in unit]
    held = [_hold(stage.prospects[pool.key.uid], stage) for pool in unplanned]
    ground = Ground(stage.free, stage.accounts, snapshot.now)
    taken = take_turns(turns, ground, _replanner(stage, facts), Purse.of(snapshot))
    outcomes = (*keep_forecasts(taken, snapshot), *held)
    decided = tuple(sorted((outcome.decision for outcome in outcomes), key=_listed))
    memory = dict(_remembered(outcomes, roll))
    return Decisions(
        decided,
        decide_splits(snapshot.splits, snapshot.pools, decided, pairs),
        memory,
        _wake(outcomes, memory, snapshot.now),
        rooms_of(stage.free),
    )


def _remembered(outcomes: Iterable[Outcome], roll: Roll) -> Iterator[tuple[str, ScaleMemory]]:
    """By UID of the pool, with the nodes under what it has now that are silent or gone."""
    for outcome in outcomes:
        if outcome.memory is not None:
            decision = outcome.decision
            known = roll.with_nodes_away(outcome.memory, decision.key.uid, decision.status.assignments)
            yield decision.key.uid, known


def _replanner(stage: _Stage, facts: Facts) -> Replan:
    """How a pool, or both halves of a split, are planned and counted once more in other shapes."""

    def replan(turns: Sequence[Turn], wishes: Sequence[Wish | None]) -> list[Turn] | None:
        unit = tuple(turn.planned.pool for turn in turns)
        known = [stage.prospects[pool.key.uid] for pool in unit]
        terms = [(turn.planned, prospect.live) for turn, prospect in zip(turns, known, strict=True)]
        planned = plan_as_wished(_split_of(unit, stage), terms, wishes, facts)
        if planned is None:
            return None
        again = {each.pool.key.uid: replace(before, planned=each) for each, before in zip(planned, known, strict=True)}
        return _turns(unit, replace(stage, prospects={**stage.prospects, **again}, counted={}))

    return replan


def _split_of(unit: Unit, stage: _Stage) -> SplitRecord | None:
    return stage.splits.get(unit[0].split_uid or "")


def _wake(outcomes: Iterable[Outcome], memory: Mapping[str, ScaleMemory], now: float) -> float | None:
    """When time alone changes an answer: the earliest of all pools, or when a silent node is given up."""
    waits = [outcome.wake_after_seconds for outcome in outcomes]
    waits += [since + NODE_LOST_SECONDS - now for each in memory.values() for _, since in each.lost]
    return min((wait for wait in waits if wait is not None and wait > 0), default=None)


def _look(snapshot: Snapshot, units: tuple[Unit, ...], facts: Facts, roll: Roll, known: dict[str, Prospect]) -> _Stage:
    """Judge all existing replicas before any new one is placed: their promises are older."""
    free = free_map(facts.fabric, snapshot.pods, snapshot.pools)
    splits = {split.key.uid: split for split in reversed(snapshot.splits)}
    stage = _Stage(snapshot, roll, free, known, {}, splits)
    plans = {
        pool.key.uid: known[pool.key.uid].planned if stage.is_planned(unit) else None for unit in units for pool in unit
    }
    judged: dict[str, Survivors] = {}
    for unit in units:
        for pool in unit:
            try:
                judged[pool.key.uid] = survivors(pool, plans[pool.key.uid], roll, free)
            except Exception as error:
                raise stumbled(error, pool) from error
    settled = {uid: resettled(seen, plans[uid], free, snapshot.now) for uid, seen in judged.items()}
    return replace(stage, survivors=settled)


def _within_budgets(units: Sequence[Unit], stage: _Stage) -> _Stage:
    """Share out what quotas leave; replicas that wait for pods in vain lose what they were promised of them."""
    accounts, now = Accounts.of(stage.snapshot.quotas), stage.snapshot.now
    stage = replace(stage, accounts=accounts)
    pools = [pool for unit in units for pool in unit]
    charge_owed(accounts, pools, stage.survivors, now, paid=True)
    limited = [unit for unit in units if stage.is_planned(unit) and accounts.limit(unit[0].key.namespace)]
    counted: dict[str, tuple[ScaleAnswer, ...]] = {}
    for unit in limited:
        try:
            counted[unit[0].key.uid] = _count_freely(unit, stage)
        except Exception as error:
            raise stumbled(error, *unit) from error
    claims = [(priority_of(unit), _claims(unit, counted[unit[0].key.uid], stage)) for unit in limited]
    rest = accounts.copy()
    shares = share_out(claims, rest)
    for each in (accounts, rest):
        charge_owed(each, pools, stage.survivors, now, paid=False)
    by_uid = {claim.planned.pool.key.uid: claim for _, unit in claims for claim in unit}
    return replace(stage, shares=shares, counted=counted, rest=rest, claims=by_uid)


def _count_freely(unit: Unit, stage: _Stage) -> tuple[ScaleAnswer, ...]:
    """What every pool of a unit would have without quotas."""
    known = [stage.prospects[pool.key.uid] for pool in unit]
    return count(known, _split_of(unit, stage), stage.snapshot, {})


def _claims(unit: Unit, answers: Iterable[ScaleAnswer], stage: _Stage) -> list[Claim]:
    planned = (stage.prospects[pool.key.uid].planned for pool in unit)
    plans = [each for each in planned if each is not None]
    seen, told = stage.survivors, stage.snapshot.observations
    uids = [planned.pool.key.uid for planned in plans]
    claims = [
        claim_of(planned, seen[uid], answer.desired, stage.roll, told.get(uid))
        for planned, answer, uid in zip(plans, answers, uids, strict=True)
    ]
    return [replace(each, held=stage.held(each.planned)) for each in claims]


def _listed(decision: PoolDecision) -> tuple[str, str, str]:
    return decision.key.namespace, decision.key.name, decision.key.uid


def _all_turns(units: Iterable[Unit], stage: _Stage) -> list[list[Turn]]:
    found: list[list[Turn]] = []
    for unit in units:
        try:
            found.append(_turns(unit, stage))
        except Exception as error:
            raise stumbled(error, *unit) from error
    return found


def _turns(unit: Unit, stage: _Stage) -> list[Turn]:
    """Counts for one pool, or for a pair whose halves are both planned."""
    known = [stage.prospects[pool.key.uid] for pool in unit]
    plans = [prospect.planned for prospect in known if prospect.planned is not None]
    is_short = bool(stage.shares) and any(pool.key.uid in stage.shares for pool in unit)
    barred = pays_for_no_successor(plans, stage.survivors, stage.roll, stage.rest, stage.claims)
    answers = None if is_short else stage.counted.get(unit[0].key.uid)
    paid = _and_what_stays(unit, stage) if barred else stage.shares
    answers = answers or count(known, _split_of(unit, stage), stage.snapshot, paid)
    frozen, turns = False, []
    for planned in plans:  # written out, as it is looked at in every pass
        frozen = frozen or (planned.spec.scaling.max_gpus is not None and _stays(planned, stage))
    for pool, planned, prospect, scaled in zip(unit, plans, known, answers, strict=True):
        seen, before = stage.survivors[pool.key.uid], stage.snapshot.memory.get(pool.key.uid)
        answer = as_it_stays(scaled, planned, seen.replicas, before) if frozen else scaled
        declared, in_force = planned.spec.workload, prospect.live or planned.spec.workload
        observation = stage.snapshot.observations.get(pool.key.uid)
        fleet = Fleet(planned.spec, planned.plan, planned.revision, seen.replicas, planned.subject, seen.standing)
        learning = watch(fleet, pool, observation, answer.memory, stage.snapshot.now)
        gives_room = bool(stage.snapshot.quotas) and stage.replaces(planned)
        memory = changed(
            answer.memory,
            left=stage.snapshot.now if gives_room else answer.memory.left,
            workload=in_force,
            declared=declared,
            lengths=prospect.lengths,
            calibration=learning,
        )
        live = replaced_values(declared, in_force, observation)
        asked = handed_over(planned, stage.free.fabric, stage.snapshot.queueing)
        share = stage.shares.get(pool.key.uid) if is_short else None
        taught = answer.memory.calibration.news if answer.memory.calibration is not None else None
        left = _left(pool, stage)
        turns.append(Turn(planned, seen, answer, observation, left, memory, live, asked, taught, share, barred, frozen))
    return turns


def _stays(planned: Planned, stage: _Stage) -> bool:
    seen = stage.survivors[planned.pool.key.uid]
    return stays_for_want_of_budget(planned, (each.assignment for each in seen.replicas))


def _and_what_stays(unit: Unit, stage: _Stage) -> Mapping[str, Share]:
    """What quotas pay for; of a unit whose new revision they pay none of, as many as there are, since those stay."""
    uids = [pool.key.uid for pool in unit if pool.key.uid in stage.shares]
    kept = {uid: max(len(stage.survivors[uid].replicas), stage.shares[uid].replicas) for uid in uids}
    return {**stage.shares, **{uid: replace(stage.shares[uid], replicas=most) for uid, most in kept.items()}}


def _left(pool: PoolRecord, stage: _Stage) -> tuple[PodRecord, ...]:
    """Pods that still exist although nothing assigns them any more."""
    standing = stage.survivors[pool.key.uid].standing
    if standing is not None and not standing.strays:
        return ()
    assigned = {replica.assignment.replica for replica in stage.survivors[pool.key.uid].replicas}
    pods = stage.roll.pods_of(pool)
    return tuple(pod for pod in pods if pod.identity is not None and pod.identity.replica not in assigned)


def _hold(prospect: Prospect, stage: _Stage) -> Outcome:
    """Without a valid plan (for this half or the other) what runs keeps running.

    What is under way is completed, or it would wait behind its gates; what has lost its slot by then is given up.
    """
    pool, known = prospect.pool, stage.snapshot.memory.get(prospect.pool.key.uid)
    problem = prospect.problem or Explanation(Reason.HoldNotPlanned, "the other half of the split has no valid plan")
    desired = counted(pool.status.desired_replicas, "replica")
    held = Explanation(Reason.HoldNotPlanned, f"held at {desired}: {problem.message}")
    seen = stage.survivors[pool.key.uid]
    assigned = tuple(replica.assignment for replica in seen.replicas)
    keep = agreeing(len(assigned), "keeps its place", "keep their places")
    keeps = f"; {counted(len(assigned), 'replica')} {keep}" if assigned else ""
    observation = stage.snapshot.observations.get(pool.key.uid)
    checks = [
        conditions.planned(prospect.planned.plan if prospect.planned is not None else problem),
        conditions.placed(Explanation(Reason.NothingToPlace, f"there is no valid plan{keeps}")),
    ]
    if pool.spec is not None:
        checks[1:1] = conditions.relaxed(pool.spec)
        checks.append(conditions.slo_met(pool.spec.slo, observation))
        checks.append(network_bound(pool.spec.role, pool.spec.slo, observation))
    status = replace(pool.status, assignments=assigned)
    if pool.spec is not None:
        status = replace(status, scale=held)
    recommended = pool.status.desired_replicas
    lost = tuple(loss.explanation for loss in seen.losses)
    decision = PoolDecision(pool.key, pool.generation, status, recommended, tuple(checks), lost)
    return Outcome(decision, unwatched(known) if known is not None else None, None)
