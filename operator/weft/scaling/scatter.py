"""How far forecasts have been off: weights of past errors by size, from which any quantile is read.

An error is a difference of logarithms: 0.7 is twice the forecast. Bins of errors are narrow around zero and wide far
away, old errors count less, and a new pool starts with the errors of counting by chance and a tenth.
"""

from __future__ import annotations

import functools
import math
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def _assumed() -> tuple[float, ...]:
    below = [0.0, *(0.5 * (1.0 + math.erf(bound / ASSUMED_SPREAD / math.sqrt(2.0))) for bound in BOUNDS), 1.0]
    return tuple(_PRIOR_WEIGHT * (upper - lower) for lower, upper in pairwise(below))


ASSUMED = _assumed()


def with_error(errors: tuple[float, ...], error: float, weight: float) -> tuple[float, ...]:
    """The weights with one more error."""
    place = next((place for place, bound in enumerate(BOUNDS) if error < bound), len(BOUNDS))
    return (*errors[:place], errors[place] + weight, *errors[place + 1 :])


def faded(errors: tuple[float, ...], part: float) -> tuple[float, ...]:
    """The weights after they have decayed to this fraction."""
    return tuple([weight * part for weight in errors])


@functools.lru_cache(maxsize=REMEMBERED)
def quantile(errors: tuple[float, ...], part: float) -> float:
    """The quantile `part` of all errors; linear between the bounds, and never beyond the last one.

    A quantile that hardly any error exceeded is unknown: the nearest known one stands for it.
    """
    return _up_to(errors, min(part * math.fsum(errors), _known(errors)))


@functools.lru_cache(maxsize=REMEMBERED)
def quantile_of_requests(errors: tuple[float, ...], part: float, scale: float) -> float:
    """The quantile `part` over requests, where errors are of forecasts with that scatter.

    More requests come in bins whose forecast was too low: a tenth of the time may hold a third of all requests.
    """
    of_requests = [weight * times for weight, times in zip(errors, _requests_of_bins(scale), strict=True)]
    return min(_up_to(of_requests, part * math.fsum(of_requests)), _up_to(errors, _known(errors)))


@functools.lru_cache(maxsize=REMEMBERED)
def _requests_of_bins(scale: float) -> tuple[float, ...]:
    """Requests relative to the forecast, for each bin of errors."""
    middles = [BOUNDS[0], *((lower + upper) / 2.0 for lower, upper in pairwise(BOUNDS)), BOUNDS[-1]]
    return tuple([min(_MOST_OF_A_BIN, math.exp(scale * max(0.0, middle))) for middle in middles])


def _known(errors: tuple[float, ...]) -> float:
    """The cumulative weight up to which quantiles are known, as enough errors lie beyond."""
    total = math.fsum(errors)
    return max(total / 2.0, total - _LEAST_BEYOND)


def _up_to(weights: Sequence[float], wanted: float) -> float:
    """The error at which the cumulative weight reaches `wanted`."""
    for place, (below, upto) in enumerate(pairwise((0.0, *accumulate(weights)))):
        if upto >= wanted and upto > below:
            lower, upper = BOUNDS[max(0, place - 1)], BOUNDS[min(place, len(BOUNDS) - 1)]
            return lower + (upper - lower) * (wanted - below) / (upto - below)
    return BOUNDS[-1]
