"""How many replicas the demand needs, before bounds and stabilisation.

Offered load is what is answered plus what piles up: a saturated engine answers no faster than it can, so the rate alone
would never ask for more. Demand is the greater of what is offered now with the user's headroom, and of what is
forecast for the time when a replica that is ordered now is ready, with a margin for how far forecasts of this pool have
been off. Needed replicas = demand / capacity of one replica (design section 8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from weft.domain.changed import changed
from weft.domain.figures import digits, seconds
from weft.domain.snapshot import LoadSample, ScaleMemory
from weft.domain.spec import carrying
from weft.scaling.forecast import MOST_RATE, expected, forecast, is_old, watched
from weft.scaling.keeping import restored
from weft.scaling.looks import (
    LOAD_WINDOW_SECONDS,
    SHORTEST_GROWTH_SECONDS,
    SURELY,
    grown,
    is_whole_minute,
    remembered,
    with_chance,
)
from weft.scaling.past import with_past
from weft.scaling.reading import Reading, counted_at_front, front_tells, read
from weft.scaling.slowness import without_slow
from weft.scaling.staying import COUNTED_AGO_SECONDS, lasting, over_the_stay, stay_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.domain.forecast import KeptForecast, Past
    from weft.domain.reasons import Explanation
    from weft.domain.snapshot import PoolObservation
    from weft.domain.spec import ScalingSpec
    from weft.domain.workload import Role
    from weft.scaling.bounds import Ceiling
    from weft.scaling.forecast import Forecast

# A backlog shall be worked off in this time, on top of serving what arrives. Shorter would buy replicas for the very
# requests that those already starting will serve.
CATCH_UP_SECONDS = 300.0
# A measured capacity below this part of the predicted one is a fault of the measurement or of the engine, not demand.
LEAST_TRUE_CAPACITY = 0.25
# A count of the last seconds that is so many standard deviations above what was expected is no chance.
NO_CHANCE = 4.0
# Standard deviations that are left out of a short count that is no chance.
NEARLY_ALL = 0.5
# Metrics that were gone for longer than this were gone: the stabilisation window starts anew.
GAP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ScaleRequest:
    """What the count of one pool is decided from.

    `current` is the desired count so far, 0 before the first decision; `capacity` is requests per second that one
    replica serves at the SLO under the workload in force, and `declared_capacity` with lengths as the user expects them
    (0: unknown); `declared_rate` is the rate that the user expects; `gpus` and `pods` are of one replica; `previous` is
    the persisted explanation, `kept` the persisted forecast, for when there is no memory, and `past` what is known of
    the time before; `ceiling` is set by budgets that pools share.
    """

    spec: ScalingSpec
    role: Role
    current: int
    capacity: float
    declared_rate: float
    gpus: int
    pods: int
    now: float
    observation: PoolObservation | None = None
    memory: ScaleMemory | None = None
    previous: Explanation | None = None
    ceiling: Ceiling | None = None
    declared_capacity: float = 0.0
    kept: KeptForecast | None = None
    past: Past | None = None

    @property
    def work(self) -> float:
        """How much of the declared kind of requests one that comes now is: its lengths are others; 1 if unknown."""
        if not (math.isfinite(self.declared_capacity) and math.isfinite(self.capacity)):
            return 1.0
        return self.declared_capacity / self.capacity if min(self.declared_capacity, self.capacity) > 0 else 1.0


@dataclass(frozen=True, slots=True)
class Sight:
    """One pool as seen in this pass: what may be believed (or what is missing), and the memory with this look added.

    `at_front` are requests per second that the front counts while no engine answers: a reason to grow, never to shrink.
    """

    request: ScaleRequest
    reading: Reading | None
    problem: str
    memory: ScaleMemory
    at_front: float = 0.0

    @property
    def blind(self) -> bool:
        """Whether nobody tells anything of demand."""
        return self.reading is None and self.at_front <= 0

    @property
    def same_replicas(self) -> bool:
        """Whether those that answer have been the same for as long as rates are measured.

        Others count neither what went to the ones that left, nor what came from them.
        """
        exchanged = self.memory.exchanged
        return exchanged is None or not 0 <= self.request.now - exchanged < LOAD_WINDOW_SECONDS

    @property
    def tells_everything(self) -> bool:
        """Whether a low rate is one: what draining replicas answer shows in none but the count of a front."""
        return self.same_replicas or all(load.at_front is not None for load in self.memory.loads)

    @property
    def backlogged(self) -> bool:
        """Whether more than one request per replica waits for capacity."""
        return self.reading is not None and self.reading.waiting > self.reading.answered


@dataclass(frozen=True, slots=True)
class Want:
    """Replicas that the demand needs, unbounded; None when nothing is known.

    `basis` says why, or is asked for the numbers once there is an event to tell them in. `kept` is how many it would be
    if demand were as much more as chance may hide.
    """

    replicas: int | None
    may_shrink: bool
    basis: str | Callable[[], str]
    kept: int = 0

    @property
    def because(self) -> str:
        """The basis in words."""
        return self.basis() if callable(self.basis) else self.basis


@dataclass(frozen=True, slots=True)
class Demand:
    """Requests per second: `offered` now, and `lately` what surely came in the last seconds: a peak needs no headroom.

    `ahead` is the forecast, None where there is none, and `foreseen` what it allows for. `backlog` comes on top of what
    is offered, while what was bought against surprises serves it, too. `at_front`: counted before any engine.
    """

    offered: float
    lately: float = 0.0
    foreseen: float = 0.0
    ahead: Forecast | None = None
    backlog: float = 0.0
    at_front: bool = False

    def at_least(self, other: Demand) -> Demand:
        """The greater of two measurements of the same requests; what work they will be is this one's own to foresee.

        What a front counts is one measurement, which each half averages over the time that requests stay in it.
        """
        if self.at_front and other.at_front:
            return changed(self, backlog=max(self.backlog, other.backlog))
        own = self if self.ahead is not None else other
        offered, lately = max(self.offered, other.offered), max(self.lately, other.lately)
        return Demand(offered, lately, own.foreseen, own.ahead, max(self.backlog, other.backlog))


def look(request: ScaleRequest) -> Sight:
    """Judge the observation and remember it. The same look twice at the same time is remembered once."""
    memory = request.memory or ScaleMemory(since=request.now, forecast=restored(request.kept, request.now))
    if memory.since > request.now:  # the clock was set back
        memory = replace(memory, since=request.now)
    found = read(request.observation, request.role)
    if isinstance(found, str):
        return _without_engines(request, found, memory)
    memory = _with_replicas(memory, request, found)
    at_front = found.arrivals / found.arrival_seconds if found.at_front else None
    latest = LoadSample(request.now, found.waiting, found.outstanding, found.answered, at_front)
    loads = remembered(memory.loads, latest)
    sight = Sight(request, found, "", changed(memory, loads=loads))
    if found.whole:
        unbroken = memory.seen is not None and request.now - memory.seen <= GAP_SECONDS
        since = memory.since if unbroken else request.now
        sight = replace(sight, memory=changed(sight.memory, since=since, seen=request.now))
    return replace(sight, memory=_having_learnt(sight, found))


def _lasting(sight: Sight, found: Reading) -> float:
    """Requests per second, averaged over the time that they stay, once a minute was seen; a backlog is no long stay."""
    offered, before = min(MOST_RATE, _offered(sight, found)), sight.request.memory
    if before is None or not before.loads or sight.backlogged:
        return offered
    first, last = before.loads[0].at, before.loads[-1].at
    if not is_whole_minute(last - first):
        return offered
    if not (found.at_front or sight.same_replicas):  # what those that left had inside is missing
        return max(before.lasting or 0.0, offered)
    return lasting(before.lasting, sight.request.now - last, offered, found)


def _having_learnt(sight: Sight, found: Reading) -> ScaleMemory:
    """The memory with what this look teaches about the traffic: what a front counts is all of it, whoever answers."""
    if not (found.whole or found.at_front):
        return changed(sight.memory, lasting=None)
    request, memory = sight.request, sight.memory
    startup = request.observation.startup_seconds if request.observation is not None else None
    known = with_past(memory.forecast, request.past)
    kept, rate = _lasting(sight, found), request.work * _arriving(sight, found)
    inside = request.work * kept if stay_seconds(found, kept) > COUNTED_AGO_SECONDS else None
    return changed(memory, forecast=watched(known, request.now, rate, startup, inside), lasting=kept)


def _with_replicas(memory: ScaleMemory, request: ScaleRequest, found: Reading) -> ScaleMemory:
    """The memory with the pods that answer now, and when they last were others; at the first look nobody knows."""
    pods = tuple(sorted([pod.pod for pod in request.observation.pods])) if request.observation is not None else ()
    if not memory.loads:
        return changed(memory, answering=pods)
    if memory.answering == pods and memory.loads[-1].answered == found.answered:
        return memory
    return changed(memory, answering=pods, exchanged=request.now)


def _without_engines(request: ScaleRequest, problem: str, memory: ScaleMemory) -> Sight:
    """What is left of sight; a pool that has no count yet starts as declared, whatever a front counts."""
    if not front_tells(request.observation) or request.current == 0:
        return Sight(request, None, problem, memory)
    told = f"{problem}, and the front alone tells what arrives"
    return Sight(request, None, told, memory, counted_at_front(request.observation))


def want(sight: Sight) -> Want:
    """Replicas that one pool's own demand needs."""
    if sight.blind:
        return Want(None, may_shrink=False, basis=sight.problem)
    return want_for(sight, demand(sight))


