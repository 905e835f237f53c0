"""Which of all replicas stay, before any new one is placed, and what their promises leave free."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.pass_state import PassState
from weft.decide.replicas.promises import free_map, promised
from weft.decide.replicas.silence import Judging, promised_to_successors
from weft.decide.replicas.succession import resettled
from weft.decide.replicas.survivors import survivors
from weft.domain.stumbling import stumbled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.decide.counting.counts import Prospect
    from weft.decide.order import Unit
    from weft.decide.plans.facts import Facts
    from weft.decide.plans.planning import Planned
    from weft.decide.replicas.roll import Roll
    from weft.decide.replicas.survivors import Survivors
    from weft.domain.snapshot import PoolRecord, Snapshot
    from weft.placement import FreeMap, Hold


def all_judged(
    snapshot: Snapshot, units: tuple[Unit, ...], facts: Facts, roll: Roll, known: dict[str, Prospect]
) -> PassState:
    """Judge all existing replicas before any new one is placed: their promises are older.

    Pools on silent nodes come last: whether to wait for those depends on what the promises to all others leave, those
    to pools among them that are judged later, too.
    """
    free = free_map(facts.fabric, snapshot.pods, snapshot.pools)
    splits = {split.key.uid: split for split in reversed(snapshot.splits)}
    state = PassState(snapshot, roll, free, known, {}, splits)
    held = {pool.key.uid for unit in state.by_plan(units)[1] for pool in unit}
    plans = {uid: None if uid in held else prospect.planned for uid, prospect in known.items()}
    judged: dict[str, Survivors] = {}
    given: list[Hold] = []
    later = _promised_later(units, roll, free)
    for unit in sorted(units, key=roll.are_reached, reverse=True) if roll.machines.silent else units:
        for pool in unit:
            try:
                _release(later.pop(pool.key.uid, ()), free)
                judged[pool.key.uid] = survivors(pool, plans[pool.key.uid], roll, free)
                given += _given(pool, judged[pool.key.uid], plans[pool.key.uid], roll, free)
            except Exception as error:
                raise stumbled(error, pool) from error
    _release(given, free)
    settled = {uid: resettled(seen, plans[uid], free, snapshot.now) for uid, seen in judged.items()}
    return replace(state, survivors=settled)


def _promised_later(units: Iterable[Unit], roll: Roll, free: FreeMap) -> dict[str, list[Hold]]:
    """What pools on silent nodes were promised, by UID, reserved until they are judged themselves."""
    silent = [pool for unit in units if not roll.are_reached(unit) for pool in unit] if roll.machines.silent else []
    found = {
        pool.key.uid: [hold for each in roll.replicas(pool) for hold in promised(pool, each, free.fabric)]
        for pool in silent
    }
    for holds in found.values():
        _reserve(holds, free)
    return found


def _reserve(holds: Iterable[Hold], free: FreeMap) -> None:
    for hold in holds:
        free.reserve(hold)


def _release(holds: Iterable[Hold], free: FreeMap) -> None:
    for hold in holds:
        free.release(hold)


def _given(pool: PoolRecord, seen: Survivors, planned: Planned | None, roll: Roll, free: FreeMap) -> tuple[Hold, ...]:
    """Places of the successors of its replicas on silent nodes, reserved."""
    if planned is None or not roll.machines.silent or not seen.losses:
        return ()
    judging = Judging(planned, roll.replicas(pool), roll.pools, roll.machines.silent, free)
    holds = promised_to_successors(seen.losses, judging)
    _reserve(holds, free)
    return holds
