"""What one pool sees in a pass, and what it remembers: whether metrics can be trusted, and how many requests arrive.

The arrival rate is what is answered plus what piles up: a saturated engine answers no faster than it can, so the
answered rate alone would never ask for more. A front through which all requests pass counts them better than engines
do, and engines count them better than any other front.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from weft.domain.pool_memory import LoadSample, ScaleMemory, WorkUnit
from weft.domain.values.changed import changed
from weft.domain.values.made_often import made_often
from weft.scaling.forecasting.keeping import restored
from weft.scaling.forecasting.learning import MOST_RATE, watched
from weft.scaling.forecasting.past import with_past
from weft.scaling.forecasting.risk import with_cost
from weft.scaling.forecasting.starts import with_starts
from weft.scaling.forecasting.units import in_units
from weft.scaling.looks import (
    LOAD_WINDOW_SECONDS,
    SHORTEST_GROWTH_SECONDS,
    SURELY,
    grown,
    is_whole_minute,
    loads_after,
    surely_came,
)
from weft.scaling.reading import LoadReading, counted_at_front, front_tells, is_backlog, read
from weft.scaling.staying import COUNTED_AGO_SECONDS, lasting, stay_seconds

if TYPE_CHECKING:
    from weft.domain.calibration import Calibrated, ProvenLoad
    from weft.domain.capacity import Capacity
    from weft.domain.forecast import KeptForecast, Past
    from weft.domain.reasons import Explanation
    from weft.domain.scaling_spec import ScalingSpec
    from weft.domain.snapshot import PoolObservation
    from weft.domain.start_up import MeasuredStart, StartUp
    from weft.domain.workload import Role

# After a gap in the metrics longer than this, the stabilisation window starts anew.
GAP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Ceiling:
    """How many replicas a budget shared with other pools leaves to a pool, and the reason."""

    replicas: int
    why: Explanation


@made_often
@dataclass(frozen=True, slots=True)
class ScaleRequest:
    """Input to the decision on one pool's replica count.

    `current` is the desired count so far, 0 before the first decision; `capacity` is what replicas serve at the SLO
    under the workload in force, and `declared_capacity` what one alone does with lengths as the user expects them
    (0: unknown); `declared_rate` is the rate that the user expects; `gpus` and `pods` are of one replica; `previous` is
    the persisted explanation, `kept` the persisted forecast, for when there is no memory, and `past` what is known of
    the time before; `ceiling` is set by budgets that pools share; `start_up` is what a start should take.
    `network_bound` says that requests of its split wait for KV transfers: such waiting is no reason for more GPUs.
    `calibration` is what capacities were calibrated with, and `proven` the load at which replicas met their targets,
    with requests of present lengths.
    """

    spec: ScalingSpec
    role: Role
    current: int
    capacity: Capacity
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
    start_up: StartUp | None = None
    network_bound: bool = False
    calibration: tuple[Calibrated, ...] = ()
    proven: ProvenLoad | None = None

    @property
    def work(self) -> float:
        """Work of a request of present lengths, in multiples of one of the declared lengths; 1 if unknown."""
        declared, alone = self.declared_capacity, self.capacity.alone
        if not (math.isfinite(declared) and math.isfinite(alone)):
            return 1.0
        return declared / alone if min(declared, alone) > 0 else 1.0


@made_often
@dataclass(frozen=True, slots=True)
class Sight:
    """One pool as seen in this pass: what may be believed (or what is missing), and the memory with this look added.

    `at_front` are requests per second that the front counts while no engine answers: a reason to grow, never to shrink.
    """

    request: ScaleRequest
    reading: LoadReading | None
    problem: str
    memory: ScaleMemory
    at_front: float = 0.0

    @property
    def blind(self) -> bool:
        """Whether neither engines nor the front report any demand."""
        return self.reading is None and self.at_front <= 0

    @property
    def untold(self) -> bool:
        """Whether no replica was ready so far, as far as is remembered: only the declared rate says what is needed."""
        seen, memory = self.request.observation, self.memory
        return (seen is None or seen.expected <= 0) and self.blind and not memory.loads and memory.forecast is None

    @property
    def same_replicas(self) -> bool:
        """Whether the replicas that answer have been the same for as long as rates are measured.

        Otherwise the counts lack what went to replicas that left, and what those answered.
        """
        exchanged = self.memory.exchanged
        return exchanged is None or not 0 <= self.request.now - exchanged < LOAD_WINDOW_SECONDS

    @property
    def lacks_some(self) -> bool:
        """Whether replicas that answered in the last minute are gone, and their requests missing from the rate."""
        parted = self.memory.parted
        return parted is not None and 0 <= self.request.now - parted < LOAD_WINDOW_SECONDS

    @property
    def tells_everything(self) -> bool:
        """Whether a low rate can be trusted: what draining replicas answer shows only in the count of a front."""
        return self.same_replicas or all(load.at_front is not None for load in self.memory.loads)

    @property
    def backlogged(self) -> bool:
        """Whether enough requests wait for capacity to be a backlog."""
        return self.reading is not None and is_backlog(self.reading.waiting, self.reading.answered)


def look(request: ScaleRequest) -> Sight:
    """Judge the observation and remember it. Repeating a look at the same time changes nothing."""
    memory = request.memory or _at_a_start(request)
    memory = _in_this_unit(memory, request)
    if memory.since > request.now:  # the clock was set back
        memory = replace(memory, since=request.now)
    found = read(request.observation, request.role)
    if isinstance(found, str):
        return _without_engines(request, found, memory)
    if request.network_bound:
        found = replace(found, waiting=0.0)
    memory = _with_replicas(memory, request, found)
    at_front = found.arrivals / found.arrival_seconds if found.at_front else None
    latest = LoadSample(request.now, found.waiting, found.outstanding, found.answered, at_front)
    loads = loads_after(memory.loads, latest)
    if found.whole:
        unbroken = memory.seen is not None and request.now - memory.seen <= GAP_SECONDS
        memory = changed(memory, loads=loads, since=memory.since if unbroken else request.now, seen=request.now)
    else:
        memory = changed(memory, loads=loads)
    sight = Sight(request, found, "", memory)
    return changed(sight, memory=_having_learnt(sight, found))


def _at_a_start(request: ScaleRequest) -> ScaleMemory:
    """The memory of a new pool, or of one whose count was just written before a restart, for all that is known."""
    stepped = request.now if request.current > 0 else None
    return ScaleMemory(since=request.now, stepped=stepped, forecast=restored(request.kept, request.now))


def _in_this_unit(memory: ScaleMemory, request: ScaleRequest) -> ScaleMemory:
    """The memory with its forecast in the unit in which this look counts work.

    Where only the work of a request is another, it is the lengths that changed: that is traffic, and to be learnt.
    """
    before, work = memory.unit, request.work
    if before is not None and (before.declared, before.calibration) == (request.declared_capacity, request.calibration):
        return memory if before.work == work else changed(memory, unit=changed(before, work=work))
    unit, state = WorkUnit(request.declared_capacity, request.calibration, work), memory.forecast
    if before is None or state is None or before.work == work:
        return changed(memory, unit=unit)
    return changed(memory, unit=unit, forecast=in_units(state, work / before.work))


def _lasting(sight: Sight, found: LoadReading, offered: float) -> float:
    """Requests per second, averaged over how long they stay, once a minute was seen; not while there is a backlog."""
    offered, before = min(MOST_RATE, offered), sight.request.memory
    if before is None or not before.loads or sight.backlogged:
        return offered
    first, last = before.loads[0].at, before.loads[-1].at
    if not is_whole_minute(last - first):
        return offered
    kept = lasting(before.lasting, sight.request.now - last, offered, found)
    return kept if found.at_front or not sight.lacks_some else max(before.lasting or 0.0, kept)


def _having_learnt(sight: Sight, found: LoadReading) -> ScaleMemory:
    """The memory with what this look teaches about traffic; a front's count is complete, whichever engines answer."""
    if not (found.whole or found.at_front):
        return changed(sight.memory, lasting=None)
    request, memory = sight.request, sight.memory
    startup, starts = _starts(request.observation)
    known, start_up = with_past(memory.forecast, request.past), request.start_up
    offered, work = offered_rate(sight, found), request.work
    kept = _lasting(sight, found, offered)
    rate = work * (found.arrivals / found.arrival_seconds if found.arrival_seconds > 0 else offered)  # just now
    inside = work * kept if stay_seconds(found, kept) > COUNTED_AGO_SECONDS else None
    state = with_cost(known, watched(known, request.now, rate, startup, inside), work)
    if starts and (known is None or known.latest != state.latest):  # once in a bin
        state = with_starts(state, starts)
    if start_up is not None and state.startup_seconds is None:
        estimated = start_up.image + start_up.weights + start_up.engine  # inlined, as every pass runs this
        if state.estimated_startup_seconds != estimated:
            state = changed(state, estimated_startup_seconds=float(estimated))
    return changed(memory, forecast=state, lasting=kept)


