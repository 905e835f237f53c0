"""The daily pattern, separate for workdays and weekends: how the rate changes from each quarter of an hour to the next.

Changes are kept and not levels, as they are the same on a busy day and on a quiet one. Days are in UTC.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.domain.forecast import QuarterHour

if TYPE_CHECKING:
    from weft.domain.forecast import ForecastState

QUARTER_SECONDS = 900.0
QUARTERS_A_DAY = 96
_GAIN = 0.3  # of the way to the change seen on this day
_WHOLE = 0.8  # the fraction of a quarter of an hour that must have been observed
_THURSDAY, _WEEK, _SATURDAY = 3, 7, 5  # days of the week from Monday; the first day of the epoch was a Thursday
_MOST = 3.0  # logarithm: growth by twenty times in a quarter of an hour is a start of traffic, not a pattern
NOTHING_SEEN: tuple[float | None, ...] = (None,) * QUARTERS_A_DAY

Days = tuple[tuple[float | None, ...], tuple[float | None, ...]]


def counted(state: ForecastState, at: float, requests: float, seconds: float) -> tuple[QuarterHour, Days]:
    """The current quarter of an hour and the days, with the requests added of the `seconds` from `at` on."""
    index = int(at // QUARTER_SECONDS)
    quarter, days = state.quarter, state.days
    if quarter is None or index < quarter.index:
        return QuarterHour(index, requests, seconds), days
    if quarter.index == index:
        return QuarterHour(index, quarter.requests + requests, quarter.seconds + seconds, quarter.before), days
    if quarter.seconds < _WHOLE * QUARTER_SECONDS:
        return QuarterHour(index, requests, seconds), days
    rate = math.log((quarter.requests + 0.5) / quarter.seconds)
    if quarter.before is not None:
        days = _learnt(days, quarter.index - 1, max(-_MOST, min(_MOST, rate - quarter.before)))
    return QuarterHour(index, requests, seconds, rate if index == quarter.index + 1 else None), days


def change(days: Days, at: float, seconds: float) -> float:
    """How much the log rate grows in the `seconds` from `at`, if this day goes like those before; 0 if unknown.

    The pattern repeats every week.
    """
    if not days[0] and not days[1]:
        return 0.0
    found, moment = 0.0, at / QUARTER_SECONDS - 0.5
    end = moment + seconds / QUARTER_SECONDS % (_WEEK * QUARTERS_A_DAY)
    while moment < end:  # between the middles of two quarters of an hour the rate grows evenly
        index = math.floor(moment)
        until = min(end, index + 1.0)
        found += (until - moment) * (_known(days, index) or 0.0)
        moment = until
    return found


def quarters_known(days: Days) -> int:
    """How many quarters of an hour were seen, over both kinds of days."""
    return sum(len(day) - day.count(None) for day in days)


def _is_weekend(index: int) -> bool:
    return (index // QUARTERS_A_DAY + _THURSDAY) % _WEEK >= _SATURDAY


def _known(days: Days, index: int) -> float | None:
    """The change known for this kind of day, or that of the other kind where this one was not seen yet."""
    weekend = _is_weekend(index)
    for day in (days[weekend], days[not weekend]):
        if day and day[index % QUARTERS_A_DAY] is not None:
            return day[index % QUARTERS_A_DAY]
    return None


def _learnt(days: Days, index: int, grown: float) -> Days:
    weekend = _is_weekend(index)
    day, place = days[weekend] or NOTHING_SEEN, index % QUARTERS_A_DAY
    before = day[place]
    value = round(grown if before is None else before + _GAIN * (grown - before), 3)
    day = (*day[:place], value, *day[place + 1 :])
    return (days[0], day) if weekend else (day, days[1])
