"""The pattern of a day, apart for workdays and weekends, by what the rate did from each quarter of an hour to the next.

Changes, and not levels, are what is kept: they say the same on a busy day and on a quiet one. Days are those of UTC.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.domain.forecast import Slot

if TYPE_CHECKING:
    from weft.domain.forecast import ForecastState

SLOT_SECONDS = 900.0
SLOTS = 96  # a day
_GAIN = 0.3  # of the way to what was seen this day
_WHOLE = 0.8  # of a slot: less was not seen enough
_THURSDAY, _WEEK, _SATURDAY = 3, 7, 5  # days of the week from Monday; the first day of the epoch was a Thursday
_MOST = 3.0  # logarithm: twenty times as much a quarter of an hour later is a beginning, and no pattern
NOTHING_SEEN: tuple[float | None, ...] = (None,) * SLOTS

Days = tuple[tuple[float | None, ...], tuple[float | None, ...]]


def counted(state: ForecastState, at: float, requests: float, seconds: float) -> tuple[Slot, Days]:
    """The slot under way and the days, with requests that came in the `seconds` that began at `at`."""
    index = int(at // SLOT_SECONDS)
    slot, days = state.slot, state.days
    if slot is None or index < slot.index:
        return Slot(index, requests, seconds), days
    if slot.index == index:
        return Slot(index, slot.requests + requests, slot.seconds + seconds, slot.before), days
    if slot.seconds < _WHOLE * SLOT_SECONDS:
        return Slot(index, requests, seconds), days
    rate = math.log((slot.requests + 0.5) / slot.seconds)
    if slot.before is not None:
        days = _learnt(days, slot.index - 1, max(-_MOST, min(_MOST, rate - slot.before)))
    return Slot(index, requests, seconds, rate if index == slot.index + 1 else None), days


def change(days: Days, at: float, seconds: float) -> float:
    """How much the logarithm of the rate grows in the `seconds` from `at`, if this day is as those before; else 0.

    A week later it is what it was.
    """
    if not days[0] and not days[1]:
        return 0.0
    found, moment = 0.0, at / SLOT_SECONDS - 0.5
    end = moment + seconds / SLOT_SECONDS % (_WEEK * SLOTS)
    while moment < end:  # between the middles of two slots the rate grows evenly
        index = math.floor(moment)
        until = min(end, index + 1.0)
        found += (until - moment) * (_known(days, index) or 0.0)
        moment = until
    return found


def parts_known(days: Days) -> int:
    """How many parts of days were seen, of both kinds."""
    return sum(len(day) - day.count(None) for day in days)


def _is_weekend(index: int) -> bool:
    return (index // SLOTS + _THURSDAY) % _WEEK >= _SATURDAY


def _known(days: Days, index: int) -> float | None:
    """What such a day did there, or the other kind of day where such a one was not seen yet."""
    weekend = _is_weekend(index)
    for day in (days[weekend], days[not weekend]):
        if day and day[index % SLOTS] is not None:
            return day[index % SLOTS]
    return None


def _learnt(days: Days, index: int, grown: float) -> Days:
    weekend = _is_weekend(index)
    day, place = days[weekend] or NOTHING_SEEN, index % SLOTS
    before = day[place]
    value = round(grown if before is None else before + _GAIN * (grown - before), 3)
    day = (*day[:place], value, *day[place + 1 :])
    return (days[0], day) if weekend else (day, days[1])
