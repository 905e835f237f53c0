"""The clock of a trace: dates, seconds, or finer units, read as seconds since the first request.

Nobody writes the unit of a time in milliseconds down, but since 1970 so much time has passed that its size tells it.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS, MILLISECONDS = "seconds", "milliseconds"
_PER_SECOND = {SECONDS: 1.0, MILLISECONDS: 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
_SINCE_1970 = 1e9  # smallest count that is a time since 1970: seconds of 2001
_LATEST_SECOND = 1e11  # in the year 5138; today's time in milliseconds is beyond it, and so on in thousands
_DATE = "a date such as 2026-05-01 12:00:00.5"
_UNIT = re.compile(r"(?P<base>.+?)(?:[ _-]+|\s*\()(?P<unit>[a-zµ]+)\)?$")  # of `time_ms` and `time (ms)`
_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), SECONDS),
    **dict.fromkeys(("ms", "msec", "millis", "milliseconds"), MILLISECONDS),
    **dict.fromkeys(("us", "µs", "usec", "micros", "microseconds"), "microseconds"),
    **dict.fromkeys(("ns", "nsec", "nanos", "nanoseconds"), "nanoseconds"),
}


def parted(name: str) -> tuple[str, str | None]:
    """Part the name of a column, in lower case, from the unit that it ends with; None: it names no unit of time."""
    found = _UNIT.match(name)
    unit = _UNITS.get(found["unit"]) if found else None
    return (found["base"], unit) if found and unit else (name, None)


class Clock:
    """Reads times as seconds since the first one that it reads, which settles whether they are dates or numbers.

    `named` is the unit that the column's name tells, `usual` that of small numbers where it tells none. Raises
    `ValueError`, `TypeError` or `OverflowError` for what is no time.
    """

    def __init__(self, named: str | None, usual: str = SECONDS) -> None:
        """Start before the first time is read."""
        self._named, self._usual = named, usual
        self._read: Callable[[str | float], float] = self._first
        self.kind = ""  # what the times are in words, once one is read

    def __call__(self, value: str | float) -> float:
        """Return seconds since the first time."""
        return self._read(value)

    @property
    def unit(self) -> str:
        """Unit of small numbers."""
        return self._named or self._usual

    @property
    def takes(self) -> str:
        """What a time may be, in words."""
        if self.kind == "dates":
            return f"{_DATE}, as in the first row"
        number = f"a number of {self.unit}"
        return f"{number}, 0 or more, as in the first row" if self.kind else f"{number} or {_DATE}"

    def _first(self, value: str | float) -> float:
        try:
            first = float(value)
        except ValueError:
            self._begin_dates(_moment(str(value)))
        else:
            self._begin_numbers(first if math.isfinite(first) else 0.0)
        return self._read(value)

    def _begin_dates(self, first: datetime) -> None:
        self._read = lambda value: (_moment(str(value)) - first).total_seconds()
        self.kind = "dates"

    def _begin_numbers(self, first: float) -> None:
        unit, since_1970 = self._unit_of(abs(first)), abs(first) >= _SINCE_1970
        per_second = _PER_SECOND[unit]
        self._read = lambda value: (_not_below_zero(value) - first) / per_second
        self.kind = f"{unit} since 1970" if since_1970 and not self._named else unit

    def _unit_of(self, size: float) -> str:
        """Return the unit of numbers of this size; raises `ValueError` where the name says seconds and none fits."""
        if self._named:
            if self._named == SECONDS and size > _LATEST_SECOND:
                raise ValueError
            return self._named
        if size < _SINCE_1970:
            return self._usual
        beyond = 0 if size <= _LATEST_SECOND else min(3, 1 + int(math.log10(size / _LATEST_SECOND) // 3))
        return list(_PER_SECOND)[beyond]


class FromZero:
    """Reads times as they are written: seconds since the trace began."""

    kind = unit = SECONDS
    takes = "seconds; for dates, and for times since 1970, name the column timestamp"

    def __call__(self, value: str | float) -> float:
        """Return seconds since the trace began."""
        return float(value)


def _not_below_zero(value: str | float) -> float:
    number = float(value)
    if number < 0.0:
        raise ValueError
    return number


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text.removesuffix(" UTC"))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
