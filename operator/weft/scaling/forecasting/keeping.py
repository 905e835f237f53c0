"""When the learnt state of a forecast is written into the status, and how a new process restores it.

Level and trend are relearnt within a minute of traffic. What takes days to learn is how far forecasts of this pool are
off, how long its starts take, and its daily pattern, and what takes hours is whether it repeats itself every few
minutes or in bursts at no fixed distance. Only a change of those is worth a write.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from weft.domain.forecast import KeptForecast
from weft.scaling.forecasting.forecast import LONGEST_APART_SECONDS
from weft.scaling.forecasting.packing import packed, unpacked
from weft.scaling.forecasting.returning import returning
from weft.scaling.forecasting.scatter import quantile
from weft.scaling.forecasting.seasons import NOTHING_SEEN, QUARTERS_A_DAY, quarters_known

if TYPE_CHECKING:
    from weft.domain.forecast import ForecastState

# The interval of the daily pattern: nothing that is learnt in less time is worth a write of its own.
LEAST_KEPT_SECONDS = 900.0
# At least so old before it is renewed along with a status that is written for another reason.
LEAST_CARRIED_SECONDS = 60.0
# The smallest change that counts of a margin, of a start and of a quarter of an hour; and the factor by which the
# weight of known errors has to grow or shrink.
SMALLEST_CHANGE, SMALLEST_GROWTH = 0.05, 2.0
# Bins: periods that differ by less are the same.
SMALLEST_PERIOD = 1.0
# The quantile that margins are made of.
_MOST_OF_THE_TIME = 0.95
REMEMBERED = 4096  # unpacked texts: every pass reads those that are persisted

_read = functools.lru_cache(maxsize=REMEMBERED)(unpacked)


def restored(kept: KeptForecast | None, now: float) -> ForecastState | None:
    """The state that the status holds as text; None where it holds none, or one from the future.

    A clock that lags by less than the time between two looks is tolerated.
    """
    state = _read(kept.learnt) if kept is not None else None
    return state if state is not None and state.seen <= now + LONGEST_APART_SECONDS else None


def knows_a_day(kept: KeptForecast | None, now: float) -> bool:
    """Whether the persisted state covers a whole day's quarters of an hour."""
    state = restored(kept, now)
    return state is not None and quarters_known(state.days) >= QUARTERS_A_DAY


def kept_now(state: ForecastState, now: float) -> KeptForecast:
    """The state in the form that the status holds."""
    return KeptForecast(packed(state), now)


def is_carried_along(kept: KeptForecast | None, state: ForecastState, now: float) -> bool:
    """Whether a status that is written for another reason should also renew the persisted forecast."""
    return state.latest is not None and (kept is None or _is_older(kept, now, LEAST_CARRIED_SECONDS))


def is_worth_a_write(kept: KeptForecast | None, state: ForecastState, now: float) -> bool:
    """Whether the forecast alone justifies a write: the first thing learnt, or a notable change after 15 minutes.

    In a steady state, with the same load and scatter, nothing is written.
    """
    if kept is None:
        return state.latest is not None
    if state.latest is None or not _is_older(kept, now, LEAST_KEPT_SECONDS):
        return False
    known = _read(kept.learnt)
    return known is None or any(each(known, state) for each in NEWS)


def _is_older(kept: KeptForecast, now: float, seconds: float) -> bool:
    """Whether it is older than this, or from the future, as after the clock was set back."""
    return not 0 <= now - kept.updated < seconds


def the_margin_is_another(known: ForecastState, state: ForecastState) -> bool:
    """The margin for forecast errors has changed notably."""
    before, now = (quantile(each.errors, _MOST_OF_THE_TIME) for each in (known, state))
    return abs(now - before) >= SMALLEST_CHANGE


def more_is_known_of_errors(known: ForecastState, state: ForecastState) -> bool:
    """Far more is known of forecast errors, or far less after a time in which no forecast was judged."""
    before, now = sum(known.errors), sum(state.errors)
    return max(before, now) >= SMALLEST_GROWTH * min(before, now)


def starts_take_another_time(known: ForecastState, state: ForecastState) -> bool:
    """The duration of a start has changed notably, or became known or unknown."""
    before, now = known.startup_seconds, state.startup_seconds
    if before is None or now is None:
        return before is not now
    return abs(now - before) >= SMALLEST_CHANGE * max(before, now)


def days_are_others(known: ForecastState, state: ForecastState) -> bool:
    """A quarter of an hour of the daily pattern has changed; one not seen yet counts as no growth of the rate."""
    pairs = zip(known.days, state.days, strict=True)
    return any(before != now and _is_another_day(before, now) for before, now in pairs)


def more_came_than_ever(known: ForecastState, state: ForecastState) -> bool:
    """The highest recent rate, which limits margins, has risen notably."""
    return state.highest - known.highest >= SMALLEST_CHANGE


def the_cycle_is_another(known: ForecastState, state: ForecastState) -> bool:
    """Traffic was found to repeat itself, or not to any more, or after another time."""
    return abs(state.period - known.period) >= SMALLEST_PERIOD


def bursts_return_or_no_longer(known: ForecastState, state: ForecastState) -> bool:
    """Bursts were found to come back at no fixed distance, or not to any more."""
    return bool(returning(state)) != bool(returning(known))


NEWS = (
    *(the_margin_is_another, more_is_known_of_errors, more_came_than_ever, starts_take_another_time, days_are_others),
    *(the_cycle_is_another, bursts_return_or_no_longer),
)


def _is_another_day(before: tuple[float | None, ...], now: tuple[float | None, ...]) -> bool:
    pairs = zip(before or NOTHING_SEEN, now or NOTHING_SEEN, strict=True)
    return any(abs((later or 0.0) - (earlier or 0.0)) >= SMALLEST_CHANGE for earlier, later in pairs)
