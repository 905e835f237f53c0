"""Damped least squares (Levenberg and Marquardt) in numpy: small, deterministic, and enough for a hundred unknowns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable

Vector = NDArray[np.float64]

STEP = 1e-5
_ITERATIONS = 60
_ENOUGH = 1e-6
_DAMPING, _MOST_DAMPED = 1e-2, 1e9
_STIFFENED, _EASED = 4.0, 3.0


def least_squares(
    residuals: Callable[[Vector], Vector], start: Vector, slopes: Callable[[Vector], Vector] | None = None
) -> Vector:
    """The parameters near `start` with the smallest sum of squared residuals.

    `slopes` gives the derivatives of residuals (rows) by parameters (columns), where there is a shorter way to them
    than to move each parameter a little.
    """
    at, here, damping = start.copy(), residuals(start), _DAMPING
    for _ in range(_ITERATIONS):
        slope = slopes(at) if slopes else _jacobian(residuals, at, here)
        found = _descended(residuals, at, here, slope, damping)
        if found is None:
            break
        gained = float(here @ here - found.residuals @ found.residuals)
        at, here, damping = found.at, found.residuals, found.damping / _EASED
        if gained < _ENOUGH * float(here @ here):
            break
    return at


class _Found(NamedTuple):
    """A better place, its residuals, and the damping that led there."""

    at: Vector
    residuals: Vector
    damping: float


def _descended(
    residuals: Callable[[Vector], Vector], at: Vector, here: Vector, slope: Vector, damping: float
) -> _Found | None:
    """A step downhill, damped as much as it takes; None at the bottom."""
    normal, gradient = slope.T @ slope, slope.T @ here
    while damping < _MOST_DAMPED:
        there = at - np.linalg.solve(normal + damping * np.diag(np.diag(normal)), gradient)
        errors = residuals(there)
        if errors @ errors < here @ here:
            return _Found(there, errors, damping)
        damping *= _STIFFENED
    return None


def _jacobian(residuals: Callable[[Vector], Vector], at: Vector, here: Vector) -> Vector:
    slope = np.empty((here.size, at.size))
    for column in range(at.size):
        moved = at.copy()
        moved[column] += STEP
        slope[:, column] = (residuals(moved) - here) / STEP
    return slope
