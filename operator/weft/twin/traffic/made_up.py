"""Synthetic traces: a steady rate, a step, a ramp, a day or bursts, described by one line: `step:to=20,at=600`.

Arrivals are a Poisson process whose rate follows the shape; lengths are log-normal around their means.
"""

from __future__ import annotations

import math
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np

from weft.domain.errors import Invalid
from weft.domain.texts.units import parse_duration_seconds
from weft.twin.traffic.open_loop import LogNormalLengths, Profile, all_arrivals
from weft.twin.traffic.trace import LONGEST_SECONDS, MOST_REQUESTS, Trace, TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weft.twin.traffic.open_loop import Corners

    Values = Mapping[str, float]

_HOUR, _DAY = 3600.0, 86400.0
_MOST, _MOST_MEAN_TOKENS = 1e12, 1e8  # largest value of any number, and of mean tokens as in a resource
_MOST_BURSTS = 100_000
_CORNERS_OF_A_DAY = 288  # one every five minutes
_PEAK_OF_A_SINE, _HIGHEST_PEAK = 2.0, 24.0
_HALVINGS = 60  # of an interval, until it is as narrow as numbers can be
_EVERYWHERE = {"seconds": _HOUR, "isl": 1000.0, "osl": 200.0}  # duration in seconds, mean tokens in and out


def _poisson(values: Values) -> Corners:
    return ((0.0, values["rate"]), (values["seconds"], values["rate"]))


def _step(values: Values) -> Corners:
    at, low, high = values["at"], values["from"], values["to"]
    return ((0.0, low), (at, low), (at, high), (max(at, values["seconds"]), high))


def _ramp(values: Values) -> Corners:
    begin, end = values["at"], values["at"] + values["over"]
    low, high = values["from"], values["to"]
    return ((0.0, low), (begin, low), (end, high), (max(end, values["seconds"]), high))


def _day(values: Values) -> Corners:
    """Return a daily wave with its lowest point at midnight: `peak` is the highest rate over the mean.

    A sine reaches twice its mean at most. A higher peak is a sine to a power, so narrow that the mean stays.
    """
    peak = values["peak"]
    moments = np.linspace(0.0, values["seconds"], 1 + math.ceil(values["seconds"] / _DAY * _CORNERS_OF_A_DAY))
    wave = np.cos(2.0 * math.pi * moments / _DAY)
    shape = 1.0 - (peak - 1.0) * wave if peak <= _PEAK_OF_A_SINE else peak * ((1.0 - wave) / 2.0) ** _power_of(peak)
    return tuple(zip(moments.tolist(), (values["rate"] * shape).tolist(), strict=True))


def _power_of(peak: float) -> float:
    """Return the power of (1 - cos x)/2 whose mean is 1/peak; the mean is gamma(k + 1/2) / (sqrt(pi) gamma(k + 1))."""
    low, high = 1.0, peak * peak
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        mean = math.exp(math.lgamma(middle + 0.5) - math.lgamma(middle + 1.0)) / math.sqrt(math.pi)
        low, high = (middle, high) if mean * peak > 1.0 else (low, middle)
    return low


def _burst(values: Values) -> Corners:
    """Return bursts of `times` the rate for `lasting` seconds, in the middle of each period of `every` seconds."""
    low, high = values["rate"], values["rate"] * values["times"]
    corners, quiet = [(0.0, low)], (values["every"] - values["lasting"]) / 2.0
    for begin in np.arange(quiet, values["seconds"], values["every"]).tolist():
        end = begin + values["lasting"]
        corners += [(begin, low), (begin, high), (end, high), (end, low)]
    return (*corners, (max(corners[-1][0], values["seconds"]), low))


# Options of each shape beside `_EVERYWHERE`, with their defaults: rates in requests per second, times in seconds.
SHAPES: dict[str, tuple[Callable[[Values], Corners], Mapping[str, float]]] = {
    "poisson": (_poisson, {"rate": 10.0}),
    "step": (_step, {"from": 0.0, "to": 20.0, "at": 600.0}),
    "ramp": (_ramp, {"from": 1.0, "to": 20.0, "at": 600.0, "over": 1200.0}),
    "day": (_day, {"rate": 10.0, "peak": 1.8, "seconds": _DAY}),
    "burst": (_burst, {"rate": 10.0, "times": 4.0, "every": 600.0, "lasting": 60.0}),
}
_TIMES = {"seconds", "at", "over", "every", "lasting"}
_MAY_BE_ZERO = {"from", "to", "at", "rate"}