def want_for(sight: Sight, wished: Demand) -> Want:
    """Replicas of this pool for a demand; its own backlog keeps it from shrinking."""
    request, reading = sight.request, sight.reading
    capacity = _true_capacity(sight)
    if sight.blind or capacity <= 0:
        return Want(None, may_shrink=False, basis="the capacity of one replica is unknown")
    worked_off = wished.offered + wished.backlog
    lately = wished.lately
    if reading is not None and lately > wished.offered:
        lately = over_the_stay(reading, lately, wished.offered)
    rate = max(request.spec.with_headroom(wished.offered), lately, wished.foreseen, worked_off)
    needed, kept = carrying(rate, capacity), carrying(with_chance(rate), capacity)
    if sight.backlogged or not sight.tells_everything:
        needed, kept = max(needed, request.current), max(kept, request.current)

    def basis() -> str:
        told = sight.problem
        if reading is not None:
            told = f"{digits(reading.rate)} answered, {digits(reading.waiting)} waiting"
        said = f"{digits(wished.offered)} requests/s offered ({told}){_foreseen(wished, request.spec.risk)}"
        return f"{said}; one replica serves {digits(capacity)}"

    return Want(needed, may_shrink=reading is not None and reading.whole, basis=basis, kept=kept)


def _foreseen(wished: Demand, risk: float) -> str:
    """The forecast in words, with how far ahead it looks and its margin; empty where there is none."""
    if wished.ahead is None:
        return ""
    likely, most = wished.ahead.quantile(0.5), wished.ahead.quantile(1.0 - risk)
    start = "a start takes" if wished.ahead.is_measured else "a start is taken to need"
    told = f"{digits(likely)} foretold for the {seconds(wished.ahead.horizon_seconds)} that {start}"
    return f"; {told}, {digits(most - likely)} more for how far forecasts were off"


