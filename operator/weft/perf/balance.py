"""Solvers for Little's law where the stay grows with the number of requests inside."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_HALVINGS = 30
_MOST_TRIALS, _AGREED = 20, 3e-4

Found = TypeVar("Found")


def balanced(wanted: Callable[[float], float], most: float) -> float:
    """The fixed point of `wanted`, above 0 and at most `most`; `wanted` has to grow slower than its argument."""
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if middle < wanted(middle):
            low = middle
        else:
            high = middle
    return high


def agreed(of: Callable[[float], tuple[float, Found]], most: float) -> Found:
    """The result of `of` at its fixed point; `of(value)` gives (next value, result) for any value up to `most`.

    The next value falls, if it changes at all, as the value grows. So values that are too low and too high bracket the
    fixed point, and a secant that leaves the bracket is replaced by its middle.
    """
    low, high, tried, last = 0.0, most, most, (math.inf, math.inf)
    came, found = of(tried)
    for _ in range(_MOST_TRIALS):
        over = tried - came
        if abs(over) <= _AGREED * tried:
            break
        low, high = (low, tried) if over > 0.0 else (tried, high)
        following = _secant((tried, over), last) if last[0] < math.inf else came
        last, tried = (tried, over), following if low < following < high else (low + high) / 2.0
        came, found = of(tried)
    return found


def _secant(one: tuple[float, float], other: tuple[float, float]) -> float:
    """The zero of the line through two points; infinite where the line is level."""
    (x, y), (last_x, last_y) = one, other
    return x - y * (x - last_x) / (y - last_y) if y != last_y else math.inf
