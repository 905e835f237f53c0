"""How many replicas the demand needs, before bounds and stabilisation.

Demand is the greater of what is offered now and expected to persist, with the user's headroom, and of the forecast for
the time when a replica ordered now will be ready, with a margin for how far forecasts of this pool have been off.
Needed replicas = demand / capacity of one replica.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.texts.figures import digits, request_rate, seconds
from weft.domain.values.changed import changed
from weft.domain.values.made_often import made_often
from weft.scaling.forecasting.forecast import expected, forecast, is_old, persists
from weft.scaling.forecasting.returning import returning
from weft.scaling.forecasting.risk import margin_now
from weft.scaling.looks import LOAD_WINDOW_SECONDS, NEARLY_ALL, SURELY, with_chance
from weft.scaling.saturation import shown_ago, true_capacity, what_is_proven
from weft.scaling.sight import counted_rate, offered_rate
from weft.scaling.staying import over_the_stay

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.domain.capacity import Capacity
    from weft.domain.forecast import ForecastState
    from weft.domain.scaling_spec import ScalingSpec
    from weft.scaling.forecasting.forecast import Forecast
    from weft.scaling.forecasting.risk import Margin
    from weft.scaling.reading import LoadReading
    from weft.scaling.sight import ScaleRequest, Sight

# A backlog has to be worked off within this time, on top of serving new arrivals. Shorter would buy replicas for the
# very requests that those already starting will serve.
CATCH_UP_SECONDS = 300.0
# A count of the last seconds that exceeds the expected one by so many standard deviations is not chance.
NO_CHANCE = 4.0
# A risk that differs from the user's by less than this fraction of it is reported as the user's.
SAME_RISK = 0.2
# From this fraction of the offered rate on, messages treat it as all expected to persist.
ALL_OF_IT = 0.95


@made_often
@dataclass(frozen=True, slots=True)
class Want:
    """Replicas that the demand needs, before bounds; None when nothing is known.

    `basis` says why; a callable is only evaluated once there is an event to report. `with_chance` is the count if
    demand were as much higher as chance may hide, and `serving` the count that what is offered now, be it a burst, may
    need, or what a cycle brings back within two starts. `rises` says that the last seconds brought more than chance
    explains. `declared` is the count that the declared rate needs, for a pool that holds its first one because no
    replica of it was ever ready; else 0. `limited` says what keeps requests from coming, in a split the other half;
    empty where nothing does.
    """

    replicas: int | None
    may_shrink: bool
    basis: str | Callable[[], str]
    with_chance: int = 0
    serving: int = 0
    rises: bool = False
    declared: int = 0
    limited: str = ""

    @property
    def because(self) -> str:
        """The basis in words."""
        return self.basis() if callable(self.basis) else self.basis


@made_often
@dataclass(frozen=True, slots=True)
class Demand:
    """Requests per second: `offered` now, of which `persisting` are expected until a start is over.

    `lately` is a lower bound on the rate of the last seconds: a peak needs no headroom. `ahead` is the forecast, None
    where there is none, with the `margin` that is bought on it. `backlog` is added to `persisting` alone, as headroom
    and margin already serve a backlog. `at_front` says that requests are counted before any engine, and `rises` that
    the last seconds brought more than chance explains: how much comes is not known yet. `again` is the rate with its
    margin that a short cycle brings within two starts, and `returning` the one that is held for bursts which come back
    at no fixed distance; 0 where there are none.
    """

    offered: float
    persisting: float
    lately: float = 0.0
    ahead: Forecast | None = None
    margin: Margin | None = None
    backlog: float = 0.0
    at_front: bool = False
    rises: bool = False
    again: float = 0.0
    returning: float = 0.0

    @property
    def foreseen(self) -> float:
        """The forecast rate with its margin; 0 where there is no forecast."""
        return self.margin.on(self.ahead) if self.ahead is not None and self.margin is not None else 0.0

    def at_least(self, other: Demand) -> Demand:
        """The greater of two measurements of the same requests, with the forecast of this one where it has any.

        Where a front counts, both halves share that measurement, and each averages it over how long requests stay in
        it.
        """
        if self.at_front and other.at_front:
            return changed(self, backlog=max(self.backlog, other.backlog))
        own = self if self.ahead is not None else other
        offered, persisting = max(self.offered, other.offered), max(self.persisting, other.persisting)
        lately, backlog = max(self.lately, other.lately), max(self.backlog, other.backlog)
        rises, held = self.rises or other.rises, max(self.returning, other.returning)
        return Demand(
            offered, persisting, lately, own.ahead, own.margin, backlog, rises=rises, again=own.again, returning=held
        )


def want(sight: Sight) -> Want:
    """Replicas that one pool's own demand needs."""
    if sight.blind:
        return Want(None, may_shrink=False, basis=sight.problem)
    return want_for(sight, demand(sight))


