"""The load that a pool will have when a replica ordered now is ready: a distribution, learnt per pool.

The forecast is of work, in requests per second of the lengths that the user expects: a request whose prompt or answer
makes it twice the work counts twice, so that ISL and OSL are forecast with the rate.

Traffic is counted in even bins, however often anybody looks. The logarithm of the rate has a level and a trend that
dies away (Holt's method with damping, Gardner and McKenzie 1985); a surprise far beyond the usual moves the level
nearly all the way. A second level follows almost at once, which is the better guess where traffic does not come back to
what it was, as lengths seldom do. How far it leads, and what days before did at this hour, is added as far as either
has proved right. How wide the distribution is comes from the pool's own past: every bin foretells the one in which its
replica would be ready, and when that is over, what it got over what was foretold joins the errors whose quantiles are
added to the next forecast. Traffic that repeats itself every few minutes is foretold by that instead (`cycles`).

Counts scatter by chance alone the more the fewer they are, and errors are told in units of that: bursts of the day make
no wide forecast of a quiet night. When forecasts fell short more than usual lately, the next ones are wider: bursts
come in clusters. But for what a new pool is believed to scatter by, no margin reaches beyond the most that came lately:
in the middle of a burst, another one on top of it is not what quiet times have taught.

Here is what a forecast is made of; `learning` moves that on with every bin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.values.changed import changed
from weft.domain.values.made_often import made_often
from weft.scaling.forecasting.scatter import ASSUMED, ASSUMED_SPREAD, quantile, quantile_of_requests
from weft.scaling.forecasting.seasons import change

if TYPE_CHECKING:
    from weft.domain.forecast import ForecastState
    from weft.scaling.forecasting.cycles import InCycle

BIN_SECONDS = 30.0
# Looks further apart than this tell nothing about the time between them.
LONGEST_APART_SECONDS = 60.0
# Duration of a start where none was measured and nothing is known to estimate it from.
ASSUMED_STARTUP_SECONDS = 120.0
MOST_STARTUP_SECONDS = 3600.0

DAMPING = 0.97
CHANCE = 3.0  # usual surprises that may be chance
LEAST_USUAL = 0.02
WILDEST = 3.0  # of the usual
RIDGE_OF_SEASONS, RIDGE_OF_LEADS = 0.05, 0.02  # squared error that a daily pattern and a lead have to beat
_DEVIATION = 1.25  # standard deviation over mean deviation of a normal distribution
_SPREAD_OVER_UPWARD = 2.5  # standard deviation over the mean of what is above the middle, of a normal distribution
_LEAST_NOISE = 0.04
_CALMEST = 0.5  # of the usual
_MOST_MARGIN = 3.0  # logarithm: twenty times the likely rate
_LIKELY = 0.5  # the median over time, not over requests
_PART_BEYOND = 0.9  # quantile of a new pool's assumed errors that margins may go beyond the highest recent rate
# Squared lead assumed to have proved right before anything was measured.
_BELIEVED = 0.2


@made_often
@dataclass(frozen=True, slots=True)
class Forecast:
    """Requests per second in the bin at the horizon: `level` is the log of the rate, `errors` and `scale` its scatter.

    The horizon is the duration of a start; `is_measured` says that one was measured. `width` is the scale without the
    bins that nobody saw, and `most` the log of the rate that no margin exceeds. Where a short cycle foretells it,
    `cycle_seconds` is its period, `level` the highest until the horizon, and `again` the forecast until twice that.
    Where more came lately than a cycle foretold (it `rose`) or less (it `fell`), `cycle` is what it foretells, beside
    the usual forecast: the higher of both counts, or the lower.
    """

    level: float
    scale: float
    errors: tuple[float, ...]
    horizon_seconds: float
    is_measured: bool = False
    width: float = 1.0
    most: float = math.inf
    cycle_seconds: float = 0.0
    again: Forecast | None = None
    cycle: Forecast | None = None
    rose: bool = False
    fell: bool = False

    def quantile(self, part: float) -> float:
        """The rate that only 1 - `part` of requests exceed, given that replicas for a forecast are held for a while."""
        error = quantile(self.errors, part) if part <= _LIKELY else quantile_of_requests(self.errors, part, self.width)
        return math.exp(min(self.most, self.level + min(_MOST_MARGIN, self.scale * error)))

    def over(self, work: float) -> Forecast:
        """The forecast in requests per second, each of this much work, from one in units of work."""
        less = math.log(work)
        again = None if self.again is None else self.again.over(work)
        return changed(self, level=self.level - less, most=self.most - less, again=again, cycle=None)


def horizon_of(state: ForecastState) -> float:
    """Seconds until a replica ordered now answers requests: as measured, else as estimated."""
    if state.startup_seconds is not None:
        return state.startup_seconds
    estimated = state.estimated_startup_seconds
    return ASSUMED_STARTUP_SECONDS if estimated is None else min(estimated, MOST_STARTUP_SECONDS)


def forecast(state: ForecastState, now: float, horizon_seconds: float | None = None) -> Forecast | None:
    """The rate in the bin `horizon_seconds` (unset: one start) after `now`; None before anything was learnt.

    The longer ago the last bin was seen, the wider the distribution.
    """
    if state.latest is None:
        return None
    horizon_seconds = horizon_of(state) if horizon_seconds is None else horizon_seconds
    ahead = ahead_of(horizon_seconds)
    unseen = max(0, int(now // BIN_SECONDS) - state.latest - 1)
    is_measured = state.startup_seconds is not None
    found = in_cycle_of(state, ahead + unseen)
    cycle = None if found is None else _of_cycle(state, found, horizon_seconds)
    if cycle is not None and not (cycle.rose or cycle.fell):
        return cycle
    rate = state.level + state.trend * damped(ahead + unseen)
    season = change(state.days, (state.latest + 0.5) * BIN_SECONDS, (ahead + unseen) * BIN_SECONDS)
    rate += added(state, season, state.recent - state.level)
    wide, longer = width(state, rate), math.sqrt((ahead + unseen) / ahead)
    most = _most(state, rate, longer)
    usual = Forecast(rate, wide * longer, state.errors, horizon_seconds, is_measured, wide, most)
    return usual if cycle is None else changed(usual, cycle=cycle)


def _of_cycle(state: ForecastState, found: InCycle, horizon_seconds: float) -> Forecast:
    """The forecast that a cycle makes, with the one until twice the horizon."""
    most, is_measured = _most(state, found.again.level), state.startup_seconds is not None
    widths = [each.scatter / ASSUMED_SPREAD for each in (found.ahead, found.again)]
    ahead, again = (
        Forecast(each.level, wide, ASSUMED, horizon_seconds, is_measured, wide, most)
        for each, wide in zip((found.ahead, found.again), widths, strict=True)
    )
    return changed(ahead, cycle_seconds=state.period * BIN_SECONDS, again=again, rose=found.rose, fell=found.fell)


def in_cycle_of(state: ForecastState, ahead: int) -> InCycle | None:
    """What the cycle of a pool foretells; a command that plans does without NumPy, which takes a third of its start."""
    if not state.period:
        return None
    from weft.scaling.forecasting.cycles import in_cycle  # noqa: PLC0415 - see above

    return in_cycle(state.course, state.period, ahead)


def _most(state: ForecastState, rate: float, longer: float = 1.0) -> float:
    """The log rate that no margin exceeds, where this one is likely and errors are so many times as wide as usual."""
    highest = max(rate, state.highest)
    return highest + longer * width(state, highest) * quantile(ASSUMED, _PART_BEYOND)


def is_old(state: ForecastState, now: float) -> bool:
    """Whether the last bin learnt from is so old that a forecast would be a guess."""
    return state.latest is None or now - (state.latest + 1) * BIN_SECONDS > 2 * LONGEST_APART_SECONDS


def expected(state: ForecastState) -> float:
    """The usual requests per second at present; 0 before anything was learnt."""
    return math.exp(state.level) if state.latest is not None else 0.0


def persists(state: ForecastState, now: float, rate: float, seconds: float) -> float:
    """How much of a `rate` that was counted over some seconds is expected to remain when a start is over.

    What exceeds the level persists (in logarithms) as far as earlier leads proved right. All of it does while none is
    known, and where it is far beyond the usual surprise of a bin, as that is a step. Other bursts end before a replica
    ordered for them is ready.
    """
    above = math.log(rate) - state.level if rate > 0.0 else 0.0
    if above <= 0.0 or is_old(state, now):
        return rate
    proved, tried = state.led
    lasted = trust((proved + _BELIEVED, tried), _BELIEVED)
    part = max(lasted, part_of_steps(above / _by_chance_among(state, rate * seconds) / usual_surprise(state)))
    return rate * math.exp((part - 1.0) * above)


def usual_surprise(state: ForecastState) -> float:
    """Standard deviation of the surprise in a bin of many requests, in logarithms."""
    return _DEVIATION * max(_LEAST_NOISE, state.noise)


def part_of_steps(usual_ones: float) -> float:
    """The fraction of a surprise, given in usual surprises, to follow: 0 for likely chance, up to 1 for a step."""
    return min(1.0, max(0.0, (usual_ones - CHANCE) / CHANCE))


def ahead_of(horizon_seconds: float) -> int:
    """Bins from the last one learnt to the one at the horizon."""
    return 1 + int(min(max(0.0, horizon_seconds), MOST_STARTUP_SECONDS) // BIN_SECONDS)


def damped(bins: int) -> float:
    """Growth of a damped trend over so many bins, in multiples of its growth per bin."""
    return float(DAMPING * (1.0 - DAMPING**bins) / (1.0 - DAMPING))


def by_chance(state: ForecastState, rate: float) -> float:
    """Scatter of a count at some log rate, in units of that of large counts.

    The scatter of bursts (s) and of counting (1 / n) add up in squares: sqrt(s^2 + 1 / n) is s times this.
    """
    return _by_chance_among(state, math.exp(rate) * BIN_SECONDS)


def _by_chance_among(state: ForecastState, requests: float) -> float:
    bursts = _SPREAD_OVER_UPWARD * max(LEAST_USUAL, state.usual)
    return math.sqrt(1.0 + 1.0 / (bursts * bursts * max(0.5, requests)))


def width(state: ForecastState, rate: float) -> float:
    """How wide errors of forecasts scatter at some log rate, in units of the usual error of large counts."""
    restless = max(LEAST_USUAL, state.upward) / max(LEAST_USUAL, state.usual)
    return by_chance(state, rate) * math.sqrt(min(WILDEST, max(_CALMEST, restless)))


def trust(proved: tuple[float, float], ridge: float) -> float:
    """The fraction of predicted changes that proved right, from 0 to 1 (ridge regression)."""
    return min(1.0, max(0.0, proved[0] / (proved[1] + ridge)))


def added(state: ForecastState, season: float, lead: float) -> float:
    """What the daily pattern and the lead add to level and trend, each as far as it is trusted."""
    return trust(state.foretold, RIDGE_OF_SEASONS) * season + trust(state.led, RIDGE_OF_LEADS) * lead
