"""When what a forecast has learnt is written into the status, and what a new process makes of what it finds there.

Level and trend are found again within a minute of traffic; what takes days to learn is how far forecasts of this pool
are off, how long its starts take, and what its days are like. Only that is news.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from weft.domain.forecast import KeptForecast
from weft.scaling.forecast import LONGEST_APART_SECONDS
from weft.scaling.packing import packed, unpacked
from weft.scaling.scatter import quantile
from weft.scaling.seasons import NOTHING_SEEN, QUARTERS_A_DAY, quarters_known

if TYPE_CHECKING:
    from weft.domain.forecast import ForecastState

# The parts that the pattern of a day has: nothing that is learnt in less time is worth a write of its own.
LEAST_KEPT_SECONDS = 900.0
# With a status that is written anyway.
LEAST_CARRIED_SECONDS = 60.0
# Of a margin, of a start, of what a quarter of an hour brings; and times as much as is known of errors.
SMALLEST_CHANGE, SMALLEST_GROWTH = 0.05, 2.0
# The quantile that margins are made of.
_MOST_OF_THE_TIME = 0.95
REMEMBERED = 4096  # texts: every pass asks for those that are old

_read = functools.lru_cache(maxsize=REMEMBERED)(unpacked)


def restored(kept: KeptForecast | None, now: float) -> ForecastState | None:
    """The state of which the status holds a text; None where it holds none, or one of the future.

    A clock that is behind by less than looks are apart is no other time.
    """
    state = _read(kept.learnt) if kept is not None else None
    return state if state is not None and state.seen <= now + LONGEST_APART_SECONDS else None


def knows_a_day(kept: KeptForecast | None, now: float) -> bool:
    """Whether a process that begins with this has seen as much as a day has."""
    state = restored(kept, now)
    return state is not None and quarters_known(state.days) >= QUARTERS_A_DAY


def kept_now(state: ForecastState, now: float) -> KeptForecast:
    """What goes into the status."""
    return KeptForecast(packed(state), now)


def is_carried_along(kept: KeptForecast | None, state: ForecastState, now: float) -> bool:
    """Whether a status that is written for another reason tells anew what was learnt."""
    return state.latest is not None and (kept is None or _is_older(kept, now, LEAST_CARRIED_SECONDS))


def is_worth_a_write(kept: KeptForecast | None, state: ForecastState, now: float) -> bool:
    """Whether a status is to be written for this alone: the first thing learnt, or a change after a quarter of an hour.

    At the same load with the same scatter nothing changes any more, and nothing is written.
    """
    if kept is None:
        return state.latest is not None
    if state.latest is None or not _is_older(kept, now, LEAST_KEPT_SECONDS):
        return False
    known = _read(kept.learnt)
    return known is None or any(each(known, state) for each in NEWS)


def _is_older(kept: KeptForecast, now: float, seconds: float) -> bool:
    """Or of a time that has not come: the clock was set back."""
    return not 0 <= now - kept.updated < seconds


def the_margin_is_another(known: ForecastState, state: ForecastState) -> bool:
    """For how far forecasts were off."""
    before, now = (quantile(each.errors, _MOST_OF_THE_TIME) for each in (known, state))
    return abs(now - before) >= SMALLEST_CHANGE


def more_is_known_of_errors(known: ForecastState, state: ForecastState) -> bool:
    """Or much less, after a time without any."""
    before, now = sum(known.errors), sum(state.errors)
    return max(before, now) >= SMALLEST_GROWTH * min(before, now)


def starts_take_another_time(known: ForecastState, state: ForecastState) -> bool:
    """Than they did."""
    before, now = known.startup_seconds, state.startup_seconds
    if before is None or now is None:
        return before is not now
    return abs(now - before) >= SMALLEST_CHANGE * max(before, now)


def days_are_others(known: ForecastState, state: ForecastState) -> bool:
    """Whether one of their quarters of an hour is another; one that was not seen yet is taken to change nothing."""
    pairs = zip(known.days, state.days, strict=True)
    return any(before != now and _is_another_day(before, now) for before, now in pairs)


def more_came_than_ever(known: ForecastState, state: ForecastState) -> bool:
    """Lately: margins reach as far as that."""
    return state.highest - known.highest >= SMALLEST_CHANGE


NEWS = (the_margin_is_another, more_is_known_of_errors, more_came_than_ever, starts_take_another_time, days_are_others)


def _is_another_day(before: tuple[float | None, ...], now: tuple[float | None, ...]) -> bool:
    pairs = zip(before or NOTHING_SEEN, now or NOTHING_SEEN, strict=True)
    return any(abs((later or 0.0) - (earlier or 0.0)) >= SMALLEST_CHANGE for earlier, later in pairs)
