"""Where as many are inside as come in while one stays: Little's law, solved for a stay that grows with the crowd."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_HALVINGS = 30
_MOST_TRIALS, _AGREED = 20, 3e-4

Found = TypeVar("Found")


def balanced(wanted: Callable[[float], float], most: float) -> float:
    """The crowd of which `wanted` is the crowd itself, above 0 and at most `most`. It grows slower than the crowd."""
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if middle < wanted(middle):
            low = middle
        else:
            high = middle
    return high


def agreed(of: Callable[[float], tuple[float, Found]], most: float) -> Found:
    """What comes of the value that itself comes of: `of` tells both of any value up to `most`.

    What comes of a value falls, if anything, as the value grows. So values that are too low and too high are told
    apart, and a secant that leaves them is replaced by the middle.
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
    """Where a line through two points is 0; nowhere, where it is level."""
    (x, y), (last_x, last_y) = one, other
    return x - y * (x - last_x) / (y - last_y) if y != last_y else math.inf
