"""How many replicas the demand needs, before bounds and stabilisation.

Offered load is what is answered plus what piles up: a saturated engine answers no faster than it can, so the rate alone
would never ask for more. Needed replicas = offered x (1 + headroom) / capacity of one replica (design section 8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.domain.changed import changed
from weft.domain.figures import digits
from weft.domain.snapshot import LoadSample, ScaleMemory
from weft.scaling.reading import Reading, counted_at_front, front_tells, read
from weft.scaling.slowness import without_slow

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.domain.reasons import Explanation
    from weft.domain.snapshot import PoolObservation
    from weft.domain.spec import ScalingSpec
    from weft.domain.workload import Role
    from weft.scaling.bounds import Ceiling

# A backlog shall be worked off in this time, on top of serving what arrives. Shorter would buy replicas for the very
# requests that those already starting will serve.
CATCH_UP_SECONDS = 300.0
# Growth of the requests inside is measured over at most this, and over no less than the other: a scrape apart is noise.
LOAD_WINDOW_SECONDS = 60.0
SHORTEST_GROWTH_SECONDS = 15.0
# A pool that was saturated throughout this long shows its true capacity.
SATURATED_SECONDS = 45.0
# A measured capacity below this part of the predicted one is a fault of the measurement or of the engine, not demand.
LEAST_TRUE_CAPACITY = 0.25
# Metrics that were gone for longer than this were gone: the stabilisation window starts anew.
GAP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ScaleRequest:
    """What the count of one pool is decided from.

    `current` is the desired count so far, 0 before the first decision; `capacity` is requests per second that one
    replica serves at the SLO under the workload in force, `declared_rate` the rate the user expects; `gpus` and `pods`
    are of one replica; `previous` is the persisted explanation; `ceiling` is set by budgets that pools share.
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
    def backlogged(self) -> bool:
        """Whether more than one request per replica waits for capacity."""
        return self.reading is not None and self.reading.waiting > self.reading.answered


@dataclass(frozen=True, slots=True)
class Want:
    """Replicas that the demand needs, unbounded; None when nothing is known.

    `basis` says why, or is asked for the numbers once there is an event to tell them in.
    """

    replicas: int | None
    may_shrink: bool
    basis: str | Callable[[], str]

    @property
    def because(self) -> str:
        """The basis in words."""
        return self.basis() if callable(self.basis) else self.basis


def look(request: ScaleRequest) -> Sight:
    """Judge the observation and remember it. The same look twice at the same time is remembered once."""
    memory = request.memory or ScaleMemory(since=request.now)
    if memory.since > request.now:  # the clock was set back
        memory = replace(memory, since=request.now)
    found = read(request.observation, request.role)
    if isinstance(found, str):
        return _without_engines(request, found, memory)
    loads = _remembered(memory.loads, LoadSample(request.now, found.waiting, found.outstanding, found.answered))
    if not found.whole:
        return Sight(request, found, "", changed(memory, loads=loads))
    unbroken = memory.seen is None or request.now - memory.seen <= GAP_SECONDS
    memory = changed(memory, loads=loads, since=memory.since if unbroken else request.now, seen=request.now)
    return Sight(request, found, "", memory)


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
    return want_for(sight, offered(sight))


def want_for(sight: Sight, offered_per_second: float) -> Want:
    """Replicas of this pool for an offered rate; its own backlog keeps it from shrinking."""
    request, reading = sight.request, sight.reading
    capacity = _true_capacity(sight)
    if sight.blind or capacity <= 0:
        return Want(None, may_shrink=False, basis="the capacity of one replica is unknown")
    needed = request.spec.needed(offered_per_second, capacity)
    if sight.backlogged:
        needed = max(needed, request.current)

    def basis() -> str:
        told = sight.problem
        if reading is not None:
            told = f"{digits(reading.rate)} answered, {digits(reading.waiting)} waiting"
        return f"{digits(offered_per_second)} requests/s offered ({told}), one replica serves {digits(capacity)}"

    return Want(needed, may_shrink=reading is not None and reading.whole, basis=basis)


def declared_want(request: ScaleRequest) -> Want:
    """Replicas for the rate that the user expects, before anything was measured."""
    if request.capacity <= 0:
        return Want(request.spec.min_replicas, may_shrink=False, basis="the capacity of one replica is unknown")
    needed = request.spec.needed(request.declared_rate, request.capacity)
    basis = f"{digits(request.declared_rate)} requests/s declared, one replica serves {digits(request.capacity)}"
    return Want(needed, may_shrink=False, basis=basis)


def offered(sight: Sight) -> float:
    """Requests per second that arrive, plus the backlog over the catch-up time.

    What arrives is what was answered plus what piled up inside over the last minute, or the surer part of the last
    seconds' count where that is more: a ramp is followed within seconds.
    """
    if sight.reading is None:
        return sight.at_front
    oldest = sight.memory.loads[0]
    elapsed = sight.request.now - oldest.at
    growth = 0.0
    if elapsed >= SHORTEST_GROWTH_SECONDS:
        growth = max(0.0, sight.reading.outstanding - oldest.outstanding) / elapsed
    backlog = sight.reading.waiting if sight.backlogged else 0.0
    return max(sight.reading.rate + growth, sight.reading.surely_arriving) + backlog / CATCH_UP_SECONDS


def _true_capacity(sight: Sight) -> float:
    """Capacity of one replica: the prediction, or less where a pool saturated for a while answers less.

    The prediction is calibrated already (`scaling/calibration.py`), slowly and from quiet pools alone: a backlog stops
    all learning. What is left to correct here is what calibration cannot see, and at once: a pool that is worse than
    predicted by so much that it never got quiet, or got worse faster than factors follow. The two never meet: this
    lasts as long as the backlog, is not remembered, only ever lowers a capacity, and teaches calibration nothing.
    """
    request, reading = sight.request, sight.reading
    predicted = request.capacity if math.isfinite(request.capacity) else 0.0
    loads = sight.memory.loads
    saturated = (
        reading is not None
        and request.now - loads[0].at >= SATURATED_SECONDS
        and all(load.waiting > load.answered == reading.answered for load in loads)
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


def _remembered(loads: tuple[LoadSample, ...], latest: LoadSample) -> tuple[LoadSample, ...]:
    """The last minute of samples, at most one every five seconds, the newest always among them."""
    recent = [load for load in loads if 0 <= latest.at - load.at <= LOAD_WINDOW_SECONDS]
    if len(recent) > 1 and latest.at - recent[-2].at < LOAD_WINDOW_SECONDS / 12:
        recent.pop()
    if recent and recent[-1].at == latest.at:
        recent.pop()
    return (*recent, latest)
