"""Where as many are inside as come in while one stays: Little's law, solved for a stay that grows with the crowd."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_HALVINGS = 30


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
