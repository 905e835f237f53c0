"""What rates recorded in the weeks before the first look teach: the daily pattern, and nothing else.

A five-minute rate has lost how far counts scatter, so margins, level and trend are learnt from live metrics. The daily
pattern is the same in requests and in work, and takes the longest to see.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.domain.forecast import ForecastState, Past
from weft.domain.values.changed import changed
from weft.scaling.forecasting.forecast import BIN_SECONDS
from weft.scaling.forecasting.learning import LEFT_OF_SEASONS
from weft.scaling.forecasting.seasons import change, counted, quarters_known
from weft.scaling.reading import is_sane

if TYPE_CHECKING:
    from collections.abc import Iterable

# From one rate to the next; three make the quarter of an hour in which days are learnt.
STEP_SECONDS = 300.0
_LEFT_AFTER_STEP = LEFT_OF_SEASONS ** (STEP_SECONDS / BIN_SECONDS)
_LEAST_REQUESTS = 0.5  # in a step: the logarithm of zero is undefined


def learnt_from(rates: Iterable[tuple[float, float]]) -> Past | None:
    """What rates teach, given as (epoch seconds, requests/s in the step ending then) in order; None where nothing.

    Days that were known at a step foretell the next one, and what comes of it says how far they can be trusted.
    """
    state, before = ForecastState(0.0, 0), None
    for at, rate in rates:
        if not is_sane(rate):
            continue
        found = math.log(rate + _LEAST_REQUESTS / STEP_SECONDS)
        if before is not None and at - before[0] == STEP_SECONDS:
            state = _judged(state, before, found)
        quarter, days = counted(state, at - STEP_SECONDS, rate * STEP_SECONDS, STEP_SECONDS)
        state, before = changed(state, quarter=quarter, days=days), (at, found)
    return Past(state.days, state.foretold) if any(state.days) else None


def with_past(state: ForecastState | None, past: Past | None) -> ForecastState | None:
    """The state with the daily pattern of the past, where that covers more of it."""
    if state is None or past is None or knows_as_much(state, past):
        return state
    return changed(state, days=past.days, foretold=past.foretold)


def knows_as_much(state: ForecastState, past: Past) -> bool:
    """Whether a forecast knows as many quarters of an hour as the past does."""
    return quarters_known(state.days) >= quarters_known(past.days)


def _judged(state: ForecastState, before: tuple[float, float], found: float) -> ForecastState:
    """The state with one more test of the daily pattern, by two rates (logarithms) one step apart."""
    at, known = before
    season = change(state.days, at - STEP_SECONDS / 2.0, STEP_SECONDS)
    said, certain = (each * _LEFT_AFTER_STEP for each in state.foretold)
    return changed(state, foretold=(said + (found - known) * season, certain + season * season))
