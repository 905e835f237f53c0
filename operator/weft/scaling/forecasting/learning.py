"""What each bin of traffic teaches the forecast of a pool: its level and trend, and how far forecasts were off."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.domain.forecast import ForecastState, Pending
from weft.domain.values.changed import changed
from weft.scaling.forecasting.course import PERIODS_NEEDED, SHORTEST_BINS, highest_of, with_bin
from weft.scaling.forecasting.forecast import (
    BIN_SECONDS,
    CHANCE,
    DAMPING,
    LEAST_USUAL,
    LONGEST_APART_SECONDS,
    MOST_STARTUP_SECONDS,
    RIDGE_OF_LEADS,
    RIDGE_OF_SEASONS,
    WILDEST,
    added,
    ahead_of,
    by_chance,
    damped,
    horizon_of,
    in_cycle_of,
    part_of_steps,
    trust,
    usual_surprise,
    width,
)
from weft.scaling.forecasting.scatter import ASSUMED, faded, with_error
from weft.scaling.forecasting.seasons import change, counted
from weft.scaling.reading import is_sane

if TYPE_CHECKING:
    from weft.domain.forecast import QuarterHour
    from weft.scaling.forecasting.seasons import Days

# Replicas that a forecast asked for are kept for this long: the usual delay before a pool shrinks.
HELD_BINS = 10
# Decay per bin of the weight of daily patterns (half in three days), and of errors and of leads (half in half a day).
LEFT_OF_SEASONS, LEFT_OF_ERRORS = 0.5 ** (BIN_SECONDS / 259_200.0), 0.5 ** (BIN_SECONDS / 43_200.0)
MOST_RATE = 1e9  # requests/s: more is a broken metric

_LEVEL_GAIN, _RECENT_GAIN, _TREND_GAIN = 0.2, 0.8, 0.01
_NOISE_GAIN, _UPWARD_GAIN, _USUAL_GAIN, _STARTUP_GAIN, _DISPERSION_GAIN = 0.05, 0.1, 0.003, 0.1, 0.02
_NEARLY_ALL = 0.9  # fraction of a surprise twice as large as may be chance that is followed
_MOST_PENDING = 12
_PERIOD_BINS = 19  # from one search for a period to the next, on average; prime, so that no cycle avoids it
_PERIODS_MISSED = 2.0  # after which what came back is not waited for
_MOST_DISPERSION = 100.0
_MOST_GROWTH = 0.7  # logarithm: the largest surprise of a bin that counts towards a trend
_SURPRISE = 4.0  # times the usual: the most that one bin counts as when the dispersion is learnt


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


def _set_back(state: ForecastState, now: float) -> ForecastState:
    """The state after the clock was set back: what was learnt stays, what belongs to given times is dropped.

    A course tells how bins follow each other, and goes on where only the clocks of two machines differ.
    """
    current = int(now // BIN_SECONDS)
    latest = None if state.latest is None else current - 1
    if state.seen - now > LONGEST_APART_SECONDS:
        state = changed(state, course="", period=0.0)
    state = changed(state, pending=(), quarter=None, count=None)
    return changed(state, seen=now, bin=current, requests=0.0, seconds=0.0, latest=latest)


def _proved(
    before: tuple[float, float], left: float, weight: float, error: float, change: float
) -> tuple[float, float]:
    """The two sums of the regression in `trust`, faded, with one more forecast added."""
    return before[0] * left + weight * error * change, before[1] * left + weight * change * change


def _learnt(
    state: ForecastState, requests: float, seconds: float, startup: float | None, inside: float | None
) -> ForecastState:
    """The state after a bin that was seen well enough."""
    found = math.log(((requests if inside is None else inside * seconds) + 0.5) / seconds)
    quarter, days = counted(state, state.bin * BIN_SECONDS, requests, seconds)
    state = _continued(_judged(state, found), found, requests)
    state = _followed(state, found, requests * BIN_SECONDS / seconds)
    if is_sane(startup) and startup > 0:
        startup = min(startup, MOST_STARTUP_SECONDS)
        known = state.startup_seconds
        startup = startup if known is None else known + _STARTUP_GAIN * (startup - known)
        state = changed(state, startup_seconds=startup)
    return _foretold(_without_what_ended(state), quarter, days)


def _without_what_ended(state: ForecastState) -> ForecastState:
    """The state whose margins do not reach for pulses that stay away: none came in the last two of their periods.

    Bins that nobody saw are no part of these: what came in them is not known.
    """
    if not state.period or in_cycle_of(state, ahead_of(horizon_of(state))) is not None:
        return state
    lately = max(state.level, highest_of(state.course, round(_PERIODS_MISSED * state.period)))
    return changed(state, highest=min(state.highest, lately))


def _continued(state: ForecastState, found: float, requests: float) -> ForecastState:
    """The state with one more bin of its course, and now and then with the period of that.

    Counts differ from pool to pool, so that not all of them look for a period in the same pass.
    """
    unseen = 0 if state.latest is None else max(0, state.bin - state.latest - 1)
    course = with_bin(state.course, found, unseen)
    is_due = (state.bin + round(requests)) % _PERIOD_BINS == 0
    return changed(state, course=course, period=_period(course) if is_due else state.period)


def _period(course: str) -> float:
    """Bins from one cycle to the next; NumPy is loaded for a course that may hold enough of them alone."""
    if len(course) <= SHORTEST_BINS * PERIODS_NEEDED:
        return 0.0
    from weft.scaling.forecasting.cycles import period_of  # noqa: PLC0415 - see above

    return period_of(course)


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
    ahead = ahead_of(horizon_of(state))
    for each in due:
        error = found - each.rate
        weight = min(1.0, _spacing(ahead) / ahead)  # errors of overlapping forecasts are correlated
        by_days = trust(foretold, RIDGE_OF_SEASONS) * each.season
        rest = min(error, max(0.0, found - held)) - by_days - trust(led, RIDGE_OF_LEADS) * each.lead
        errors = with_error(errors, rest / each.scale, weight)
        short = min(max(0.0, rest / by_chance(state, each.rate)), WILDEST * max(LEAST_USUAL, usual) * 2)
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
    foretold = state.level + state.trend * damped(bins)
    surprise = found - foretold
    scatter = by_chance(state, max(foretold, found))
    usual = usual_surprise(state)
    beyond = part_of_steps(abs(surprise) / scatter / usual)
    steady = 1.0 - (1.0 - _LEVEL_GAIN) ** bins
    gain = steady + max(0.0, _NEARLY_ALL - steady) * beyond
    bounded = max(-CHANCE * usual, min(CHANCE * usual, surprise / scatter))
    noise = state.noise + _NOISE_GAIN * (abs(bounded) - state.noise)
    growth = _TREND_GAIN * (1.0 - beyond) * max(-_MOST_GROWTH, min(_MOST_GROWTH, surprise))  # a step is no trend
    level = foretold + gain * surprise
    return changed(
        state,
        level=level,
        highest=max(found, level + LEFT_OF_ERRORS**bins * (state.highest - level)),
        recent=state.recent + (1.0 - (1.0 - _RECENT_GAIN) ** bins) * (found - state.recent),
        trend=state.trend * DAMPING**bins + growth,
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
    ahead = ahead_of(horizon_of(state))
    if state.bin % _spacing(ahead):
        return changed(state, quarter=quarter, days=days)
    rate = state.level + state.trend * damped(ahead)
    season = change(days, (state.bin + 0.5) * BIN_SECONDS, ahead * BIN_SECONDS)
    lead = state.recent - state.level
    scale = width(state, rate + added(state, season, lead))
    pending = (*state.pending, Pending(state.bin + ahead, rate, scale, season, lead))
    return changed(state, quarter=quarter, days=days, pending=pending)


def _spacing(ahead: int) -> int:
    """Bins from one recorded forecast to the next, so that few are pending at once."""
    return math.ceil(ahead / _MOST_PENDING)
