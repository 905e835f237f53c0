"""Compose shaping, scaling and placement over all pools at once: they compete for the same GPUs.

The order is fixed: plans, then what survives of earlier assignments (whose promises come first), then counts and
new places by priority. Nothing here reads a clock, an API or a random number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.decide.availability import Availability
from weft.decide.counting.accounts import Accounts
from weft.decide.counting.budgets import Claim, charge_owed, claim_of, share_out
from weft.decide.counting.counts import Prospect, count, prospects
from weft.decide.measured.learning import learn
from weft.decide.measured.siblings import look_for_outliers
from weft.decide.order import Unit, in_order, priority_of
from weft.decide.pass_state import PassState
from weft.decide.places.making_room import Purse
from weft.decide.plans.alternatives import alternatives_of
from weft.decide.plans.facts import Facts
from weft.decide.plans.pairs import plan_as_wished, plan_pairs
from weft.decide.replicas.health import NODE_LOST_SECONDS
from weft.decide.replicas.promises import free_map
from weft.decide.replicas.succession import resettled
from weft.decide.replicas.survivors import Roll, Survivors, survivors
from weft.decide.settling import as_decided, both, may_change_again
from weft.decide.steps import take_turns
from weft.decide.telling.forecasts import keep_forecasts
from weft.decide.telling.halves import decide_splits
from weft.decide.telling.holding import hold
from weft.decide.turns import all_turns, turns_of
from weft.domain.decision import Decisions, PoolDecision
from weft.domain.stumbling import stumbled
from weft.fabric import build_fabric
from weft.placement import rooms_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weft.catalog import Catalog
    from weft.decide.course import PoolOutcome, Turn
    from weft.decide.plans.wished_shapes import WishedShape
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.shape import Candidate
    from weft.domain.snapshot import Snapshot
    from weft.scaling import ScaleAnswer


def decide(snapshot: Snapshot, catalog: Catalog) -> Decisions:
    """The next status of every pool and split, and what to remember.

    A second call on its own result changes nothing. To achieve that, some passes decide twice (`decide/settling.py`).
    """
    decisions = _decide_once(snapshot, catalog)
    if not may_change_again(snapshot, decisions):
        return decisions
    return both(decisions, _decide_once(as_decided(snapshot, decisions), catalog))


def _decide_once(snapshot: Snapshot, catalog: Catalog) -> Decisions:
    fabric = build_fabric(snapshot.nodes, snapshot.pods, catalog, snapshot.reports)
    facts, roll = Facts(fabric, catalog, now=snapshot.now), Roll.of(snapshot)
    snapshot = learn(look_for_outliers(snapshot, roll), facts, roll)
    pairs = plan_pairs(snapshot.splits, snapshot.pools, facts)
    units = in_order(snapshot.pools, snapshot.splits)
    state = _look(snapshot, units, facts, roll, prospects(snapshot, units, facts, roll, pairs))
    state = _within_budgets(units, state) if snapshot.quotas else state
    planned, unplanned = state.by_plan(units)
    available = Availability(state.free, state.accounts, snapshot.now)
    taken = take_turns(all_turns(planned, state), available, _Replanner(state, facts), Purse.of(snapshot))
    held = [hold(state.prospects[pool.key.uid], state) for unit in unplanned for pool in unit]
    outcomes = (*keep_forecasts(taken, snapshot), *held)
    decided = tuple(sorted((outcome.decision for outcome in outcomes), key=_listed))
    memory = dict(_remembered(outcomes, roll))
    return Decisions(
        decided,
        decide_splits(snapshot.splits, snapshot.pools, decided, pairs),
        memory,
        _wake(outcomes, memory, snapshot.now),
        rooms_of(state.free),
        fabric.notes,
    )


def _remembered(outcomes: Iterable[PoolOutcome], roll: Roll) -> Iterator[tuple[str, ScaleMemory]]:
    """Memories by pool UID, each with the nodes of the pool's replicas that are silent or gone now."""
    for outcome in outcomes:
        if outcome.memory is not None:
            decision = outcome.decision
            known = roll.with_nodes_away(outcome.memory, decision.key.uid, decision.status.assignments)
            yield decision.key.uid, known