def want_for(sight: Sight, wished: Demand) -> Want:
    """Replicas of this pool for a demand; its own backlog keeps it from shrinking."""
    request, reading = sight.request, sight.reading
    capacity = true_capacity(sight)
    if sight.blind or capacity.alone <= 0:
        return Want(None, may_shrink=False, basis="the capacity of one replica is unknown")
    worked_off = wished.persisting + wished.backlog
    lately = wished.lately
    if reading is not None and lately > wished.persisting:
        lately = over_the_stay(reading, lately, wished.persisting)
    if wished.returning:
        lately = min(lately, max(wished.persisting, wished.returning))
    now, again = max(request.spec.with_headroom(wished.persisting), lately, worked_off), wished.again
    rate = max(now, wished.foreseen, wished.returning)
    likely = max(with_chance(now), again) if again else with_chance(rate)  # a cycle's margin covers chance already
    needed, likely_needed = capacity.needed(rate), capacity.needed(likely)
    if sight.backlogged or not sight.tells_everything or request.network_bound:  # those that wait for KV count, too
        needed, likely_needed = max(needed, request.current), max(likely_needed, request.current)
    serving = max(needed, capacity.needed(max(wished.offered, again)))

    def basis() -> str:
        told = sight.problem
        if reading is not None:
            told = f"{digits(reading.rate)} answered, {digits(reading.waiting)} waiting{_to_work_off(wished)}"
        said = f"{request_rate(wished.offered)} offered ({told}){_persisting(wished)}{_spare(request.spec)}"
        return f"{said}{_foreseen(wished, now)}{_returning(wished, now)}; {_served(sight, capacity, needed)}"

    may_shrink = reading is not None and reading.whole
    return Want(needed, may_shrink, basis, with_chance=likely_needed, serving=serving, rises=wished.rises)


def _to_work_off(wished: Demand) -> str:
    """The time for a backlog, in words; empty where there is none."""
    return f", to be worked off within {seconds(CATCH_UP_SECONDS)}" if wished.backlog > 0 else ""


def _persisting(wished: Demand) -> str:
    """How much of the offered rate is expected to persist, in words; empty where that is all."""
    if wished.persisting > wished.offered * ALL_OF_IT:
        return ""
    return f", {digits(wished.persisting)} expected to last as long as a start takes, judging by earlier bursts"


def _spare(spec: ScalingSpec) -> str:
    """The headroom in words, as it may explain one replica more than the offered rate needs; empty if there is none."""
    return f", with {spec.headroom:.0%} headroom" if spec.headroom > 0.0 else ""


def _foreseen(wished: Demand, now: float) -> str:
    """The forecast in words, with how far ahead it looks and its margin; empty where there is none, or no news in it.

    That is where it asks for no more than what is needed `now`, at the risk that the user chose.
    """
    if wished.ahead is None or wished.margin is None:
        return ""
    likely, risk, users = wished.ahead.quantile(0.5), wished.margin.risk, wished.margin.users
    as_the_user_chose = abs(risk - users) <= users * SAME_RISK
    if wished.foreseen <= now and as_the_user_chose:
        return ""
    basis = "measured" if wished.ahead.is_measured else "estimated"
    ahead = f"for the {seconds(wished.ahead.horizon_seconds)} that a start takes ({basis})"
    if wished.ahead.cycle_seconds:
        ahead = f"{ahead}, as every {seconds(wished.ahead.cycle_seconds)} before"
    margin = f"{digits(_beyond(likely, wished.foreseen))} of it as a margin for forecast errors"
    told = f"; {digits(wished.foreseen)} forecast {ahead}, {margin}"
    if as_the_user_chose:
        return told
    cost = "more" if risk > users else "less"
    return f"{told} (at a risk of {digits(100.0 * risk)} %, as a margin costs {cost} than usual)"


def _returning(wished: Demand, now: float) -> str:
    """What is held for bursts in words; empty where that is no more than what is needed `now` or foreseen."""
    if wished.returning <= max(now, wished.foreseen):
        return ""
    return f"; {digits(wished.returning)} as bursts keep coming back faster than a start"


def _beyond(likely: float, foreseen: float) -> float:
    """The margin over the likely rate; 0 where the two differ by rounding alone."""
    return 0.0 if math.isclose(likely, foreseen) else foreseen - likely


def declared_want(request: ScaleRequest) -> Want:
    """Replicas for the rate that the user expects, before anything was measured."""
    needed = _declared(request)
    if request.capacity.alone <= 0:
        return Want(needed, may_shrink=False, basis="the capacity of one replica is unknown")
    said = f"{request_rate(request.declared_rate)} declared{_spare(request.spec)}"
    return Want(needed, may_shrink=False, basis=f"{said}, {_serves(request.capacity, needed)}")


