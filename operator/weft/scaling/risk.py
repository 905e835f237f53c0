"""How much of the risk that a user takes, which is of requests, is risked now: least where GPUs serve the most of them.

A margin protects requests and costs GPUs. One standard deviation of a forecast that is twice as wide, for requests that
are twice the work, costs four times the GPUs for each request that comes. A fleet has the most requests in time for its
GPU-hours where the last GPU of any hour saves as many as that of any other. A replica more or less matters when demand
is just there, so with errors that are normal that is where the density at the margin z, over what one standard
deviation costs (c), is the same at all times:

    exp(-z^2 / 2) / c = exp(-z0^2 / 2) / c0, or z^2 = z0^2 - 2 ln(c / c0),

with z0 as the user's risk has it at the usual cost c0, which is the mean over the requests of the pool.

Followed to the end, that would buy fewer replicas for more work: they go as c exp(s z), s being the scatter of errors,
which falls with c where z is less than s, and where errors are those of bursts it falls at once. So a margin shrinks no
faster than work grows, and grows no faster than work shrinks.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from weft.domain.changed import changed
from weft.scaling.forecast import LEFT_OF_ERRORS, Forecast, width

if TYPE_CHECKING:
    from weft.domain.forecast import ForecastState

MOST_RISK = 0.5  # what is likely is always bought
MOST_OF_MEAN = 4.0  # a bin counts as so many times the mean one, so that a broken look is not what is usual
REMEMBERED = 4096  # most passes bring nothing new
# Of the logarithm of what margins cost: between two steps what is bought goes evenly, and beyond the dearest as there.
_STEP, _DEAREST = 0.1, math.exp(10.0)
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Margin:
    """What is bought beyond what is likely: for the risk that the user takes at the usual cost of a margin.

    `times` is how many times as much it costs now.
    """

    users: float
    times: float = 1.0

    @property
    def risk(self) -> float:
        """The part of such times in which demand may exceed the forecast."""
        return _risked(self.users, self.times)

    def on(self, ahead: Forecast) -> float:
        """The rate that is bought."""
        bought = math.log(_times_likely(self.users, self.times, ahead.scale, ahead.errors))
        return math.exp(min(ahead.most, ahead.level + bought))


def margin_now(risk: float, state: ForecastState, ahead: Forecast, work: float) -> Margin:
    """For a forecast of requests that are so much work each."""
    _, requests, cost = state.costs
    if requests <= 0.0 or cost <= 0.0:
        return Margin(risk)
    return Margin(risk, ahead.width * work * requests / cost)


def with_cost(before: ForecastState | None, state: ForecastState, work: float) -> ForecastState:
    """The state with what a margin cost when the last bin was learnt; `work` is that of a request."""
    if before is None or state.latest == before.latest or state.count is None:
        return state
    (bins, requests, cost), coming = [each * LEFT_OF_ERRORS for each in state.costs], state.count / work
    coming = coming if requests <= 0.0 else min(coming, MOST_OF_MEAN * requests / bins)
    dear = width(state, state.level) * work
    return changed(state, costs=(bins + 1.0, requests + coming, cost + coming * dear))


def without_costs(state: ForecastState) -> ForecastState:
    """The state of which nothing is usual any more."""
    return changed(state, costs=(0.0, 0.0, 0.0), highest=state.level)


@functools.lru_cache(maxsize=REMEMBERED)
def _risked(risk: float, times: float) -> float:
    """Where a margin costs so many times as much as usual; who wants no margin gets none."""
    if risk >= MOST_RISK:
        return risk
    usual = _deviations(risk)
    return 1.0 - _NORMAL.cdf(math.sqrt(max(0.0, usual * usual - 2.0 * math.log(times))))


def _times_likely(users: float, times: float, scale: float, errors: tuple[float, ...]) -> float:
    """What is bought over the rate of a forecast with this scatter: more work never gets fewer replicas."""
    times = min(_DEAREST, max(1.0 / _DEAREST, times))
    steps = math.log(times) / _STEP
    lower = math.floor(steps)
    before, after = (_work_bought(users, step, scale, errors) for step in (lower, lower + 1))
    return before * math.pow(after / before, steps - lower) / times


@functools.lru_cache(maxsize=REMEMBERED)
def _work_bought(users: float, steps: int, scale: float, errors: tuple[float, ...]) -> float:
    """What is bought, times what it costs, so many steps from the usual cost: the most up to there, or the least.

    Errors of bursts lie on a cliff: at the cost where a margin comes to leave them out, replicas would fall by as much.
    """
    ahead = Forecast(0.0, scale, errors, 0.0, width=scale)
    costs = [math.exp(step * _STEP) for step in range(min(0, steps), max(0, steps) + 1)]
    bought = [cost * ahead.quantile(1.0 - _risked(users, cost)) for cost in costs]
    return max(bought) if steps > 0 else min(bought)


def _deviations(risk: float) -> float:
    return _NORMAL.inv_cdf(1.0 - min(MOST_RISK, risk))