def _starts(seen: PoolObservation | None) -> tuple[float | None, tuple[MeasuredStart, ...]]:
    """Total duration of starts and their phases; the total is None where phases are known."""
    if seen is None:
        return None, ()
    return (None if seen.starts else seen.startup_seconds), seen.starts


def _with_replicas(memory: ScaleMemory, request: ScaleRequest, found: LoadReading) -> ScaleMemory:
    """The memory with the pods that answer now, and when they last changed; unknown at the first look."""
    pods = tuple(sorted([pod.pod for pod in request.observation.pods])) if request.observation is not None else ()
    if not memory.loads:
        return changed(memory, answering=pods)
    if memory.answering == pods and memory.loads[-1].answered == found.answered:
        return memory
    parted = memory.parted if set(memory.answering) <= set(pods) else request.now
    return changed(memory, answering=pods, exchanged=request.now, parted=parted)


def _without_engines(request: ScaleRequest, problem: str, memory: ScaleMemory) -> Sight:
    """A pool's sight without engine metrics; one that has no count yet starts as declared, whatever a front counts."""
    if not front_tells(request.observation) or request.current == 0:
        return Sight(request, None, problem, memory)
    told = f"{problem}; only the front counts what arrives"
    return Sight(request, None, told, memory, counted_at_front(request.observation))