def declared_want(request: ScaleRequest) -> Want:
    """Replicas for the rate that the user expects, before anything was measured."""
    if request.capacity <= 0:
        return Want(request.spec.min_replicas, may_shrink=False, basis="the capacity of one replica is unknown")
    needed = request.spec.needed(request.declared_rate, request.capacity)
    basis = f"{digits(request.declared_rate)} requests/s declared, one replica serves {digits(request.capacity)}"
    return Want(needed, may_shrink=False, basis=basis)


def demand(sight: Sight) -> Demand:
    """What arrives now and what will, and the backlog over the catch-up time.

    What arrives is what was answered plus what piled up inside over the last minute, or for as long as requests stay,
    or the count of the last seconds where that is so much more that it is no chance: a step is followed within seconds.
    """
    reading, state = sight.reading, sight.memory.forecast
    if reading is None:
        return Demand(sight.at_front)
    backlog = (reading.waiting if sight.backlogged else 0.0) / CATCH_UP_SECONDS
    offered = sight.memory.lasting if sight.memory.lasting is not None else _offered(sight, reading)
    arriving, lately = max(offered, _surprising(sight, reading)), _counted(reading, SURELY)
    if state is None:
        return Demand(arriving, lately, backlog=backlog, at_front=reading.at_front)
    # A gap widens a forecast, and buys nothing: for some time the last one holds.
    ahead = None if is_old(state, sight.request.now) else forecast(state, state.seen)
    ahead = ahead.over(sight.request.work) if ahead is not None else None
    foreseen = ahead.quantile(1.0 - sight.request.spec.risk) if ahead is not None else 0.0
    return Demand(arriving, lately, foreseen, ahead, backlog, reading.at_front)


