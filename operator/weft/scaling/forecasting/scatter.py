"""How far forecasts have been off: weights of past errors by size, from which any quantile is read.

An error is a difference of logarithms: 0.7 is twice the forecast. Bins of errors are narrow around zero and wide far
away, old errors count less, and a new pool starts with the errors of counting by chance and a tenth.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise
from typing import NamedTuple

_SIDE = 16  # bounds on either side of an error of zero
_NARROWEST, _FARTHEST = 0.01, 2.0  # logarithms of a ratio
ASSUMED_SPREAD = 0.05  # standard deviation of the assumed errors
# The assumed errors count as much as this many independent ones: more than twenty, or the first step of a new pool
# alone would be its 95th percentile.
_PRIOR_WEIGHT = 24.0
# No quantile is given that fewer errors than these exceed.
_LEAST_BEYOND = 1.2
# A bin in which more requests came than forecast holds proportionally more of all requests, up to this.
_MOST_OF_A_BIN = 4.0
REMEMBERED = 4096  # quantiles: pools are asked far more often than they learn


def _bounds() -> tuple[float, ...]:
    widest = math.asinh(_FARTHEST / _NARROWEST)
    return tuple(_NARROWEST * math.sinh(widest * step / _SIDE) for step in range(-_SIDE, _SIDE + 1))


BOUNDS = _bounds()
_MIDDLES = (BOUNDS[0], *((lower + upper) / 2.0 for lower, upper in pairwise(BOUNDS)), BOUNDS[-1])


def _assumed() -> tuple[float, ...]:
    below = [0.0, *(0.5 * (1.0 + math.erf(bound / ASSUMED_SPREAD / math.sqrt(2.0))) for bound in BOUNDS), 1.0]
    return tuple(_PRIOR_WEIGHT * (upper - lower) for lower, upper in pairwise(below))


ASSUMED = _assumed()


def with_error(errors: tuple[float, ...], error: float, weight: float) -> tuple[float, ...]:
    """The weights with one more error."""
    place = bisect_right(BOUNDS, error)
    return (*errors[:place], errors[place] + weight, *errors[place + 1 :])


def faded(errors: tuple[float, ...], part: float) -> tuple[float, ...]:
    """The weights after they have decayed to this fraction."""
    return tuple([weight * part for weight in errors])


class _Cumulated(NamedTuple):
    """Weights of errors added up by size, and all of them together (exactly rounded)."""

    up_to: tuple[float, ...]
    total: float


@functools.lru_cache(maxsize=REMEMBERED)
def quantile(errors: tuple[float, ...], part: float) -> float:
    """The quantile `part` of all errors; linear between the bounds, and never beyond the last one.

    A quantile that hardly any error exceeded is unknown: the nearest known one stands for it.
    """
    weights = _cumulated(errors)
    return _at(weights.up_to, min(part * weights.total, _known(weights.total)))


@functools.lru_cache(maxsize=REMEMBERED)
def quantile_of_requests(errors: tuple[float, ...], part: float, scale: float) -> float:
    """The quantile `part` over requests, where errors are of forecasts with that scatter.

    More requests come in bins whose forecast was too low: a tenth of the time may hold a third of all requests.
    """
    of_requests, most = _of_requests(errors, scale)
    return min(_at(of_requests.up_to, part * of_requests.total), most)


@functools.lru_cache(maxsize=REMEMBERED)
def _of_requests(errors: tuple[float, ...], scale: float) -> tuple[_Cumulated, float]:
    """The weights over requests, and the largest error that is known; a margin asks for several of their quantiles."""
    weights = _cumulated(errors)
    of_requests = tuple([weight * times for weight, times in zip(errors, _times(scale), strict=True)])
    return _cumulated(of_requests), _at(weights.up_to, _known(weights.total))


def _times(scale: float) -> list[float]:
    """Requests relative to the forecast, for each bin of errors; none are more below the middle."""
    return [min(_MOST_OF_A_BIN, math.exp(scale * middle)) if middle > 0.0 else 1.0 for middle in _MIDDLES]


def _known(total: float) -> float:
    """The cumulative weight up to which quantiles are known, as enough errors lie beyond."""
    return max(total / 2.0, total - _LEAST_BEYOND)


def _cumulated(weights: tuple[float, ...]) -> _Cumulated:
    return _Cumulated(tuple(accumulate(weights)), math.fsum(weights))


def _at(up_to: tuple[float, ...], wanted: float) -> float:
    """The error at which the cumulative weight reaches `wanted`."""
    place = bisect_left(up_to, wanted) if wanted > 0.0 else bisect_right(up_to, 0.0)
    if place == len(up_to):
        return BOUNDS[-1]
    below = up_to[place - 1] if place else 0.0
    lower, upper = BOUNDS[max(0, place - 1)], BOUNDS[min(place, len(BOUNDS) - 1)]
    return lower + (upper - lower) * (wanted - below) / (up_to[place] - below)
