"""How far the closed forms for percentiles are from a simulation step by step, over models, lengths and loads."""

from __future__ import annotations

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
LIMITS = {("TTFT", 50): 10.0, ("TTFT", 95): 15.0, ("TPOT", 50): 5.0, ("TPOT", 95): 10.0}  # percent
_FEWEST, _MOST, _TIMES_SEATS = 1500, 5000, 5


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
    efficiency = catalog.efficiency(hardware, EngineName.VLLM, precision)
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


def measure() -> tuple[Result, ...]:
    """Absolute relative errors over all cases, in percent: the median, and the 90th percentile as a detail."""
    found = [each.off() for each in cases()]
    return tuple(_result(metric, percentile, limit, found) for (metric, percentile), limit in LIMITS.items())


def _result(metric: str, percentile: int, limit: float, found: list[Off]) -> Result:
    place = PERCENTILES.index(percentile)
    errors = [100.0 * abs((off.ttft if metric == "TTFT" else off.tpot)[place] - 1.0) for off in found]
    return Result(
        name=f"{metric} p{percentile} against a simulation, median error",
        value=round(float(np.median(errors)), 2),
        unit="%",
        limit=limit,
        details={"cases": len(found), "p90_error_percent": round(float(np.quantile(errors, 0.9)), 2)},
    )
