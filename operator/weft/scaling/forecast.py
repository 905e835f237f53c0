"""The load that a pool will have when a replica ordered now is ready: a distribution, learnt per pool.

The forecast is of work, in requests per second of the lengths that the user expects: a request whose prompt or answer
makes it twice the work counts twice, so that ISL and OSL are forecast with the rate.

Traffic is counted in even bins, however often anybody looks. The logarithm of the rate has a level and a trend that
dies away (Holt's method with damping, Gardner and McKenzie 1985); a surprise far beyond the usual moves the level
nearly all the way. A second level follows almost at once, which is the better guess where traffic does not come back to
what it was, as lengths seldom do. How far it leads, and what days before did at this hour, is added as far as either
has proved right. How wide the distribution is comes from the pool's own past: every bin foretells the one in which its
replica would be ready, and when that is over, what it got over what was foretold joins the errors whose quantiles are
added to the next forecast.

Counts scatter by chance alone the more the fewer they are, and errors are told in units of that: bursts of the day make
no wide forecast of a quiet night. When forecasts fell short more than usual lately, the next ones are wider: bursts
come in clusters. But for what a new pool is believed to scatter by, no margin reaches beyond the most that came lately:
in the middle of a burst, another one on top of it is not what quiet times have taught.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.changed import changed
from weft.domain.forecast import ForecastState, Pending
from weft.domain.made_often import made_often
from weft.scaling.reading import is_sane
from weft.scaling.scatter import ASSUMED, faded, quantile, quantile_of_requests, with_error
from weft.scaling.seasons import change, counted

if TYPE_CHECKING:
    from weft.domain.forecast import QuarterHour
    from weft.scaling.seasons import Days

BIN_SECONDS = 30.0
# Looks further apart than this tell nothing about the time between them.
LONGEST_APART_SECONDS = 60.0
# Replicas that a forecast asked for are kept for this long: the usual delay before a pool shrinks.
HELD_BINS = 10
# Duration of a start where none was measured and nothing is known to estimate it from.
ASSUMED_STARTUP_SECONDS = 120.0
MOST_STARTUP_SECONDS = 3600.0
# Decay per bin of the weight of daily patterns (half in three days), and of errors and of leads (half in half a day).
LEFT_OF_SEASONS, LEFT_OF_ERRORS = 0.5 ** (BIN_SECONDS / 259_200.0), 0.5 ** (BIN_SECONDS / 43_200.0)

_LEVEL_GAIN, _RECENT_GAIN, _TREND_GAIN, _DAMPING = 0.2, 0.8, 0.01, 0.97
_NOISE_GAIN, _UPWARD_GAIN, _USUAL_GAIN, _STARTUP_GAIN, _DISPERSION_GAIN = 0.05, 0.1, 0.003, 0.1, 0.02
_CHANCE, _NEARLY_ALL = 3.0, 0.9  # usual surprises that may be chance; fraction of one twice as large that is followed
_DEVIATION = 1.25  # standard deviation over mean deviation of a normal distribution
_SPREAD_OVER_UPWARD = 2.5  # standard deviation over the mean of what is above the middle, of a normal distribution
_LEAST_NOISE, _LEAST_USUAL = 0.04, 0.02
_CALMEST, _WILDEST = 0.5, 3.0  # of the usual
_DOUBT_OF_SEASONS, _DOUBT_OF_LEADS = 0.05, 0.02  # squared error that a daily pattern and a lead have to beat
_MOST_PENDING = 12
_MOST_DISPERSION = 100.0
_MOST_MARGIN = 3.0  # logarithm: twenty times the likely rate
_LIKELY = 0.5  # the median over time, not over requests
_PART_BEYOND = 0.9  # quantile of a new pool's assumed errors that margins may go beyond the highest recent rate
MOST_RATE = 1e9  # requests/s: more is a broken metric
_MOST_GROWTH = 0.7  # logarithm: the largest surprise of a bin that counts towards a trend
_SURPRISE = 4.0  # times the usual: the most that one bin counts as when the dispersion is learnt
# Squared lead assumed to have proved right before anything was measured.
_BELIEVED = 0.2


@made_often
@dataclass(frozen=True, slots=True)
class Forecast:
    """Requests per second in the bin at the horizon: `level` is the log of the rate, `errors` and `scale` its scatter.

    The horizon is the duration of a start; `is_measured` says that one was measured. `width` is the scale without the
    bins that nobody saw, and `most` the log of the rate that no margin exceeds.
    """

    level: float
    scale: float
    errors: tuple[float, ...]
    horizon_seconds: float
    is_measured: bool = False
    width: float = 1.0
    most: float = math.inf

    def quantile(self, part: float) -> float:
        """The rate that only 1 - `part` of requests exceed, given that replicas for a forecast are held for a while."""
        error = quantile(self.errors, part) if part <= _LIKELY else quantile_of_requests(self.errors, part, self.width)
        return math.exp(min(self.most, self.level + min(_MOST_MARGIN, self.scale * error)))

    def over(self, work: float) -> Forecast:
        """The forecast in requests per second, each of this much work, from one in units of work."""
        return changed(self, level=self.level - math.log(work), most=self.most - math.log(work))


def watched(
    state: ForecastState | None, now: float, rate: float | None, startup: float | None, inside: float | None = None
) -> ForecastState:
    """The state after a look at `now` (epoch seconds) that found `rate` requests/s; a rate of None changes nothing.

    `startup` is how long the running replicas took to start, in seconds; None where unknown. Where requests stay for
    longer than a bin, `inside` is their rate averaged over that stay, and is forecast instead.
    """
    if state is None:
        return ForecastState(now, int(now // BIN_SECONDS), errors=ASSUMED)
    if now < state.seen:
        return _set_back(state, now)
    if not is_sane(rate) or now == state.seen:
        return state
    if now - state.seen > LONGEST_APART_SECONDS:
        return changed(state, seen=now, bin=int(now // BIN_SECONDS), requests=0.0, seconds=0.0)
    rate, inside = min(rate, MOST_RATE), None if inside is None else min(inside, MOST_RATE)
    while state.seen < now:
        end = (state.bin + 1) * BIN_SECONDS
        spent = max(0.0, min(now, end) - state.seen)
        requests, seconds = state.requests + rate * spent, state.seconds + spent
        if now < end:
            return changed(state, seen=now, requests=requests, seconds=seconds)
        if seconds >= BIN_SECONDS / 2:
            state = _learnt(state, requests, seconds, startup, inside)
        state = changed(state, seen=end, bin=state.bin + 1, requests=0.0, seconds=0.0)
    return state


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
    ahead = _ahead(horizon_seconds)
    unseen = max(0, int(now // BIN_SECONDS) - state.latest - 1)
    rate = state.level + state.trend * _damped(ahead + unseen)
    season = change(state.days, (state.latest + 0.5) * BIN_SECONDS, (ahead + unseen) * BIN_SECONDS)
    rate += _added(state, season, state.recent - state.level)
    wide, longer = width(state, rate), math.sqrt((ahead + unseen) / ahead)
    highest = max(rate, state.highest)
    most = highest + longer * width(state, highest) * quantile(ASSUMED, _PART_BEYOND)
    is_measured = state.startup_seconds is not None
    return Forecast(rate, wide * longer, state.errors, horizon_seconds, is_measured, wide, most)


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
    lasted = _trust((proved + _BELIEVED, tried), _BELIEVED)
    part = max(lasted, _part_of_steps(above / _by_chance_among(state, rate * seconds) / _usual_surprise(state)))
    return rate * math.exp((part - 1.0) * above)


def _usual_surprise(state: ForecastState) -> float:
    """Standard deviation of the surprise in a bin of many requests, in logarithms."""
    return _DEVIATION * max(_LEAST_NOISE, state.noise)


def _part_of_steps(usual_ones: float) -> float:
    """The fraction of a surprise, given in usual surprises, to follow: 0 for likely chance, up to 1 for a step."""
    return min(1.0, max(0.0, (usual_ones - _CHANCE) / _CHANCE))


def _set_back(state: ForecastState, now: float) -> ForecastState:
    """The state after the clock was set back: what was learnt stays, forecasts for given times are dropped."""
    current = int(now // BIN_SECONDS)
    latest = None if state.latest is None else current - 1
    return changed(
        state, seen=now, bin=current, requests=0.0, seconds=0.0, latest=latest, pending=(), quarter=None, count=None
    )


def _ahead(horizon_seconds: float) -> int:
    """Bins from the last one learnt to the one at the horizon."""
    return 1 + int(min(max(0.0, horizon_seconds), MOST_STARTUP_SECONDS) // BIN_SECONDS)


def _damped(bins: int) -> float:
    """Growth of a damped trend over so many bins, in multiples of its growth per bin."""
    return float(_DAMPING * (1.0 - _DAMPING**bins) / (1.0 - _DAMPING))


def _by_chance(state: ForecastState, rate: float) -> float:
    """Scatter of a count at some log rate, in units of that of large counts.

    The scatter of bursts (s) and of counting (1 / n) add up in squares: sqrt(s^2 + 1 / n) is s times this.
    """
    return _by_chance_among(state, math.exp(rate) * BIN_SECONDS)


def _by_chance_among(state: ForecastState, requests: float) -> float:
    bursts = _SPREAD_OVER_UPWARD * max(_LEAST_USUAL, state.usual)
    return math.sqrt(1.0 + 1.0 / (bursts * bursts * max(0.5, requests)))


def width(state: ForecastState, rate: float) -> float:
    """How wide errors of forecasts scatter at some log rate, in units of the usual error of large counts."""
    restless = max(_LEAST_USUAL, state.upward) / max(_LEAST_USUAL, state.usual)
    return _by_chance(state, rate) * math.sqrt(min(_WILDEST, max(_CALMEST, restless)))


def _trust(proved: tuple[float, float], doubt: float) -> float:
    """The fraction of predicted changes that proved right, from 0 to 1 (ridge regression)."""
    return min(1.0, max(0.0, proved[0] / (proved[1] + doubt)))


def _added(state: ForecastState, season: float, lead: float) -> float:
    """What the daily pattern and the lead add to level and trend, each as far as it is trusted."""
    return _trust(state.foretold, _DOUBT_OF_SEASONS) * season + _trust(state.led, _DOUBT_OF_LEADS) * lead


def _proved(
    before: tuple[float, float], left: float, weight: float, error: float, change: float
) -> tuple[float, float]:
    """The two sums of the regression in `_trust`, faded, with one more forecast added."""
    return before[0] * left + weight * error * change, before[1] * left + weight * change * change


def _learnt(
    state: ForecastState, requests: float, seconds: float, startup: float | None, inside: float | None
) -> ForecastState:
    """The state after a bin that was seen well enough."""
    found = math.log(((requests if inside is None else inside * seconds) + 0.5) / seconds)
    quarter, days = counted(state, state.bin * BIN_SECONDS, requests, seconds)
    state = _judged(state, found)
    state = _followed(state, found, requests * BIN_SECONDS / seconds)
    if is_sane(startup) and startup > 0:
        startup = min(startup, MOST_STARTUP_SECONDS)
        known = state.startup_seconds
        startup = startup if known is None else known + _STARTUP_GAIN * (startup - known)
    else:
        startup = state.startup_seconds
    return _foretold(changed(state, startup_seconds=startup), quarter, days)


def _judged(state: ForecastState, found: float) -> ForecastState:
    """The state with the errors of the forecasts due in this bin; those due in bins that nobody saw teach nothing.

    A pool keeps the replicas of the highest forecast of the last minutes, so only what exceeds that fell short: traffic
    that resumes after a pause is no burst.
    """
    pending = tuple([each for each in state.pending if each.due > state.bin - HELD_BINS])
    due = [each for each in pending if each.due == state.bin]
    held = max((each.rate for each in pending if each.due <= state.bin), default=0.0)
    errors = faded(state.errors, LEFT_OF_ERRORS)
    upward, usual, foretold, led = state.upward, state.usual, state.foretold, state.led
    ahead = _ahead(horizon_of(state))
    for each in due:
        error = found - each.rate
        weight = min(1.0, _spacing(ahead) / ahead)  # errors of overlapping forecasts are correlated
        by_days = _trust(foretold, _DOUBT_OF_SEASONS) * each.season
        rest = min(error, max(0.0, found - held)) - by_days - _trust(led, _DOUBT_OF_LEADS) * each.lead
        errors = with_error(errors, rest / each.scale, weight)
        short = min(max(0.0, rest / _by_chance(state, each.rate)), _WILDEST * max(_LEAST_USUAL, usual) * 2)
        upward += _UPWARD_GAIN * (short - upward)
        usual += max(_USUAL_GAIN, weight / math.fsum(errors)) * (short - usual)  # a new pool learns faster
        foretold = _proved(foretold, LEFT_OF_SEASONS, weight, error, each.season)
        led = _proved(led, LEFT_OF_ERRORS, weight, error - by_days, each.lead)
    return changed(state, errors=errors, upward=upward, usual=usual, foretold=foretold, led=led, pending=pending)


def _followed(state: ForecastState, found: float, count: float) -> ForecastState:
    """Level, trend and scatter after a bin."""
    if state.latest is None:
        return changed(state, level=found, recent=found, highest=found, latest=state.bin, count=count)
    bins = max(1, state.bin - state.latest)
    foretold = state.level + state.trend * _damped(bins)
    surprise = found - foretold
    by_chance = _by_chance(state, max(foretold, found))
    usual = _usual_surprise(state)
    beyond = _part_of_steps(abs(surprise) / by_chance / usual)
    steady = 1.0 - (1.0 - _LEVEL_GAIN) ** bins
    gain = steady + max(0.0, _NEARLY_ALL - steady) * beyond
    bounded = max(-_CHANCE * usual, min(_CHANCE * usual, surprise / by_chance))
    noise = state.noise + _NOISE_GAIN * (abs(bounded) - state.noise)
    growth = _TREND_GAIN * (1.0 - beyond) * max(-_MOST_GROWTH, min(_MOST_GROWTH, surprise))  # a step is no trend
    level = foretold + gain * surprise
    return changed(
        state,
        level=level,
        highest=max(found, level + LEFT_OF_ERRORS**bins * (state.highest - level)),
        recent=state.recent + (1.0 - (1.0 - _RECENT_GAIN) ** bins) * (found - state.recent),
        trend=state.trend * _DAMPING**bins + growth,
        noise=noise,
        latest=state.bin,
        dispersion=_dispersion(state, count) if bins == 1 else state.dispersion,
        count=count,
    )


def _dispersion(state: ForecastState, count: float) -> float:
    """Variance over mean of counts, from differences of neighbouring ones: 1 where arrivals are independent.

    A lasting change of the rate is no scatter, so a single bin counts for little.
    """
    if state.count is None or state.count + count <= 0:
        return state.dispersion
    told = min((count - state.count) ** 2 / (state.count + count), _SURPRISE * state.dispersion)
    return min(_MOST_DISPERSION, max(1.0, state.dispersion + _DISPERSION_GAIN * (told - state.dispersion)))


def _foretold(state: ForecastState, quarter: QuarterHour, days: Days) -> ForecastState:
    """The state with a forecast made from this bin, to be judged when its time has come."""
    ahead = _ahead(horizon_of(state))
    if state.bin % _spacing(ahead):
        return changed(state, quarter=quarter, days=days)
    rate = state.level + state.trend * _damped(ahead)
    season = change(days, (state.bin + 0.5) * BIN_SECONDS, ahead * BIN_SECONDS)
    lead = state.recent - state.level
    scale = width(state, rate + _added(state, season, lead))
    pending = (*state.pending, Pending(state.bin + ahead, rate, scale, season, lead))
    return changed(state, quarter=quarter, days=days, pending=pending)


def _spacing(ahead: int) -> int:
    """Bins from one recorded forecast to the next, so that few are pending at once."""
    return math.ceil(ahead / _MOST_PENDING)
