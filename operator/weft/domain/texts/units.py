"""Parsing of durations and quantities, as Kubernetes users write them, into plain numbers, once, at the edge.

Inside Weft: bytes are SI bytes, times are seconds, rates are per second, bandwidths are bytes per second in one
direction.
"""

from __future__ import annotations

import math
import re

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason

MIB = 1024 * 1024
GIB = 1024 * MIB

# GEP-2257: up to four units, each a number of at most five digits.
DURATION_PATTERN = r"^([0-9]{1,5}(h|m|s|ms)){1,4}$"
_MOST = 99_999  # the most of one unit
_LONGEST = _MOST * 3_600_000  # milliseconds
_DURATION_PART = re.compile(r"([0-9]{1,5})(ms|h|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}

_QUANTITY = re.compile(r"^([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]+)?$")
_FACTORS = {
    "": 1.0,
    "m": 1e-3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
    "Pi": 2.0**50,
    "Ei": 2.0**60,
}


def parse_duration_seconds(text: str) -> float:
    """Seconds of a GEP-2257 duration such as `1h30m`, `300ms`; raises `Invalid` for anything else or zero."""
    if not re.match(DURATION_PATTERN, text):
        raise Invalid(Reason.SpecInvalid, f"{text!r} is not a duration: write for example 300ms, 90s or 1h30m")
    seconds = sum(int(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(text))
    if seconds <= 0:
        raise Invalid(Reason.SpecInvalid, f"{text!r} must be longer than zero")
    return seconds


def duration(milliseconds: float) -> str:
    """Format milliseconds so that `parse_duration_seconds` can read it: `1500ms`, `2s`, `1666m40s`.

    Rounded up to whole milliseconds, and limited to what can be written: from 1 ms to 99999 hours.
    """
    whole = math.ceil(min(max(1, milliseconds), _LONGEST))
    if whole <= _MOST and whole % 1000:
        return f"{whole}ms"
    seconds, below = divmod(whole, 1000)
    minutes, seconds = divmod(seconds, 60) if seconds > _MOST else (0, seconds)
    hours, minutes = divmod(minutes, 60) if minutes > _MOST else (0, minutes)
    parts = ((hours, "h"), (minutes, "m"), (seconds, "s"), (below, "ms"))
    return "".join(f"{number}{unit}" for number, unit in parts if number)


def parse_quantity(value: str | float) -> float:
    """The number behind a Kubernetes quantity such as `8`, `500m`, `64Gi`, `1e3`; raises `Invalid` otherwise."""
    match = _QUANTITY.match(str(value))
    if match is None:
        raise Invalid(Reason.SpecInvalid, f"{value!r} is not a quantity: write for example 8, 500m or 64Gi")
    number, suffix = match.group(1), match.group(2) or ""
    if suffix[:1] in {"e", "E"} and len(suffix) > 1 and suffix != "Ei":
        return float(number + suffix)
    return float(number) * _FACTORS[suffix]
