"""Which statuses are written with what forecasts have learnt, so that a new process goes on with it.

One that is written for another reason carries it along, and at once where work is counted in another unit from then on:
a new process takes what it reads for work in the unit of the calibration and the plan beside it. Beyond that few are
written in one pass: all pools learn in the same one, twice a minute, and a pass that wrote a thousand statuses would be
late for everybody.
"""

from __future__ import annotations

from dataclasses import fields, replace
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from weft.domain.start_up import usual_phases
from weft.domain.status import PoolStatus
from weft.domain.values.changed import changed
from weft.scaling import is_carried_along, is_worth_a_write, kept_now, restored

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.decide.course import PoolOutcome
    from weft.domain.forecast import ForecastState
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.snapshot import Snapshot
    from weft.domain.start_up import StartUp

# Of those that only carry a forecast: a thousand pools that all have news are written once in 25 minutes.
MOST_IN_A_PASS = 20

_REASONS_TO_WRITE = attrgetter(*(each.name for each in fields(PoolStatus) if each.name not in {"observed", "forecast"}))


def keep_forecasts(outcomes: Iterable[PoolOutcome], snapshot: Snapshot) -> list[PoolOutcome]:
    """The outcomes, with the forecast in those statuses that are to be written."""
    every, waiting = list(outcomes), []
    before = {pool.key.uid: pool.status for pool in snapshot.pools}
    for place, outcome in enumerate(every):
        state, decision = outcome.memory.forecast if outcome.memory is not None else None, outcome.decision
        if state is None:
            continue
        uid, known = decision.key.uid, before[decision.key.uid]
        if _REASONS_TO_WRITE(decision.status) != _REASONS_TO_WRITE(known):
            misread = known.forecast is not None and _counts_otherwise(outcome.memory, snapshot.memory.get(uid))
            if misread or is_carried_along(known.forecast, state, snapshot.now):
                every[place] = _kept(outcome, state, snapshot.now)
        elif _has_learnt(uid, state, snapshot) and (
            is_worth_a_write(known.forecast, state, snapshot.now) or _is_first_start(decision.status.start_up, state)
        ):
            updated = known.forecast.updated if known.forecast is not None else 0.0
            waiting.append((updated, uid, place, state))
    for _, _, place, state in sorted(waiting, key=itemgetter(0, 1))[:MOST_IN_A_PASS]:
        every[place] = _kept(every[place], state, snapshot.now)
    return every


def _has_learnt(uid: str, state: ForecastState, snapshot: Snapshot) -> bool:
    """Whether the forecast of a pool learnt in this pass, as it does once in each bin of time."""
    memory = snapshot.memory.get(uid)
    return memory is None or memory.forecast is None or memory.forecast.latest != state.latest


def _counts_otherwise(memory: ScaleMemory | None, before: ScaleMemory | None) -> bool:
    """Whether work is counted in another unit since this pass, in which a persisted forecast would be misread."""
    now, then = (None if each is None else each.unit for each in (memory, before))
    if now is None or then is None:
        return False
    return (now.declared, now.calibration) != (then.declared, then.calibration)


def start_up_now(status: PoolStatus, estimated: StartUp, now: float) -> StartUp:
    """What a start of the planned shape takes, with what was measured as the status last told it."""
    told = status.start_up
    if told is None:
        known = restored(status.forecast, now)
        return estimated if known is None else _with_measured(estimated, known)
    return replace(estimated, measured=told.measured, phases=told.phases)


def _is_first_start(told: StartUp | None, state: ForecastState) -> bool:
    """Whether a start was measured while the status still tells an estimate, which is no longer used."""
    return state.startup_seconds is not None and told is not None and told.measured is None


def _with_measured(start_up: StartUp, state: ForecastState) -> StartUp:
    measured = None if state.startup_seconds is None else max(1, round(state.startup_seconds))
    phases = usual_phases(state.starts)
    same = (start_up.measured, start_up.phases) == (measured, phases)
    return start_up if same else replace(start_up, measured=measured, phases=phases)


def _kept(outcome: PoolOutcome, state: ForecastState, now: float) -> PoolOutcome:
    """The outcome with the forecast and the measured start times in its status: both are written together."""
    decision = outcome.decision
    told = decision.status.start_up
    start_up = None if told is None else _with_measured(told, state)
    status = changed(decision.status, forecast=kept_now(state, now), start_up=start_up)
    return changed(outcome, decision=changed(decision, status=status))
