"""A forecast's learnt state as about a kilobyte of text, and back.

After the version come numbers of a fixed layout in base64: 4 bytes for most figures, 2 for each change of a day, which
are rounded to thousandths anyway. A status can be edited by hand and must not break a pool, so a text is only accepted
if all of it is a state that a forecast can have; otherwise nothing is restored.
"""

from __future__ import annotations

import base64
import math
import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from weft.domain.forecast import ForecastState, Pending, QuarterHour
from weft.domain.start_up import KEPT_STARTS, LONGEST_PHASE_SECONDS, PHASES, MeasuredStart
from weft.domain.values.changed import changed
from weft.scaling.forecasting.course import LONGEST_BINS, MOST_KEPT_BYTES, SHORTEST_BINS, continued, kept_part
from weft.scaling.forecasting.forecast import BIN_SECONDS, MOST_STARTUP_SECONDS
from weft.scaling.forecasting.learning import HELD_BINS
from weft.scaling.forecasting.returning import returning
from weft.scaling.forecasting.scatter import ASSUMED
from weft.scaling.forecasting.seasons import NOTHING_SEEN, QUARTER_SECONDS, QUARTERS_A_DAY

if TYPE_CHECKING:
    from collections.abc import Sequence

_VERSION = "6."
_WITHOUT_STARTS = "5."  # as the current version, without the block of starts: where none is known
# As the two above, behind the course in which traffic repeats itself, after a period or in bursts (a period of 0).
_CYCLE_AND_STARTS, _CYCLE_ALONE = "8.", "7."
_WITH_CYCLE = {_CYCLE_AND_STARTS: _VERSION, _CYCLE_ALONE: _WITHOUT_STARTS}
_BEFORE_HIGHEST = {"4.": _VERSION, "3.": _WITHOUT_STARTS}  # without the highest rate, but else as these
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
_PROVED, _WEIGHTS, _LEAST_WEIGHT = (-1e6, 1e6), (0.0, 1e6), 1e-6  # without any weight there are no quantiles
_COSTS = (0.0, 1e18)
_NEVER, _NO_CHANGE = 2**32 - 1, -(2**15)
_HEAD = struct.Struct(f"<dI{len(_FIGURES)}f7f")  # the last look and bin, figures, sums of days and leads, costs
_QUARTER = struct.Struct("<I3f")
_ERRORS = struct.Struct(f"<{len(ASSUMED)}f")
_DAYS = struct.Struct(f"<{2 * QUARTERS_A_DAY}h")
_PENDING = struct.Struct("<h4f")
_START = struct.Struct(f"<I{len(PHASES)}H")
_HIGHEST = struct.Struct("<f")
_CYCLE = struct.Struct("<fH")  # the period in bins (0: none), and how many bytes of the course follow
_BEFORE = _HEAD.size + _QUARTER.size + _ERRORS.size + _DAYS.size
_FIXED = _BEFORE + _HIGHEST.size
_STARTS_SIZE = KEPT_STARTS * _START.size


def packed(state: ForecastState) -> str:
    """The state as text, with figures to seven digits, and without forecasts that are over: they teach nothing."""
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
    if state.period or returning(state):
        version = _CYCLE_AND_STARTS if state.starts else _CYCLE_ALONE
        kept = kept_part(state.course, state.period)
        content = [_CYCLE.pack(state.period, len(kept)), kept, *content]
    return version + base64.b64encode(b"".join(content)).decode()


def _packed_starts(starts: tuple[MeasuredStart, ...]) -> bytes:
    """Empty where no start is known, else of a fixed size, padded with empty entries."""
    known = [_START.pack(s.replica, *(min(phase, LONGEST_PHASE_SECONDS) for phase in s.phases)) for s in starts]
    lacking = (KEPT_STARTS - len(known)) * _START.pack(_NEVER, *(0 for _ in PHASES))
    return b"".join([*known, lacking]) if known else b""


def unpacked(text: str) -> ForecastState | None:
    """The state that was packed into this text; None for anything else."""
    version, numbers = text[: len(_VERSION)], text[len(_VERSION) :]
    try:
        content = base64.b64decode(numbers, validate=True)
        cycle: dict[str, Any] = {}
        if version in _WITH_CYCLE:
            version, (cycle, content) = _WITH_CYCLE[version], _cycle(content)
        if version in _BEFORE_HIGHEST:
            version, content = _BEFORE_HIGHEST[version], _with_highest(content)
        has_starts = {_VERSION: True, _WITHOUT_STARTS: False}[version]
        return changed(_unpacked(content, has_starts=has_starts), **cycle)
    except (KeyError, ValueError, struct.error):
        return None


def _cycle(content: bytes) -> tuple[dict[str, Any], bytes]:
    """The fields of a course, and the content behind it; raises `ValueError` or `struct.error` where there is none."""
    period, count = _CYCLE.unpack_from(content)
    if period:
        _within(period, (SHORTEST_BINS, LONGEST_BINS))
    kept = content[_CYCLE.size : _CYCLE.size + int(_within(count, (1, MOST_KEPT_BYTES)))]
    return {"course": continued(kept, period), "period": period}, content[_CYCLE.size + count :]


def _with_highest(content: bytes) -> bytes:
    """Content of an earlier version in the present layout, with the last level as the highest rate."""
    level = _HEAD.unpack_from(content)[2 + list(_FIGURES).index("level")]
    return content[:_BEFORE] + _HIGHEST.pack(level) + content[_BEFORE:]


def _unpacked(content: bytes, *, has_starts: bool) -> ForecastState:
    """Decode a state; raises `ValueError` or `struct.error` for content that no state is packed as."""
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
    """The starts, ascending by replica id and each once, as they were packed; raises `ValueError` otherwise."""
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
    """The checked sums of costs; requests need a bin, or they would be divided by zero."""
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
    """The changes of one kind of day; empty where none was seen yet."""
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
