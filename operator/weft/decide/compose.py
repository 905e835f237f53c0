"""Compose shaping, scaling and placement over all pools at once: they compete for the same GPUs.

The order is fixed: plans, then what survives of earlier assignments (whose promises come first), then counts and
new places by priority. Nothing here reads a clock, an API or a random number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.decide.availability import Availability
from weft.decide.budgeting import within_budgets
from weft.decide.counting.counts import prospects
from weft.decide.judging import all_judged
from weft.decide.measured.learning import learn
from weft.decide.measured.siblings import look_for_outliers
from weft.decide.meeting import that_meet_their_own
from weft.decide.order import in_order
from weft.decide.places.making_room import Purse
from weft.decide.plans.facts import Facts
from weft.decide.plans.pairs import plan_pairs
from weft.decide.replanning import Replanner
from weft.decide.replicas.health import NODE_LOST_SECONDS
from weft.decide.replicas.roll import Roll
from weft.decide.settling import as_decided, both, may_change_again
from weft.decide.steps import take_turns
from weft.decide.telling.forecasts import keep_forecasts
from weft.decide.telling.halves import decide_splits
from weft.decide.telling.holding import hold
from weft.decide.turns import all_turns
from weft.domain.decision import Decisions, PoolDecision
from weft.fabric import build_fabric
from weft.placement import rooms_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weft.catalog import Catalog
    from weft.decide.course import PoolOutcome
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.snapshot import Snapshot


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
    pairs = that_meet_their_own(plan_pairs(snapshot.splits, snapshot.pools, facts), snapshot, roll, facts)
    units = in_order(snapshot.pools, snapshot.splits)
    state = all_judged(snapshot, units, facts, roll, prospects(snapshot, units, facts, roll, pairs))
    state = within_budgets(units, state) if snapshot.quotas else state
    planned, unplanned = state.by_plan(units)
    available = Availability(state.free, state.accounts, snapshot.now, snapshot.heard)
    taken = take_turns(all_turns(planned, state), available, Replanner(state, facts), Purse.of(snapshot))
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


def _wake(outcomes: Iterable[PoolOutcome], memory: Mapping[str, ScaleMemory], now: float) -> float | None:
    """Seconds until time alone changes an answer: of the earliest pool, or until a silent node is given up."""
    waits = [outcome.wake_after_seconds for outcome in outcomes]
    waits += [since + NODE_LOST_SECONDS - now for each in memory.values() for _, since in each.nodes_away]
    return min((wait for wait in waits if wait is not None and wait > 0), default=None)


def _listed(decision: PoolDecision) -> tuple[str, str, str]:
    return decision.key.namespace, decision.key.name, decision.key.uid
