"""Requests that arrive at random at a given rate: the batch at which departures equal arrivals.

A rate above capacity has no steady state: then the latencies of a full replica are reported, plus the wait of the first
minute. A rate so little below capacity that a minute's requests may reach it by chance has a steady state that takes
hours to build up: it is reported as the highest rate that can be told from capacity within a minute.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.domain.workload import Role, Workload
from weft.perf.benchmarks.closed_loop import Latencies
from weft.perf.service import service

if TYPE_CHECKING:
    from weft.perf.replica import ReplicaModel
    from weft.perf.service import Point, Service

_OBSERVED_SECONDS = 60.0
_NEARLY_ALL = 0.99  # of the time: the most that prompts may fill
_HARDLY_ANY, _HALVINGS = 1e-6, 24  # smallest batch in sequences, and steps of a search in logarithms
_LEAST_TOLD = 0.5  # of the capacity: the lowest rate treated so, where hardly a request comes in that time
_CLOSE = 1e-9  # of the rate: near capacity a thousandth of it is a hundredth of TTFT, and more requests never wait less


@dataclass(frozen=True, slots=True)
class Served:
    """Mean latencies, and requests answered per second: those that arrive, or as many as the replica can serve."""

    latencies: Latencies
    requests_per_second: float


def open_loop(replica: ReplicaModel, rate: float, input_tokens: float, output_tokens: float) -> Served:
    """What one replica serves of `rate` requests a second, all of which have these lengths in tokens."""
    workload = Workload(rate, input_tokens, output_tokens, input_tokens, output_tokens)
    serves = _with_a_seat(service(replica, workload, Role.Aggregated))
    full = _fullest(serves)
    steady = min(rate, full.rate * _told_from_capacity(full.rate))
    calm = _at(serves, steady, full)
    if rate <= steady:
        return Served(Latencies(calm.ttft.mean, calm.tpot.mean), rate)
    behind = max(0.0, rate - full.rate) / rate * _OBSERVED_SECONDS / 2.0
    busy = _at(serves, rate, full)
    return Served(Latencies(calm.ttft.mean + behind, busy.tpot.mean), min(rate, full.rate))


def _with_a_seat(serves: Service) -> Service:
    """The service with at least one seat per rank, whatever the memory estimate says, as in a closed loop."""
    return replace(serves, seats=max(serves.seats, serves.steps.replica.shape.data_parallel))


def _fullest(serves: Service) -> Point:
    """The point with every seat taken, or as many as prompts leave time for: beyond, TTFT grows without bound."""
    full = serves.at_batch(float(serves.seats))
    if full.utilisation < _NEARLY_ALL:
        return full
    low, high = _HARDLY_ANY, float(serves.seats)
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if serves.at_batch(middle).utilisation < _NEARLY_ALL else (low, middle)
    return serves.at_batch(low)


def _at(serves: Service, rate: float, full: Point) -> Point:
    """The point at a rate, or the full one where the replica cannot keep up."""
    found = serves.at_rate(rate, _CLOSE) if rate < full.rate else None
    return full if found is None or found.utilisation >= 1.0 else found


def _told_from_capacity(capacity: float) -> float:
    """The fraction of capacity above which chance alone makes as many requests in a minute: n +- sqrt(n) arrive."""
    return max(_LEAST_TOLD, 1.0 - 1.0 / math.sqrt(capacity * _OBSERVED_SECONDS))