def _offered(sight: Sight, reading: Reading) -> float:
    """Requests per second of the last minute: the front's count, or what engines answered and what piled up in them.

    Engines tell more than a front that is not the only way to them. Neither load that moves from one replica to another
    nor a backlog that is worked off is any arrival.
    """
    loads = sight.memory.loads
    at_front = _at_front(reading, loads)
    if not sight.same_replicas:
        return reading.rate if at_front is None else at_front
    inside = max(0.0, reading.rate + grown(reading.rate, loads))
    return inside if at_front is None else max(at_front, inside)


def _at_front(reading: Reading, loads: tuple[LoadSample, ...]) -> float | None:
    """Requests per second that the front counted over the last minute; before a whole one was seen, surely came.

    Each count stands for the time since the look before. None where the front did not tell all the time.
    """
    known = [load.at_front for load in loads if load.at_front is not None]
    if len(known) < len(loads):
        return None
    elapsed = loads[-1].at - loads[0].at
    if elapsed < SHORTEST_GROWTH_SECONDS:
        return _counted(reading, SURELY)
    spans = zip(pairwise(loads), known[1:], strict=True)
    rate = math.fsum((later.at - earlier.at) * rate for (earlier, later), rate in spans) / elapsed
    return rate if is_whole_minute(elapsed) else max(0.0, rate - SURELY * math.sqrt(rate / elapsed))


def _arriving(sight: Sight, reading: Reading) -> float:
    """Requests per second that came in just now, as well as it is known."""
    if reading.arrival_seconds > 0:
        return reading.arrivals / reading.arrival_seconds
    return _offered(sight, reading)


def _counted(reading: Reading, deviations: float) -> float:
    """(n - k sqrt(n)) / T: a short count follows a ramp at once, and its noise alone should buy nothing."""
    if reading.arrival_seconds <= 0:
        return 0.0
    return max(0.0, reading.arrivals - deviations * math.sqrt(reading.arrivals)) / reading.arrival_seconds


def _surprising(sight: Sight, reading: Reading) -> float:
    """The rate of the last seconds where it is so much more than was usual that it is no chance, else 0."""
    state = sight.memory.forecast
    likely = expected(state) / sight.request.work if state is not None else 0.0
    usual = max(reading.rate, likely) * reading.arrival_seconds
    dispersion = state.dispersion if state is not None else 1.0
    if reading.arrivals <= usual + NO_CHANCE * math.sqrt(dispersion * max(1.0, usual)):
        return 0.0
    return _counted(reading, NEARLY_ALL)


def _true_capacity(sight: Sight) -> float:
    """Capacity of one replica: the prediction, or less where the same ones, saturated for a whole minute, answer less.

    The prediction is calibrated already (`scaling/calibration.py`), slowly and from quiet pools alone: a backlog stops
    all learning. What is left to correct here is what calibration cannot see, and at once: a pool that is worse than
    predicted by so much that it never got quiet, or got worse faster than factors follow. The two never meet: this
    lasts as long as the backlog, is not remembered, only ever lowers a capacity, and teaches calibration nothing.
    While a backlog is worked off, some have nothing to wait for, and what all of them answer is no capacity.
    """
    request, reading = sight.request, sight.reading
    predicted = request.capacity if math.isfinite(request.capacity) else 0.0
    loads = sight.memory.loads
    saturated = (
        sight.same_replicas
        and len(loads) > 1
        and request.now - loads[0].at >= LOAD_WINDOW_SECONDS
        and all(load.waiting > load.answered for load in loads)
        and loads[-1].waiting >= loads[0].waiting
    )
    if reading is None or not saturated:
        return predicted
    measured = _rate_of_one(sight, reading)
    return min(predicted, max(measured, predicted * LEAST_TRUE_CAPACITY)) if predicted > 0 else measured


def _rate_of_one(sight: Sight, reading: Reading) -> float:
    """Requests per second of a replica that is as fast as most."""
    usual = without_slow(sight.request.observation, sight.memory.speed)
    if usual is None or usual.requests_per_second is None:
        return reading.rate / reading.answered
    return usual.requests_per_second / usual.answered