@dataclass(frozen=True, slots=True)
class _Replanner:
    """Plans and counts a pool, or both halves of a split, once more in other shapes."""

    state: PassState
    facts: Facts

    def __call__(self, turns: Sequence[Turn], wishes: Sequence[WishedShape | None]) -> list[Turn] | None:
        state, unit = self.state, tuple(turn.planned.pool for turn in turns)
        known = [state.prospects[pool.key.uid] for pool in unit]
        terms = [(turn.planned, prospect.live) for turn, prospect in zip(turns, known, strict=True)]
        planned = plan_as_wished(state.split_of(unit), terms, wishes, self.facts)
        if planned is None:
            return None
        again = {each.pool.key.uid: replace(before, planned=each) for each, before in zip(planned, known, strict=True)}
        return turns_of(unit, replace(state, prospects={**state.prospects, **again}, counted={}))

    def alternatives(self, turns: Sequence[Turn]) -> list[tuple[Candidate, ...]]:
        """Which other shapes the pools could run on what the cluster has in this pass."""
        return alternatives_of([turn.planned for turn in turns], self.facts)


def _wake(outcomes: Iterable[PoolOutcome], memory: Mapping[str, ScaleMemory], now: float) -> float | None:
    """Seconds until time alone changes an answer: of the earliest pool, or until a silent node is given up."""
    waits = [outcome.wake_after_seconds for outcome in outcomes]
    waits += [since + NODE_LOST_SECONDS - now for each in memory.values() for _, since in each.lost]
    return min((wait for wait in waits if wait is not None and wait > 0), default=None)


def _look(
    snapshot: Snapshot, units: tuple[Unit, ...], facts: Facts, roll: Roll, known: dict[str, Prospect]
) -> PassState:
    """Judge all existing replicas before any new one is placed: their promises are older.

    Pools on silent nodes come last: whether to wait for those depends on what the promises to all others leave.
    """
    free = free_map(facts.fabric, snapshot.pods, snapshot.pools)
    splits = {split.key.uid: split for split in reversed(snapshot.splits)}
    state = PassState(snapshot, roll, free, known, {}, splits)
    held = {pool.key.uid for unit in state.by_plan(units)[1] for pool in unit}
    plans = {uid: None if uid in held else prospect.planned for uid, prospect in known.items()}
    judged: dict[str, Survivors] = {}
    for unit in sorted(units, key=roll.are_reached, reverse=True) if roll.silent else units:
        for pool in unit:
            try:
                judged[pool.key.uid] = survivors(pool, plans[pool.key.uid], roll, free)
            except Exception as error:
                raise stumbled(error, pool) from error
    settled = {uid: resettled(seen, plans[uid], free, snapshot.now) for uid, seen in judged.items()}
    return replace(state, survivors=settled)


def _within_budgets(units: Sequence[Unit], state: PassState) -> PassState:
    """Share out what quotas leave; replicas that wait in vain for their pods lose what quotas had promised them."""
    accounts, now = Accounts.of(state.snapshot.quotas), state.snapshot.now
    state = replace(state, accounts=accounts)
    pools = [pool for unit in units for pool in unit]
    charge_owed(accounts, pools, state.survivors, now, paid=True)
    limited = [unit for unit in state.by_plan(units)[0] if accounts.limit(unit[0].key.namespace)]
    counted: dict[str, tuple[ScaleAnswer, ...]] = {}
    for unit in limited:
        try:
            counted[unit[0].key.uid] = _count_freely(unit, state)
        except Exception as error:
            raise stumbled(error, *unit) from error
    claims = [(priority_of(unit), _claims(unit, counted[unit[0].key.uid], state)) for unit in limited]
    rest = accounts.copy()
    shares = share_out(claims, rest)
    for each in (accounts, rest):
        charge_owed(each, pools, state.survivors, now, paid=False)
    by_uid = {claim.planned.pool.key.uid: claim for _, unit in claims for claim in unit}
    return replace(state, shares=shares, counted=counted, rest=rest, claims=by_uid)


def _count_freely(unit: Unit, state: PassState) -> tuple[ScaleAnswer, ...]:
    """What every pool of a unit would have without quotas."""
    known = [state.prospects[pool.key.uid] for pool in unit]
    return count(known, state.split_of(unit), state.snapshot, {})


def _claims(unit: Unit, answers: Iterable[ScaleAnswer], state: PassState) -> list[Claim]:
    planned = (state.prospects[pool.key.uid].planned for pool in unit)
    plans = [each for each in planned if each is not None]
    seen, told = state.survivors, state.snapshot.observations
    uids = [planned.pool.key.uid for planned in plans]
    claims = [
        claim_of(planned, seen[uid], answer.desired, state.roll, told.get(uid))
        for planned, answer, uid in zip(plans, answers, uids, strict=True)
    ]
    return [replace(each, held=state.held(each.planned)) for each in claims]


def _listed(decision: PoolDecision) -> tuple[str, str, str]:
    return decision.key.namespace, decision.key.name, decision.key.uid
