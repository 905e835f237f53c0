"""How much of what a user lets Weft risk over time is risked now: least where GPUs serve the most requests.

A margin protects requests and costs GPUs. One standard deviation of a forecast that is twice as wide, for requests that
are twice the work, costs four times the GPUs for each request that comes. A fleet has the most requests in time for its
GPU-hours where the last GPU of any hour saves as many as that of any other. A replica more or less matters when demand
is just there, so with errors that are normal that is where the density at the margin z, over what one standard
deviation costs (c), is the same at all times:

    exp(-z^2 / 2) / c = exp(-z0^2 / 2) / c0, or z^2 = z0^2 - 2 ln(c / c0),

with z0 as the user's risk has it at the usual cost c0, which is the mean over the requests of the pool.
"""

from __future__ import annotations

import functools
import math
from statistics import NormalDist
from typing import TYPE_CHECKING

from weft.domain.changed import changed
from weft.scaling.forecast import LEFT_OF_ERRORS, width

if TYPE_CHECKING:
    from weft.domain.forecast import ForecastState
    from weft.scaling.forecast import Forecast

MOST_RISK = 0.5  # what is likely is always bought
REMEMBERED = 4096  # most passes bring nothing new
_NORMAL = NormalDist()


def risk_now(risk: float, state: ForecastState, ahead: Forecast, work: float) -> float:
    """The part of the time in which demand may exceed a forecast, of requests that are so much work each."""
    requests, cost = state.costs
    if requests <= 0.0 or cost <= 0.0:
        return risk
    return _risked(risk, ahead.scale * work * requests / cost)


def without_costs(state: ForecastState) -> ForecastState:
    """The state of which nothing is usual any more."""
    return changed(state, costs=(0.0, 0.0))


@functools.lru_cache(maxsize=REMEMBERED)
def _risked(risk: float, times: float) -> float:
    """Where a margin costs so many times as much as usual."""
    usual = _NORMAL.inv_cdf(1.0 - min(MOST_RISK, risk))
    return 1.0 - _NORMAL.cdf(math.sqrt(max(0.0, usual * usual - 2.0 * math.log(times))))


def with_cost(before: ForecastState | None, state: ForecastState, work: float) -> ForecastState:
    """The state with what a margin cost in the last bin, once for each; `work` is that of a request."""
    if before is None or state.latest == before.latest or state.count is None:
        return state
    (requests, cost), coming = state.costs, state.count / work
    costs = (requests * LEFT_OF_ERRORS + coming, cost * LEFT_OF_ERRORS + coming * width(state, state.level) * work)
    return changed(state, costs=costs)
