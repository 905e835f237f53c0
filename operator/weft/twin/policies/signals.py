"""What rules read of each pod, by the names that their projects scrape; a pod without the series is left out.

`vllm:num_requests_waiting` counts every request that waits, for capacity or for its KV to arrive: rules of other
projects do not tell the two apart, so `waiting` here is both.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from weft.scaling import is_sane, read_percentile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.snapshot import PodObservation, PoolObservation
    from weft.twin.policies.policy import PoolView


class Signal(StrEnum):
    """A gauge of one pod: requests waiting, part of the KV cache in use (0 to 1), or requests in the batch."""

    Waiting = "waiting"
    KvUse = "kv use"
    Running = "running"

    def of(self, pod: PodObservation) -> float | None:
        """The pod's value."""
        match self:
            case Signal.Waiting:
                return waiting(pod)
            case Signal.KvUse:
                return pod.kv_usage
            case Signal.Running:
                return pod.running

    def seen(self, view: PoolView) -> tuple[float, ...]:
        """The values of all pods that tell."""
        return tuple(value for pod in pods(view) if is_sane(value := self.of(pod)))


def pods(view: PoolView) -> tuple[PodObservation, ...]:
    """The pods that answered."""
    return view.observation.pods if view.observation is not None else ()


def waiting(pod: PodObservation) -> float | None:
    """Requests that wait, for whatever reason."""
    return None if pod.waiting is None else pod.waiting + (pod.waiting_for_kv or 0.0)


def arrival_rate(observation: PoolObservation) -> float | None:
    """Requests per second that came in lately: as the front counts where it does, else as engines answered."""
    arrivals, seconds = observation.arrivals, observation.arrival_seconds
    if is_sane(arrivals) and is_sane(seconds) and seconds > 0:
        return arrivals / seconds
    rate = observation.requests_per_second
    return rate if is_sane(rate) else None


def first_known(*values: float | None) -> float:
    """The first value that is a number above zero, else 1: no request has less than a token."""
    return next((value for value in values if is_sane(value) and value > 0), 1.0)


def strictest(targets: tuple[tuple[int, float], ...]) -> float | None:
    """Seconds of the highest percentile of a target, which is what a rule that knows one number is given."""
    return targets[-1][1] if targets else None


def token_seconds(view: PoolView) -> float | None:
    """TPOT at the percentile of the SLO as measured, or the mean where it is not; None where nothing is."""
    observation = view.observation
    if observation is None:
        return None
    percentile = view.slo.tpot[-1][0] if view.slo.tpot else 95
    found = read_percentile(observation.tpot, percentile)
    return observation.tpot_mean if found is None else found


def busy(view: PoolView) -> Iterator[PodObservation]:
    """The pods that have requests in their batch."""
    return (pod for pod in pods(view) if is_sane(pod.running) and pod.running > 0)
