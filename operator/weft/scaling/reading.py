"""What of an observation can be trusted: valid numbers, their age, and whether they are complete."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from weft.domain.values.made_often import made_often
from weft.domain.workload import Role
from weft.scaling.looks import NEARLY_ALL, surely_came

if TYPE_CHECKING:
    from weft.domain.snapshot import PodObservation, PoolObservation

# Four scrapes of our own, two of a usual Prometheus: older values say nothing about now.
FRESH_SECONDS = 60.0
# Requests that a front has to count before it alone is a reason to grow: the error is then a third at most.
ENOUGH_ARRIVALS = 10.0
# A decode engine whose KV cache has room queues requests for their KV to arrive, not for want of capacity.
KV_FULL = 0.7


@made_often
@dataclass(frozen=True, slots=True)
class LoadReading:
    """Trusted load of a pool: answered requests per second, requests waiting for capacity, requests inside in all.

    `arrivals` came in during the last `arrival_seconds`, which are few; both are 0 where unknown. `at_front` says that
    they were counted before any engine had to take them.
    `whole` is False when some pod or series is missing: the numbers are then a lower bound, good for growing only.
    """

    rate: float
    waiting: float
    outstanding: float
    answered: int
    whole: bool
    arrivals: float = 0.0
    arrival_seconds: float = 0.0
    at_front: bool = False


def read(observation: PoolObservation | None, role: Role) -> LoadReading | str:
    """The believable part of an observation, or a phrase that says what is missing."""
    missing = what_is_missing(observation)
    if missing is not None or observation is None or observation.requests_per_second is None:
        return missing or ""
    told = is_sane(observation.waiting) and is_sane(observation.running)
    arrivals, seconds = observation.arrivals, observation.arrival_seconds
    counted = is_sane(arrivals) and is_sane(seconds) and seconds > 0
    return LoadReading(
        observation.requests_per_second,
        backlog(observation, role),
        _or_zero(observation.waiting) + _or_zero(observation.running),
        observation.answered,
        whole=observation.complete and told and _all_tell_their_load(observation.pods),
        arrivals=_or_zero(arrivals) if counted else 0.0,
        arrival_seconds=_or_zero(seconds) if counted else 0.0,
        at_front=counted and observation.arrivals_at_front,
    )


def counted_at_front(observation: PoolObservation | None) -> float:
    """A lower bound of the arrival rate for when no engine reports; 0 where the front does not count, or counts few."""
    if observation is None or not front_tells(observation):
        return 0.0
    arrivals, seconds = observation.arrivals, observation.arrival_seconds
    if not is_sane(arrivals) or not is_sane(seconds) or arrivals < ENOUGH_ARRIVALS:
        return 0.0
    return surely_came(arrivals, seconds, NEARLY_ALL)


def front_tells(observation: PoolObservation | None) -> bool:
    """Whether arrivals are counted before any engine has to answer."""
    return observation is not None and observation.arrivals_at_front and _is_fresh(observation)


def what_is_missing(observation: PoolObservation | None) -> str | None:
    """Why a pool's rate cannot be believed, as a phrase; None where it can."""
    if observation is None or observation.expected <= 0:
        return "no replica reports metrics yet"
    if not _is_fresh(observation):
        return f"metrics are older than {FRESH_SECONDS:.0f} s"
    if observation.answered <= 0:
        lacks = f": metrics lack {', '.join(observation.missing)}" if observation.missing else ""
        return f"none of {observation.expected} ready replicas answered{lacks}"
    if not is_sane(observation.requests_per_second):
        return "the request rate is missing or not a number"
    return None


def _all_tell_their_load(pods: tuple[PodObservation, ...]) -> bool:
    """Whether every pod reports its load; one that does not would count as idle in the sums."""
    for pod in pods:
        waiting, running = pod.waiting, pod.running  # as `is_sane`, without two calls for every pod of a fleet
        if waiting is None or running is None or not (0 <= waiting < math.inf and 0 <= running < math.inf):
            return False
    return True


def _is_fresh(observation: PoolObservation) -> bool:
    return math.isfinite(observation.age_seconds) and observation.age_seconds <= FRESH_SECONDS


def is_sane(value: float | None) -> TypeGuard[float]:
    """Whether a measured value is a finite number of zero or more."""
    return value is not None and 0 <= value < math.inf


def read_percentile(values: tuple[tuple[int, float], ...], percentile: int) -> float | None:
    """A measured percentile in seconds, or None where it is missing or no number."""
    seconds = dict(values).get(percentile)
    return seconds if is_sane(seconds) else None


def kv_in_use(observation: PoolObservation) -> float:
    """Share of KV memory held by running requests; memory reserved for KV in transfer fills it without any work."""
    running, under_way = _or_zero(observation.running), _or_zero(observation.waiting_for_kv)
    return _or_zero(observation.kv_usage) * (running / (running + under_way) if under_way > 0 else 1.0)


def _or_zero(value: float | None) -> float:
    return value if is_sane(value) else 0.0


def is_backlog(waiting: float, answered: int) -> bool:
    """Whether more than one request for each replica that answered waits for capacity: fewer are soon taken up."""
    return waiting > answered


def backlog(observation: PoolObservation, role: Role) -> float:
    """Requests that wait for capacity; a request waiting for its KV transfer is no backlog of a decode pool."""
    if role is Role.Decode and kv_in_use(observation) < KV_FULL:
        return 0.0
    return _or_zero(observation.waiting)