def made_up(line: str, seed: int = 0) -> Trace:
    """Return the trace of a line `NAME` or `NAME:KEY=NUMBER,...`; the same line and seed give the same trace.

    Raises `TraceError` for an unknown name or key, a number out of range, and a shape that begins after the end.
    """
    name, _, wishes = line.partition(":")
    if name not in SHAPES:
        near = get_close_matches(name, SHAPES, 1)
        perhaps = f", perhaps {near[0]}" if near else ""
        raise TraceError(f"{name!r} is no trace that can be made up{perhaps}: there are {', '.join(SHAPES)}")
    corners_of, own = SHAPES[name]
    values = _values(name, wishes, {**_EVERYWHERE, **own})
    profile, random = Profile(corners_of(values)), np.random.default_rng(seed)
    if profile.requests > MOST_REQUESTS:
        raise TraceError(f"{profile.requests:.3g} requests are more than the {MOST_REQUESTS:,} that can be made up")
    arrivals = all_arrivals(profile, values["seconds"], random)
    if not len(arrivals):
        raise TraceError(f"{line} has no requests: a higher rate or more seconds would bring some")
    inputs, outputs = (LogNormalLengths(values[each]).draw_many(len(arrivals), random) for each in ("isl", "osl"))
    return Trace(arrivals, inputs, outputs)


def _values(name: str, wishes: str, values: dict[str, float]) -> Values:
    said: set[str] = set()
    for wish in filter(None, wishes.split(",")):
        key, _, text = wish.partition("=")
        if key not in values:
            raise TraceError(f"{name} has no {key!r}: it takes {', '.join(values)}")
        if key in said:
            raise TraceError(f"{name}: {key} is given twice: remove one")
        said.add(key)
        values[key] = _number(name, key, text)
    _refuse_what_cannot_be(name, values)
    return values


def _refuse_what_cannot_be(name: str, values: Values) -> None:
    """Raise `TraceError` for numbers that are allowed one by one and make no such shape."""
    if values["seconds"] > LONGEST_SECONDS:
        raise TraceError(f"{name}: {values['seconds']:g} seconds are more than a year")
    if values.get("lasting", 0.0) > values.get("every", math.inf):
        raise TraceError(f"{name}: bursts that last {values['lasting']:g} s cannot come every {values['every']:g} s")
    _refuse_a_late_begin(name, values)
    if values.get("peak", 0.0) > _HIGHEST_PEAK:
        raise TraceError(f"{name}: peak cannot be above {_HIGHEST_PEAK:g}, which is a day's traffic within an hour")
    bursts = values["seconds"] / values.get("every", math.inf)
    if bursts > _MOST_BURSTS:
        raise TraceError(f"{name}: {bursts:.3g} bursts are more than the {_MOST_BURSTS:,} that can be made up")


def _refuse_a_late_begin(name: str, values: Values) -> None:
    """Raise `TraceError` where the trace is over before its shape begins: it would be a steady rate."""
    begin = values.get("at", (values.get("every", 0.0) - values.get("lasting", 0.0)) / 2.0)
    if begin >= values["seconds"]:
        raise TraceError(
            f"{name}: the trace ends at {values['seconds']:g} s and the {name} begins at {begin:g} s: give more "
            f"seconds, or another {'at' if 'at' in values else 'every'}"
        )


def _number(name: str, key: str, text: str) -> float:
    try:
        value = parse_duration_seconds(text) if key in _TIMES and text[-1:].isalpha() else float(text)
    except (ValueError, Invalid):
        takes = "seconds, or a time such as 90s or 1h30m" if key in _TIMES else "a number"
        raise TraceError(f"{name}: {key} takes {takes}, not {text!r:.60}") from None
    most = _MOST_MEAN_TOKENS if key in {"isl", "osl"} else _MOST
    if not 0 <= value <= most or (value == 0 and key not in _MAY_BE_ZERO):
        raise TraceError(f"{name}: {key} cannot be {text:.20}")
    return value
