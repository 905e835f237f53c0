"""What a forecast has learnt as about a kilobyte of text, and back.

Behind the version come numbers of a fixed layout in base64: 4 bytes of most figures, 2 of each change of a day, which
are thousandths anyway. Whoever may write a status must not break a pool, so nothing is taken over unless all of it is
what a forecast may have learnt; anything else is as if nothing was known.
"""

from __future__ import annotations

import base64
import math
import struct
from itertools import pairwise
from typing import TYPE_CHECKING

from weft.domain.changed import changed
from weft.domain.forecast import ForecastState, Pending, QuarterHour
from weft.domain.start_up import KEPT_STARTS, LONGEST_PHASE_SECONDS, PHASES, MeasuredStart
from weft.scaling.forecast import BIN_SECONDS, HELD_BINS, MOST_STARTUP_SECONDS
from weft.scaling.scatter import ASSUMED
from weft.scaling.seasons import NOTHING_SEEN, QUARTER_SECONDS, QUARTERS_A_DAY

if TYPE_CHECKING:
    from collections.abc import Sequence

_VERSION = "6."
_WITHOUT_STARTS = "5."  # the same but for the part that starts are in, where none is known
_BEFORE_HIGHEST = {"4.": _VERSION, "3.": _WITHOUT_STARTS}  # the same as what but for the most that came
_LAST_MOMENT = 1e11  # epoch seconds: bins are counted in 4 bytes
_MOST_REQUESTS = 1e13
_RATES = (-20.0, 30.0)  # logarithms of requests/s
_CHANGES = (-50.0, 50.0)  # logarithms
_SCATTERS = (1e-6, 1e4)  # in units of errors
_MOST_PENDING = 32
_MOST_AHEAD = 1 + int(MOST_STARTUP_SECONDS // BIN_SECONDS)  # bins
_THOUSANDTHS, _MOST_THOUSANDTHS = 1000.0, 3000

# Figures in the order in which they are written, with the least and the most that each can be.
_FIGURES = {
    "requests": (0.0, _MOST_REQUESTS),
    "seconds": (0.0, 2.0 * BIN_SECONDS),
    "level": _RATES,
    "recent": _RATES,
    "trend": (-0.5, 0.5),
    "noise": (0.0, 50.0),
    "dispersion": (1.0, 100.0),
    "count": (0.0, _MOST_REQUESTS),
    "upward": (0.0, 50.0),
    "usual": (0.0, 50.0),
    "startup_seconds": (0.0, MOST_STARTUP_SECONDS),
}
_MAY_BE_MISSING = {"count", "startup_seconds"}
_PROVED, _WEIGHTS, _LEAST_WEIGHT = (-1e6, 1e6), (0.0, 1e6), 1e-6  # quantiles of no weight at all are none
_COSTS = (0.0, 1e18)
_NEVER, _NO_CHANGE = 2**32 - 1, -(2**15)
_HEAD = struct.Struct(f"<dI{len(_FIGURES)}f7f")  # the last look and bin, figures, how well days and leads did, costs
_QUARTER = struct.Struct("<I3f")
_ERRORS = struct.Struct(f"<{len(ASSUMED)}f")
_DAYS = struct.Struct(f"<{2 * QUARTERS_A_DAY}h")
_PENDING = struct.Struct("<h4f")
_START = struct.Struct(f"<I{len(PHASES)}H")
_HIGHEST = struct.Struct("<f")
_BEFORE = _HEAD.size + _QUARTER.size + _ERRORS.size + _DAYS.size
_FIXED = _BEFORE + _HIGHEST.size
_STARTS_SIZE = KEPT_STARTS * _START.size


def packed(state: ForecastState) -> str:
    """The state as text, with figures to seven digits, but forecasts that are over, as nothing is learnt from them."""
    latest = _NEVER if state.latest is None else state.latest
    figures = [_or_nan(getattr(state, name)) for name in _FIGURES]
    content = [_HEAD.pack(state.seen, latest, *figures, *state.foretold, *state.led, *state.costs)]
    quarter = state.quarter or QuarterHour(_NEVER)
    content.append(_QUARTER.pack(quarter.index, quarter.requests, quarter.seconds, _or_nan(quarter.before)))
    content.append(_ERRORS.pack(*state.errors))
    content.append(_DAYS.pack(*_in_thousandths(state.days[0]), *_in_thousandths(state.days[1])))
    content.append(_HIGHEST.pack(state.highest))
    content.append(_packed_starts(state.starts[-KEPT_STARTS:]))
    due = [each for each in state.pending if each.due > state.bin - HELD_BINS][-_MOST_PENDING:]
    content += [_PENDING.pack(each.due - state.bin, each.rate, each.scale, each.season, each.lead) for each in due]
    version = _VERSION if state.starts else _WITHOUT_STARTS
    return version + base64.b64encode(b"".join(content)).decode()


def _packed_starts(starts: tuple[MeasuredStart, ...]) -> bytes:
    """Nothing where none is known, else as many bytes as all that are kept take."""
    known = [_START.pack(s.replica, *(min(phase, LONGEST_PHASE_SECONDS) for phase in s.phases)) for s in starts]
    lacking = (KEPT_STARTS - len(known)) * _START.pack(_NEVER, *(0 for _ in PHASES))
    return b"".join([*known, lacking]) if known else b""


def unpacked(text: str) -> ForecastState | None:
    """The state that was written as this; None for anything else."""
    version, numbers = text[: len(_VERSION)], text[len(_VERSION) :]
    try:
        content = base64.b64decode(numbers, validate=True)
        if version in _BEFORE_HIGHEST:
            version, content = _BEFORE_HIGHEST[version], _with_highest(content)
        has_starts = {_VERSION: True, _WITHOUT_STARTS: False}[version]
        return _unpacked(content, has_starts=has_starts)
    except (KeyError, ValueError, struct.error):
        return None


def _with_highest(content: bytes) -> bytes:
    """The same of an earlier version: the most that came is what came last."""
    level = _HEAD.unpack_from(content)[2 + list(_FIGURES).index("level")]
    return content[:_BEFORE] + _HIGHEST.pack(level) + content[_BEFORE:]


def _unpacked(content: bytes, *, has_starts: bool) -> ForecastState:
    """Raises `ValueError` or `struct.error` for what no state is written as."""
    seen, latest, *figures = _HEAD.unpack_from(content)
    current = int(_within(seen, (0.0, _LAST_MOMENT)) // BIN_SECONDS)
    errors = _all_within(_ERRORS.unpack_from(content, _HEAD.size + _QUARTER.size), _WEIGHTS)
    _within(math.fsum(errors), (_LEAST_WEIGHT, math.inf))
    changes = _DAYS.unpack_from(content, _HEAD.size + _QUARTER.size + _ERRORS.size)
    state = ForecastState(
        seen,
        current,
        latest=None if latest == _NEVER else int(_within(latest, (0, current))),
        errors=errors,
        pending=_pending(content[_FIXED + (_STARTS_SIZE if has_starts else 0) :], current),
        quarter=_quarter(seen, *_QUARTER.unpack_from(content, _HEAD.size)),
        days=(_day(changes[:QUARTERS_A_DAY]), _day(changes[QUARTERS_A_DAY:])),
        foretold=(_within(figures[-7], _PROVED), _within(figures[-6], _WEIGHTS)),
        led=(_within(figures[-5], _PROVED), _within(figures[-4], _WEIGHTS)),
        costs=_costs(*figures[-3:]),
        highest=_within(_HIGHEST.unpack_from(content, _BEFORE)[0], _RATES),
        starts=_starts(content[_FIXED : _FIXED + _STARTS_SIZE]) if has_starts else (),
    )
    return changed(state, **{name: _figure(name, value) for name, value in zip(_FIGURES, figures, strict=False)})


def _starts(content: bytes) -> tuple[MeasuredStart, ...]:
    """By ids of replicas, each once, as they are kept."""
    _within(len(content), (_STARTS_SIZE, _STARTS_SIZE))
    known = [each for each in _START.iter_unpack(content) if each[0] != _NEVER]
    _all_within([second for _, *phases in known for second in phases], (0, LONGEST_PHASE_SECONDS))
    _all_within([later[0] - earlier[0] for earlier, later in pairwise(known)], (1, _NEVER))
    return tuple([MeasuredStart(replica, (a, b, c, d, e)) for replica, a, b, c, d, e in known])


def _pending(content: bytes, current: int) -> tuple[Pending, ...]:
    found = [
        Pending(
            current + int(_within(ahead, (-HELD_BINS, _MOST_AHEAD))),
            _within(rate, _RATES),
            _within(scale, _SCATTERS),
            _within(season, _CHANGES),
            _within(lead, _CHANGES),
        )
        for ahead, rate, scale, season, lead in _PENDING.iter_unpack(content)
    ]
    _within(len(found), (0, _MOST_PENDING))
    return tuple(found)


def _costs(bins: float, requests: float, cost: float) -> tuple[float, float, float]:
    """Requests without a bin would be divided by none."""
    if requests > 0.0:
        _within(bins, (_LEAST_WEIGHT, math.inf))
    return _within(bins, _WEIGHTS), _within(requests, _COSTS), _within(cost, _COSTS)


def _quarter(seen: float, index: int, requests: float, seconds: float, before: float) -> QuarterHour | None:
    if index == _NEVER:
        return None
    _within(index, (0, seen // QUARTER_SECONDS))
    requests, seconds = _within(requests, (0.0, _MOST_REQUESTS)), _within(seconds, (0.0, 2.0 * QUARTER_SECONDS))
    return QuarterHour(index, requests, seconds, None if math.isnan(before) else _within(before, _RATES))


def _day(changes: Sequence[int]) -> tuple[float | None, ...]:
    """Nothing at all where no change of such a day was seen yet."""
    known = [change for change in changes if change != _NO_CHANGE]
    _all_within(known, (-_MOST_THOUSANDTHS, _MOST_THOUSANDTHS))
    return tuple([None if change == _NO_CHANGE else change / _THOUSANDTHS for change in changes]) if known else ()


def _in_thousandths(day: tuple[float | None, ...]) -> list[int]:
    return [_NO_CHANGE if change is None else round(change * _THOUSANDTHS) for change in day or NOTHING_SEEN]


def _figure(name: str, value: float) -> float | None:
    return None if name in _MAY_BE_MISSING and math.isnan(value) else _within(value, _FIGURES[name])


def _within(value: float, bounds: tuple[float, float]) -> float:
    """The value; raises `ValueError` for one that is no number or out of bounds."""
    if bounds[0] <= value <= bounds[1]:
        return value
    raise ValueError(f"{value} is not from {bounds[0]} to {bounds[1]}")


def _all_within(values: Sequence[float], bounds: tuple[float, float]) -> tuple[float, ...]:
    least, most = bounds
    outside = [value for value in values if not least <= value <= most]
    if outside:
        raise ValueError(f"{outside[0]} is not from {least} to {most}")
    return tuple(values)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