def offered_rate(sight: Sight, reading: LoadReading) -> float:
    """Requests per second of the last minute: the front's count, or what engines answered and what piled up in them.

    The greater of both counts, as a front may see only part of the traffic. Neither load that moves between replicas
    nor a backlog that shrinks counts as arrivals.
    """
    loads = sight.memory.loads
    at_front = _at_front(reading, loads)
    if not sight.same_replicas:
        return reading.rate if at_front is None else at_front
    inside = max(0.0, reading.rate + grown(reading.rate, loads))
    return inside if at_front is None else max(at_front, inside)


def _at_front(reading: LoadReading, loads: tuple[LoadSample, ...]) -> float | None:
    """Requests per second that the front counted over the last minute; until a whole one was seen, a lower bound.

    Each count stands for the time since the look before. None where the front did not count all the time.
    """
    known = [load.at_front for load in loads if load.at_front is not None]
    if len(known) < len(loads):
        return None
    elapsed = loads[-1].at - loads[0].at
    if elapsed < SHORTEST_GROWTH_SECONDS:
        return counted_rate(reading, SURELY)
    spans = zip(pairwise(loads), known[1:], strict=True)
    rate = math.fsum((later.at - earlier.at) * rate for (earlier, later), rate in spans) / elapsed
    return rate if is_whole_minute(elapsed) else max(0.0, rate - SURELY * math.sqrt(rate / elapsed))


def counted_rate(reading: LoadReading, deviations: float) -> float:
    """A lower bound of the arrival rate in the last seconds; 0 where nothing counts arrivals."""
    return surely_came(reading.arrivals, reading.arrival_seconds, deviations)
