"""Replicas that are much slower than their siblings at no higher load: a GPU that is throttled, a NIC that lost a lane.

Compared are means over the same window, so that a load which all of them feel makes none of them stand out. What is
seen counts only in whole looks: a scrape that is missing starts the time anew.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.snapshot import SlowReplica, SpeedMemory
from weft.domain.workload import Role
from weft.scaling.reading import is_sane, what_is_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from weft.domain.snapshot import PodObservation, PoolObservation

    _Figure = Callable[[PodObservation], float | None]

# Latency over the median of the siblings. Prompts wait for each other, which makes more of a slow one.
SLOW_TPOT, SLOW_TTFT = 1.5, 2.0
# One that was named is slow no more below this; in between it stays named, or it would be named and cleared in turns.
RECOVERED = 1.2
SLOW_SECONDS = 180.0  # so long without a break before it is named
LONGEST_GAP_SECONDS = 60.0  # between two looks: nobody knows what was in a longer one
LEAST_SIBLINGS = 3
ENOUGH_REQUESTS_PER_SECOND = 0.25  # 15 requests in a minute, the shorter window of both sources
MOST_LOAD = 1.1  # of rate and lengths, over the median of the siblings: beyond, the load may be why
MOST_SLOW = 0.25  # of the replicas: more than that have something else in common
SHORTEST_APART_SECONDS = 3600.0  # between two that are replaced


def without_slow(observation: PoolObservation | None, speed: SpeedMemory | None) -> PoolObservation | None:
    """What a pool does without the replicas that are named as slow: its rate, means and load, as far as pods tell."""
    named = {each.pod for each in speed.slow if each.named is not None} if speed is not None else frozenset[str]()
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
    """By replica, latency over the median of its siblings: of those that are slow at no higher load.

    Nobody where siblings or requests are too few, or where so many are slow that it is no fault of single replicas.
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


def watched(
    memory: SpeedMemory | None,
    pods: Mapping[int, PodObservation] | None,
    present: Collection[int],
    role: Role,
    now: float,
) -> SpeedMemory | None:
    """The memory after one more look at the pods by replica, None where they are not all to be seen.

    `present` are the replicas that there are. Nothing is remembered where none is slow, or was replaced in the hour.
    """
    before = memory or SpeedMemory(now)
    begun = None if before.begun is None else min(before.begun, now)
    kept = tuple(each for each in before.slow if each.replica in present)
    replaced = before.replaced if before.replaced in present else None
    if pods is None:
        named = tuple(replace(each, since=None) for each in kept if each.named is not None)
        return _or_nothing(SpeedMemory(before.seen, named, replaced, begun), now)
    unbroken = 0 <= now - before.seen <= LONGEST_GAP_SECONDS
    known = {each.replica: each if unbroken else replace(each, since=None) for each in kept}
    slow, well = times_slower(pods, role), recovered(pods, role)
    found = [_seen(known.get(replica), replica, pods[replica].pod, times, now) for replica, times in slow.items()]
    stays = (each for replica, each in known.items() if replica not in slow and replica not in well)
    found += [replace(each, since=None) for each in stays if each.named is not None]
    ordered = tuple(sorted(found, key=lambda each: each.replica))
    return _or_nothing(SpeedMemory(now, ordered, replaced, begun), now)


def next_to_go(memory: SpeedMemory | None, now: float) -> SlowReplica | None:
    """The replica that has been slow for the longest time, up to this very look; None where it is not its time."""
    if memory is None or wait_seconds(memory, now) > 0 or memory.seen != now:
        return None
    due = [each for each in memory.slow if each.named is not None and lasting(each, now)]
    return min(due, key=lambda each: (each.since or now, each.replica), default=None)


def wait_seconds(memory: SpeedMemory, now: float) -> float:
    """Until another replica may be replaced."""
    return 0.0 if memory.begun is None else max(0.0, memory.begun + SHORTEST_APART_SECONDS - now)


def lasting(each: SlowReplica, now: float) -> bool:
    """Whether it was slow throughout the time that it takes to be named."""
    return each.since is not None and now - each.since >= SLOW_SECONDS


def wake_after_seconds(memory: SpeedMemory | None, now: float) -> float | None:
    """When time alone would name a replica, or let one go."""
    if memory is None or not memory.slow:
        return None
    waits = [each.since + SLOW_SECONDS - now for each in memory.slow if each.since is not None]
    waits.append(wait_seconds(memory, now))
    return min((wait for wait in waits if wait > 0), default=None)


def _seen(before: SlowReplica | None, replica: int, pod: str, times: float, now: float) -> SlowReplica:
    known = before or SlowReplica(replica, pod, None, times)
    found = replace(known, times=times, since=now if known.since is None else min(known.since, now))
    return replace(found, named=now) if found.named is None and lasting(found, now) else found


def _or_nothing(memory: SpeedMemory, now: float) -> SpeedMemory | None:
    return memory if memory.slow or memory.replaced is not None or wait_seconds(memory, now) > 0 else None


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
