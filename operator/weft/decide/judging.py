"""Which of all replicas stay, before any new one is placed, and what their promises leave free."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.pass_state import PassState
from weft.decide.replicas.promises import free_map
from weft.decide.replicas.silence import Judging, promised_to_successors
from weft.decide.replicas.succession import resettled
from weft.decide.replicas.survivors import survivors
from weft.domain.stumbling import stumbled

if TYPE_CHECKING:
    from weft.decide.counting.counts import Prospect
    from weft.decide.order import Unit
    from weft.decide.plans.facts import Facts
    from weft.decide.plans.planning import Planned
    from weft.decide.replicas.survivors import Roll, Survivors
    from weft.domain.snapshot import PoolRecord, Snapshot
    from weft.placement import FreeMap, Hold


def all_judged(
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
    promised: list[Hold] = []
    for unit in sorted(units, key=roll.are_reached, reverse=True) if roll.silent else units:
        for pool in unit:
            try:
                judged[pool.key.uid] = survivors(pool, plans[pool.key.uid], roll, free)
                promised += _promised(pool, judged[pool.key.uid], plans[pool.key.uid], roll, free)
            except Exception as error:
                raise stumbled(error, pool) from error
    for hold in promised:
        free.release(hold)
    settled = {uid: resettled(seen, plans[uid], free, snapshot.now) for uid, seen in judged.items()}
    return replace(state, survivors=settled)


def _promised(
    pool: PoolRecord, seen: Survivors, planned: Planned | None, roll: Roll, free: FreeMap
) -> tuple[Hold, ...]:
    """Places of the successors of its replicas on silent nodes, reserved."""
    if planned is None or not roll.silent or not seen.losses:
        return ()
    judging = Judging(planned, roll.replicas(pool), roll.pools, roll.silent, free)
    holds = promised_to_successors(seen.losses, judging)
    for hold in holds:
        free.reserve(hold)
    return holds
