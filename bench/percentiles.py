"""How far the closed forms for percentiles are from a simulation step by step, over models, lengths and loads."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.result import Result
from bench.stepwise import simulate
from weft.catalog import load
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, Shape
from weft.domain.workload import Role, Workload
from weft.perf import ReplicaModel
from weft.perf.service import service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.perf.service import Service

PERCENTILES = (50, 90, 95, 99)
LOADS = (0.1, 0.3, 0.5, 0.7)  # of what the replica answers at most
REPLICAS = (
    ("Llama-3.3-70B-Instruct", "H200", Precision.FP8, 2),
    ("Llama-3.1-8B-Instruct", "H100", Precision.BF16, 1),
    ("gpt-oss-120b", "B200", Precision.MXFP4, 2),
    ("DeepSeek-V3", "B200", Precision.FP8, 8),
)
# Mean and 95th percentile of prompts, and of answers.
LENGTHS = (
    (1000, 2000, 200, 400),
    (1000, 2000, 30, 60),
    (200, 300, 1000, 2500),
    (4000, 8000, 150, 300),
    (12000, 20000, 600, 1200),
)
SHORT = ((200, 400, 5, 10), (1000, 2000, 3, 6), (4000, 8000, 5, 10))  # answers of at most ten tokens
BUSY = (0.5, 0.7, 0.85, 0.95)  # of the time that prompts and their steps fill, as predicted
LIMITS = {("TTFT", 50): 10.0, ("TTFT", 95): 15.0, ("TPOT", 50): 5.0, ("TPOT", 95): 10.0}  # percent
SHORT_LIMITS = {("TPOT", 50): 25.0, ("TPOT", 95): 20.0}
_FEWEST, _MOST, _TIMES_SEATS = 1500, 5000, 5
_HALVINGS = 40


class Off(NamedTuple):
    """Predicted over simulated, by percentile, of one replica at one load."""

    ttft: tuple[float, ...]
    tpot: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A replica under a workload whose rate is a part of what it answers at most."""

    replica: ReplicaModel
    workload: Workload
    seats: int

    def off(self, seed: int = 1) -> Off:
        """Closed forms against one simulation."""
        found = service(self.replica, self.workload, Role.Aggregated).at_rate(self.workload.requests_per_second)
        if found is None:
            raise ValueError("no steady state at this rate")
        count = min(_MOST, max(_FEWEST, _TIMES_SEATS * self.seats))
        measured = simulate(self.replica, self.workload, self.seats, count, seed)
        return Off(
            tuple(found.ttft.at(each) / float(np.percentile(measured.ttft, each)) for each in PERCENTILES),
            tuple(found.tpot.at(each) / float(np.percentile(measured.tpot, each)) for each in PERCENTILES),
        )


def replica_of(model: str, accelerator: str, precision: Precision, tensor: int) -> ReplicaModel:
    """A replica of a catalog model on vLLM."""
    catalog = load()
    architecture, hardware = catalog.architecture(model), catalog.accelerator(accelerator)
    if architecture is None:
        raise ValueError(f"{model} is not in the catalog")
    shape = Shape(EngineName.VLLM, accelerator, precision, tensor_parallel=tensor, gpus_per_pod=tensor)
    usual = catalog.efficiency(hardware, EngineName.VLLM, precision)
    efficiency = catalog.efficiency_for(architecture, EngineName.VLLM, usual)
    return ReplicaModel(architecture, shape, hardware, efficiency, hardware.memory_bytes)


def case(replica: ReplicaModel, sizes: tuple[int, int, int, int], part: float, variation: float = 1.0) -> Case:
    """At a part of the highest rate."""
    inputs, long_inputs, outputs, long_outputs = sizes
    workload = Workload(1.0, inputs, outputs, long_inputs, long_outputs, 0.0, variation)
    server: Service = service(replica, workload, Role.Aggregated)
    rate = part * server.at_batch(float(server.seats)).rate
    return Case(replica, replace(workload, requests_per_second=rate), server.seats)


def cases() -> Iterator[Case]:
    """All of them, with arrivals at random."""
    for one in REPLICAS:
        model = replica_of(*one)
        for sizes in LENGTHS:
            for part in LOADS:
                yield case(model, sizes, part)


def busy_case(replica: ReplicaModel, sizes: tuple[int, int, int, int], busy: float) -> Case:
    """At the rate at which prompts, with the decode steps that they share, fill the fraction `busy` of the time."""
    inputs, long_inputs, outputs, long_outputs = sizes
    workload = Workload(1.0, inputs, outputs, long_inputs, long_outputs)
    server: Service = service(replica, workload, Role.Aggregated)
    low, high = 1e-6, float(server.seats)
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if server.at_batch(middle).utilisation < busy else (low, middle)
    return Case(replica, replace(workload, requests_per_second=server.at_batch(low).rate), server.seats)


def short_cases() -> Iterator[Case]:
    """Short answers, nearly up to the rate at which prompts queue without end."""
    for one in REPLICAS:
        model = replica_of(*one)
        for sizes in SHORT:
            for busy in BUSY:
                yield busy_case(model, sizes, busy)


def measure() -> tuple[Result, ...]:
    """Absolute relative errors over all cases, in percent: the median, and the 90th percentile as a detail."""
    found, short = [each.off() for each in cases()], [each.off() for each in short_cases()]
    return (
        *(_result(*place, limit, found) for place, limit in LIMITS.items()),
        *(_result(*place, limit, short, " of short answers") for place, limit in SHORT_LIMITS.items()),
    )


def _result(metric: str, percentile: int, limit: float, found: list[Off], of: str = "") -> Result:
    place = PERCENTILES.index(percentile)
    errors = [100.0 * abs((off.ttft if metric == "TTFT" else off.tpot)[place] - 1.0) for off in found]
    return Result(
        name=f"{metric} p{percentile}{of} against a simulation, median error",
        value=round(float(np.median(errors)), 2),
        unit="%",
        limit=limit,
        details={"cases": len(found), "p90_error_percent": round(float(np.quantile(errors, 0.9)), 2)},
    )
