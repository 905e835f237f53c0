"""Numbers in a status: exact decimals as text where decisions read them back, few digits where only people do."""

from __future__ import annotations

import math
from decimal import Decimal

SHORTEST_REWRITE_SECONDS = 300.0
SMALLEST_CHANGE = 0.05

_PLAIN_FROM, _PLAIN_BELOW = 1e-6, 1e15


def figure(value: float) -> str:
    """The shortest decimal that reads back as exactly this number; raises `ValueError` for NaN and infinities."""
    if not math.isfinite(value):
        raise ValueError(f"{value} cannot be written into a status")
    plainly = value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW
    return format(_normal(value), "f") if plainly else f"{_normal(value):e}"


def read_figure(text: str) -> float:
    """The number that `figure` wrote; raises `ValueError` for anything that is not finite."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a number of ours")
    return value


def milliseconds(seconds: float) -> str:
    """A time as `8.25ms`, exactly."""
    scaled = _normal(float(seconds)).scaleb(3)
    plainly = seconds == 0 or _PLAIN_FROM <= abs(seconds) < _PLAIN_BELOW
    return f"{scaled:f}ms" if plainly else f"{scaled:e}ms"


def read_milliseconds(text: str) -> float:
    """Seconds of what `milliseconds` wrote; raises `ValueError` otherwise."""
    number = text.removesuffix("ms")
    if number == text:
        raise ValueError(f"{text!r} is not in ms")
    read_figure(number)
    return float(Decimal(number).scaleb(-3))


def rounded(value: float) -> float:
    """This number to three significant digits."""
    return float(f"{value:.3g}")


def quantised(previous: float | None, current: float, previous_time: float | None, now: float) -> float:
    """The figure to show: the one already shown, until it is 5 minutes old and 5 % off. Times are epoch seconds."""
    if previous is None or previous_time is None:
        return rounded(current)
    is_old = now - previous_time >= SHORTEST_REWRITE_SECONDS
    return rounded(current) if is_old and is_off(previous, current) else previous


def is_off(previous: float | None, current: float | None) -> bool:
    """Whether two figures differ by 5 % or more, or one of them is missing."""
    if previous is None or current is None:
        return previous is not current
    return abs(current - previous) >= SMALLEST_CHANGE * max(abs(previous), abs(current)) and current != previous


def _normal(value: float) -> Decimal:
    number = Decimal(repr(float(value))).normalize()
    return number or Decimal(0)
