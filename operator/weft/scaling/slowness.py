"""Replicas that are much slower than their siblings at no higher load: a GPU that is throttled, a NIC that lost a lane.

Compared are means over the same window, so that a load which all of them feel makes none of them stand out.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.reasons import Reason
from weft.domain.workload import Role
from weft.scaling.reading import is_sane, what_is_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from weft.domain.pool_memory import Outliers
    from weft.domain.snapshot import PodObservation, PoolObservation

    _Figure = Callable[[PodObservation], float | None]

# Latency over the median of the siblings. Prompts wait for each other, which makes more of a slow one.
SLOW_TPOT, SLOW_TTFT = 1.5, 2.0
# One that was named is slow no more below this; in between it stays named, or it would be named and cleared in turns.
RECOVERED = 1.2
LEAST_SIBLINGS = 3
ENOUGH_REQUESTS_PER_SECOND = 0.25  # 15 requests in a minute, the shorter window of both sources
MOST_LOAD = 1.1  # of rate and lengths, over the median of the siblings: beyond, the load may be why
MOST_SLOW = 0.25  # of the replicas: more than that have something else in common


def without_outliers(observation: PoolObservation | None, outliers: Outliers | None) -> PoolObservation | None:
    """What a pool does without the replicas that are named as worse: its rate, means and load, as far as pods tell.

    Those that fail to fetch KV as their siblings do stay: they may be nearly all of the pool.
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
    """What some pods do, of which there should be so many; histograms stay those of all."""
    return replace(
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
    """Whether every replica answered lately, with everything that it should tell."""
    fresh = observation is not None and what_is_missing(observation) is None
    return fresh and observation is not None and observation.complete and not observation.missing


def stands_out(pods: Sequence[PodObservation], role: Role) -> bool:
    """Whether even the slowest is worth a closer look: cheap, and False for nearly every pool."""
    busy = [pod for pod in pods if _is_busy(pod)] if len(pods) > LEAST_SIBLINGS else []
    return len(busy) > LEAST_SIBLINGS and any(
        len(known) > LEAST_SIBLINGS and known[-1] >= factor * _median_without(known, known[-1])
        for figure, factor in _latencies(role)
        for known in [_ordered(busy, figure)]
    )


def times_slower(pods: Mapping[int, PodObservation], role: Role) -> dict[int, float]:
    """Replicas that are slow at no higher load than their siblings: latency over the median of these.

    None where siblings or requests are too few, or where so many are slow that it is no fault of single replicas.
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
    """Replicas that are about as fast as their siblings in everything that was measured."""
    known = tuple(pods.values())
    figures = [(figure, _ordered(known, figure)) for figure, _ in _latencies(role)]
    return frozenset(replica for replica, pod in pods.items() if _is_as_fast(pod, figures))


def _latencies(role: Role) -> tuple[tuple[_Figure, float], ...]:
    """What a replica of this role does itself: a decode replica waits for the KV of others before its first token."""
    prompts: tuple[_Figure, float] = (lambda pod: pod.ttft_mean, SLOW_TTFT)
    tokens: tuple[_Figure, float] = (lambda pod: pod.tpot_mean, SLOW_TPOT)
    return {Role.Prefill: (prompts,), Role.Decode: (tokens,)}.get(role, (tokens, prompts))


def _is_busy(pod: PodObservation) -> bool:
    rate = pod.requests_per_second
    return rate is not None and ENOUGH_REQUESTS_PER_SECOND <= rate < math.inf


def _is_no_busier(pod: PodObservation, every: Sequence[PodObservation], role: Role) -> bool:
    """Whether it has no more requests and no longer ones than its siblings; False where nobody can tell."""
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
    return sorted([value for value in map(figure, pods) if is_sane(value)])


def _times(value: float, ordered: Sequence[float]) -> float:
    """One of the values over the median of the others; 0 where that is nothing."""
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
    """Weighted by requests; None where a pod that answered some does not tell."""
    busy = [(figure(pod), pod.requests_per_second) for pod in pods if pod.requests_per_second]
    known = [(value, rate) for value, rate in busy if value is not None and rate is not None]
    total = sum(rate for _, rate in known)
    return sum(value * rate for value, rate in known) / total if total > 0 and len(known) == len(busy) else None
