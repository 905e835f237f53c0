"""How much of the user's accepted risk, a share of requests, to take now: least where GPUs serve the most of them.

A margin protects requests and costs GPUs. One standard deviation of a forecast that is twice as wide, for requests that
are twice the work, costs four times the GPUs for each request that comes. A fleet serves the most requests in time for
its GPU-hours where the marginal GPU saves as many of them in every hour. One replica more or less matters when demand
is just there, so with errors that are normal that is where the density at the margin z, over what one standard
deviation costs (c), is the same at all times:

    exp(-z^2 / 2) / c = exp(-z0^2 / 2) / c0, or z^2 = z0^2 - 2 ln(c / c0),

with z0 as the user's risk has it at the usual cost c0, which is the mean over the requests of the pool.

Unbounded, that would buy fewer replicas for more work: they go as c exp(s z), s being the scatter of errors,
which falls with c where z is less than s, and where errors are those of bursts it falls at once. So a margin shrinks no
faster than work grows, and grows no faster than work shrinks.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from weft.domain.values.changed import changed
from weft.scaling.forecasting.forecast import Forecast, width
from weft.scaling.forecasting.learning import LEFT_OF_ERRORS

if TYPE_CHECKING:
    from weft.domain.forecast import ForecastState

MOST_RISK = 0.5  # the likely rate is always bought
MOST_OF_MEAN = 4.0  # a bin counts for at most so many mean ones, so that one broken look does not set what is usual
REMEMBERED = 4096  # most passes bring nothing new
# In the logarithm of a margin's cost: between two steps the bought rate is interpolated, and cut off beyond the
# dearest.
_STEP, _DEAREST = 0.1, math.exp(10.0)
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Margin:
    """The margin above the likely rate: `users` is the risk that the user accepts, at the usual cost of a margin.

    `times` is the present cost in multiples of the usual one.
    """

    users: float
    times: float = 1.0

    @property
    def risk(self) -> float:
        """The fraction of requests for which demand may exceed the forecast now."""
        return _risked(self.users, self.times)

    def on(self, ahead: Forecast) -> float:
        """The rate to provide for: the forecast with the margin."""
        bought = math.log(_times_likely(self.users, self.times, ahead.scale, ahead.errors))
        return math.exp(min(ahead.most, ahead.level + bought))


def margin_now(risk: float, state: ForecastState, ahead: Forecast, work: float) -> Margin:
    """The margin for a forecast of requests, each of this much work.

    In a short cycle it is the user's: what a margin costs there is told in other units than what it usually costs.
    """
    _, requests, cost = state.costs
    if requests <= 0.0 or cost <= 0.0 or ahead.cycle_seconds:
        return Margin(risk)
    return Margin(risk, ahead.width * work * requests / cost)


def with_cost(before: ForecastState | None, state: ForecastState, work: float) -> ForecastState:
    """The state with the cost of a margin added, once per bin learnt; `work` is that of one request."""
    if before is None or state.latest == before.latest or state.count is None:
        return state
    (bins, requests, cost), coming = [each * LEFT_OF_ERRORS for each in state.costs], state.count / work
    coming = coming if requests <= 0.0 else min(coming, MOST_OF_MEAN * requests / bins)
    dear = width(state, state.level) * work
    return changed(state, costs=(bins + 1.0, requests + coming, cost + coming * dear))


def without_costs(state: ForecastState) -> ForecastState:
    """The state with its usual costs, highest rate and course forgotten: they are told in another unit of work."""
    return changed(state, costs=(0.0, 0.0, 0.0), highest=state.level, course="", period=0.0)


@functools.lru_cache(maxsize=REMEMBERED)
def _risked(risk: float, times: float) -> float:
    """The risk taken at a cost of so many times the usual; who accepts a risk of half or more gets no margin."""
    if risk >= MOST_RISK:
        return risk
    usual = _deviations(risk)
    return 1.0 - _NORMAL.cdf(math.sqrt(max(0.0, usual * usual - 2.0 * math.log(times))))


def _times_likely(users: float, times: float, scale: float, errors: tuple[float, ...]) -> float:
    """The rate to buy over the likely one for this scatter, bounded so that more work never gets fewer replicas."""
    times = min(_DEAREST, max(1.0 / _DEAREST, times))
    steps = math.log(times) / _STEP
    lower = math.floor(steps)
    before, after = _work_bought(users, lower, scale, errors)
    return before * math.pow(after / before, steps - lower) / times


@functools.lru_cache(maxsize=REMEMBERED)
def _work_bought(users: float, steps: int, scale: float, errors: tuple[float, ...]) -> tuple[float, float]:
    """The rate bought times its cost, so many steps from the usual cost and one more; never falls with the cost.

    Errors of bursts make quantiles jump: where a margin ceases to cover them, replicas would drop by as much.
    """
    ahead = Forecast(0.0, scale, errors, 0.0, width=scale)
    costs = [math.exp(step * _STEP) for step in range(min(0, steps), max(0, steps + 1) + 1)]
    bought = [cost * ahead.quantile(1.0 - _risked(users, cost)) for cost in costs]
    if steps < 0:
        return min(bought), min(bought[1:])
    return max(bought[:-1]), max(bought)


def _deviations(risk: float) -> float:
    return _NORMAL.inv_cdf(1.0 - min(MOST_RISK, risk))
