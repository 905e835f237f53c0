"""Requests that come at random at a given rate: the batch in which they leave as fast as they come.

A rate above what the replica gives has no steady state: then what it does when full is told, and the wait of the first
minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.workload import Role, Workload
from weft.perf.closed_loop import Latencies
from weft.perf.service import service

if TYPE_CHECKING:
    from weft.perf.replica import ReplicaModel

_OBSERVED_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Served:
    """Mean latencies, and the requests that are answered in a second: those that come, or as many as can be."""

    latencies: Latencies
    requests_per_second: float


def open_loop(replica: ReplicaModel, rate: float, input_tokens: float, output_tokens: float) -> Served:
    """What one replica does of `rate` requests a second, all of which have these lengths."""
    workload = Workload(rate, input_tokens, output_tokens, input_tokens, output_tokens)
    serves = service(replica, workload, Role.Aggregated)
    found = serves.at_rate(rate)
    if found is not None:
        return Served(Latencies(found.ttft.mean, found.tpot.mean), rate)
    full = serves.at_batch(float(serves.seats))
    behind = (rate - full.rate) / rate * _OBSERVED_SECONDS / 2.0
    calm = serves.at_batch(serves.seats / 2.0)
    return Served(Latencies(calm.ttft.mean + behind, full.tpot.mean), full.rate)
