"""Replicas that are much slower than their siblings at no higher load, as with a throttled GPU or a degraded NIC.

Means over the same window are compared, so that a load which all of them feel makes none of them stand out.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING

from weft.domain.reasons import Reason
from weft.domain.values.changed import changed
from weft.domain.workload import Role
from weft.scaling.reading import is_sane, what_is_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from weft.domain.pool_memory import Outliers
    from weft.domain.snapshot import PodObservation, PoolObservation

    _Figure = Callable[[PodObservation], float | None]

# Latency over the median of the siblings. Queueing of prompts magnifies slowness in TTFT.
SLOW_TPOT, SLOW_TTFT = 1.5, 2.0
# Below this a named replica has recovered; in between it stays named, or it would be named and cleared in turns.
RECOVERED = 1.2
LEAST_SIBLINGS = 3
ENOUGH_REQUESTS_PER_SECOND = 0.25  # 15 requests in a minute, the shorter window of the two metrics sources
MOST_LOAD = 1.1  # of rate and lengths, over the median of the siblings: beyond this the load may be the cause
MOST_SLOW = 0.25  # of the replicas: if more are slow, they have a common cause


def without_outliers(observation: PoolObservation | None, outliers: Outliers | None) -> PoolObservation | None:
    """The observation without the replicas named as outliers: its rate, means and load, as far as pods report them.

    Replicas whose transfers fail as their siblings' do stay in: they may be nearly all of the pool.
    """
    worse = [each for each in outliers.named if each.why is not Reason.TransfersFail] if outliers is not None else []
    named = {each.pod for each in worse}
    if observation is None or named.isdisjoint(pod.pod for pod in observation.pods):
        return observation
    pods = tuple(pod for pod in observation.pods if pod.pod not in named)
    if not pods:
        return observation
    return of_pods(observation, pods, observation.expected - (len(observation.pods) - len(pods)))


def of_pods(observation: PoolObservation, pods: tuple[PodObservation, ...], expected: int) -> PoolObservation:
    """The observation restricted to some pods, `expected` of which should exist; histograms stay those of all."""
    return changed(
        observation,
        expected=expected,
        answered=len(pods),
        requests_per_second=_total(pod.requests_per_second for pod in pods),
        waiting=_total(pod.waiting for pod in pods),
        running=_total(pod.running for pod in pods),
        input_tokens=_mean(pods, lambda pod: pod.input_tokens),
        output_tokens=_mean(pods, lambda pod: pod.output_tokens),
        ttft_mean=_mean(pods, lambda pod: pod.ttft_mean),
        tpot_mean=_mean(pods, lambda pod: pod.tpot_mean),
        pods=pods,
    )


def is_whole(observation: PoolObservation | None) -> bool:
    """Whether every replica answered recently, with all expected series."""
    fresh = observation is not None and what_is_missing(observation) is None
    return fresh and observation is not None and observation.complete and not observation.missing


def stands_out(pods: Sequence[PodObservation], role: Role) -> bool:
    """Whether the slowest replica may be an outlier: a cheap test that is False for nearly every pool."""
    busy = [pod for pod in pods if _is_busy(pod)] if len(pods) > LEAST_SIBLINGS else []
    return len(busy) > LEAST_SIBLINGS and any(
        len(known) > LEAST_SIBLINGS and known[-1] >= factor * _median_without(known, known[-1])
        for figure, factor in _latencies(role)
        for known in [_ordered(busy, figure)]
    )


def times_slower(pods: Mapping[int, PodObservation], role: Role) -> dict[int, float]:
    """Replicas that are slow at no higher load than their siblings: latency over the median of these.

    Empty where siblings or requests are too few, or where too many are slow to blame single replicas.
    """
    busy = {replica: pod for replica, pod in pods.items() if _is_busy(pod)}
    known = tuple(busy.values())
    found: dict[int, float] = {}
    for figure, factor in _latencies(role):
        ordered = _ordered(known, figure)
        if len(ordered) <= LEAST_SIBLINGS:
            continue
        for replica, pod in busy.items():
            value = figure(pod)
            times = _times(value, ordered) if is_sane(value) else 0.0
            if times >= factor and _is_no_busier(pod, known, role):
                found[replica] = max(times, found.get(replica, 0.0))
    return found if len(found) <= MOST_SLOW * len(busy) else {}


def recovered(pods: Mapping[int, PodObservation], role: Role) -> frozenset[int]:
    """Replicas that are about as fast as their siblings in every latency measured."""
    known = tuple(pods.values())
    figures = [(figure, _ordered(known, figure)) for figure, _ in _latencies(role)]
    return frozenset(replica for replica, pod in pods.items() if _is_as_fast(pod, figures))


def _latencies(role: Role) -> tuple[tuple[_Figure, float], ...]:
    """The latencies that a role is compared by; TTFT of decode is none of them, as it waits for the KV of others."""
    return _COMPARED[role]


_PROMPTS: tuple[_Figure, float] = (attrgetter("ttft_mean"), SLOW_TTFT)
_TOKENS: tuple[_Figure, float] = (attrgetter("tpot_mean"), SLOW_TPOT)
_COMPARED = {Role.Prefill: (_PROMPTS,), Role.Decode: (_TOKENS,), Role.Aggregated: (_TOKENS, _PROMPTS)}


def _is_busy(pod: PodObservation) -> bool:
    rate = pod.requests_per_second
    return rate is not None and ENOUGH_REQUESTS_PER_SECOND <= rate < math.inf


def _is_no_busier(pod: PodObservation, every: Sequence[PodObservation], role: Role) -> bool:
    """Whether a replica has no more and no longer requests than its siblings; False where that is unknown."""
    loads: list[_Figure] = [lambda one: one.requests_per_second, _prompt]
    if role is not Role.Prefill:
        loads.append(lambda one: one.output_tokens)
    for load in loads:
        value, ordered = load(pod), _ordered(every, load)
        if not is_sane(value) or len(ordered) <= LEAST_SIBLINGS or _times(value, ordered) > MOST_LOAD:
            return False
    return True


def _prompt(pod: PodObservation) -> float | None:
    return pod.input_tokens if pod.computed_input_tokens is None else pod.computed_input_tokens


def _is_as_fast(pod: PodObservation, figures: Iterable[tuple[_Figure, Sequence[float]]]) -> bool:
    told = [(figure(pod), ordered) for figure, ordered in figures]
    known = [(value, ordered) for value, ordered in told if is_sane(value) and len(ordered) > 1]
    return bool(known) and all(_times(value, ordered) < RECOVERED for value, ordered in known)


def _ordered(pods: Iterable[PodObservation], figure: _Figure) -> list[float]:
    return sorted([value for value in map(figure, pods) if value is not None and 0 <= value < math.inf])


def _times(value: float, ordered: Sequence[float]) -> float:
    """One of the values over the median of the others; 0 where that median is 0."""
    usual = _median_without(ordered, value)
    return value / usual if usual > 0 else 0.0


def _median_without(ordered: Sequence[float], value: float) -> float:
    """The median of all but one of the values, of which there are at least two."""
    out, rest = bisect_left(ordered, value), len(ordered) - 1
    lower, upper = (rest - 1) // 2, rest // 2
    return (ordered[lower + (lower >= out)] + ordered[upper + (upper >= out)]) / 2


def _total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _mean(pods: Iterable[PodObservation], figure: _Figure) -> float | None:
    """Mean weighted by requests; None where a pod that answered requests does not report the figure."""
    busy = [(figure(pod), pod.requests_per_second) for pod in pods if pod.requests_per_second]
    known = [(value, rate) for value, rate in busy if value is not None and rate is not None]
    total = sum(rate for _, rate in known)
    return sum(value * rate for value, rate in known) / total if total > 0 and len(known) == len(busy) else None