def held_want(sight: Sight, problem: str) -> Want:
    """The want while nothing is measured; a pool that has no count yet starts as declared."""
    if sight.request.current == 0:
        return declared_want(sight.request)
    declared = _declared(sight.request) if sight.untold else 0
    return Want(None, may_shrink=False, basis=problem, declared=declared)


def _declared(request: ScaleRequest) -> int:
    """Replicas for the declared rate, the fewest allowed while it is unknown what one serves."""
    spec, capacity = request.spec, request.capacity
    return spec.needed(request.declared_rate, capacity) if capacity.alone > 0 else spec.min_replicas


def _served(sight: Sight, capacity: Capacity, replicas: int) -> str:
    """What one replica serves, and each of so many where that is more; with why, where that is not as predicted."""
    proven = what_is_proven(sight, capacity, replicas)
    if proven:
        return f"one replica serves {request_rate(sight.request.capacity.alone)} as predicted{proven}"
    return f"{_serves(capacity, replicas)}{shown_ago(sight)}"


def _serves(capacity: Capacity, replicas: int) -> str:
    """What one replica serves, and each of so many that share a queue."""
    alone = f"one replica serves {request_rate(capacity.alone)}"
    if capacity.gain(replicas) <= 1.0:
        return alone
    return f"{alone}, each of {replicas} behind their router {digits(capacity.each(replicas))}"


def demand(sight: Sight) -> Demand:
    """The rate that arrives now, the forecast, and the backlog spread over the catch-up time.

    The arrival rate is what was answered plus the growth of requests inside over the last minute, or for as long
    as requests stay, or the rate of the last seconds where that is higher beyond chance: a step is followed within
    seconds.
    """
    reading, state = sight.reading, sight.memory.forecast
    if reading is None:
        return Demand(sight.at_front, sight.at_front)
    backlog = (reading.waiting if sight.backlogged else 0.0) / CATCH_UP_SECONDS
    offered = sight.memory.lasting if sight.memory.lasting is not None else offered_rate(sight, reading)
    surprising, lately = _surprising(sight, reading), counted_rate(reading, SURELY)
    arriving, rises = max(offered, surprising), surprising > 0.0
    if state is None:
        return Demand(arriving, arriving, lately, backlog=backlog, at_front=reading.at_front, rises=rises)
    work, now = sight.request.work, sight.request.now
    persisting = arriving
    if not sight.backlogged:  # waiting requests need serving, whatever arrives later
        counted = ((offered, LOAD_WINDOW_SECONDS), (surprising, reading.arrival_seconds))
        persisting = max(persists(state, now, rate * work, over) for rate, over in counted) / work
    coming = Demand(arriving, persisting, lately, backlog=backlog, at_front=reading.at_front, rises=rises)
    # A gap in the metrics must not widen the margin: for some time the forecast of the last look holds.
    ahead = None if is_old(state, now) else forecast(state, state.seen)
    return coming if ahead is None else _foreseeing(coming, ahead, state, sight.request)


def _foreseeing(coming: Demand, ahead: Forecast, state: ForecastState, request: ScaleRequest) -> Demand:
    """The demand with what is foreseen: of the forecast and that of a short cycle the greater, with its margin.

    Where the cycle fell, the lesser counts. A cycle foretells its own bursts, so that none are held beside it.
    """
    risk, work = request.spec.risk, request.work
    known = [each for each in (ahead, ahead.cycle) if each is not None]
    bought = [(each.over(work), margin_now(risk, state, each, work)) for each in known]
    fell = ahead.cycle is not None and ahead.cycle.fell
    likely, margin = (min if fell else max)(bought, key=lambda each: each[1].on(each[0]))
    counts = [(likely, margin)] if fell else bought
    again = max(0.0 if each.again is None else margin.on(each.again) for each, margin in counts)
    is_in_cycle = len(known) > 1 or likely.cycle_seconds > 0.0
    held = 0.0 if is_in_cycle else returning(state, risk) / work
    return changed(coming, ahead=likely, margin=margin, again=again, returning=held)


def _surprising(sight: Sight, reading: LoadReading) -> float:
    """The rate of the last seconds where it exceeds the usual one beyond chance, else 0."""
    state = sight.memory.forecast
    likely = expected(state) / sight.request.work if state is not None else 0.0
    usual = max(reading.rate, likely) * reading.arrival_seconds
    dispersion = state.dispersion if state is not None else 1.0
    if reading.arrivals <= usual + NO_CHANCE * math.sqrt(dispersion * max(1.0, usual)):
        return 0.0
    return counted_rate(reading, NEARLY_ALL)
