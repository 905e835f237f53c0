"""`python -m bench.fronts_of_pools`: time per token of pools behind fronts, simulated and as predicted.

Engines of the twin, as fast as predicted, that compute prompts and make answers. Of each front the 95th percentile of
TPOT in milliseconds, beside what is predicted of a lone replica with a random share and of one of so many before which
a front goes by load (ADR 0118). A few minutes.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.calibration import through
from bench.fronts import FRONTS
from bench.machine import this_machine
from bench.percentiles import replica_of
from weft.domain.hardware import Precision
from weft.domain.workload import Role, Workload
from weft.perf import ASTRAY, dispersion
from weft.perf.lengths import lengths
from weft.perf.service import service
from weft.twin.engine.modelled import step_table
from weft.twin.engine.request import SimulatedRequest
from weft.twin.engine.speed import EngineSpeed
from weft.twin.serving.served import ServedEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from weft.perf.lengths import Lengths

    Vector = NDArray[np.float64]

REPLICAS = (1, 2, 4, 9, 25)
SHOWN = ("at random", "in turn", "least loaded", "two fronts", "three fronts", "30 % astray")
FEWEST, EACH = 4_000, 800  # requests of a run: of all, and of each replica
SEEDS = (0, 1)
_WARM_UP, _COOL_DOWN = 0.15, 0.05  # of the requests, which are left out
_KV_TOKENS = 10_000_000  # which is not in the way


class Served(NamedTuple):
    """A model on GPUs, as `replica_of` takes them."""

    model: str
    accelerator: str
    precision: Precision
    tensor: int


class Pool(NamedTuple):
    """What replicas serve, at so many requests a second of each."""

    served: Served
    lengths: tuple[int, int, int, int]  # prompts and answers, mean and 95th percentile
    rate: float

    @property
    def workload(self) -> Workload:
        """Of one replica."""
        inputs, long_inputs, outputs, long_outputs = self.lengths
        return Workload(self.rate, inputs, outputs, long_inputs, long_outputs)


_SMALL = Served("Llama-3.1-8B-Instruct", "L40S", Precision.BF16, 1)
_FAST = Served("Llama-3.1-8B-Instruct", "H100", Precision.BF16, 1)
_LARGE = Served("Llama-3.3-70B-Instruct", "H200", Precision.FP8, 2)
_EXPERTS = Served("gpt-oss-120b", "B200", Precision.MXFP4, 2)
POOLS = (
    Pool(_SMALL, (4579, 11371, 59, 160), 0.41),
    Pool(_SMALL, (4579, 11371, 59, 160), 0.82),
    Pool(_SMALL, (1000, 2700, 200, 540), 2.9),
    Pool(_SMALL, (1000, 2700, 200, 540), 3.5),
    Pool(_SMALL, (400, 1080, 690, 1860), 2.6),
    Pool(_FAST, (1000, 2000, 30, 60), 9.4),
    Pool(_FAST, (1000, 2000, 30, 60), 28.0),
    Pool(_LARGE, (12000, 20000, 600, 1200), 0.28),
    Pool(_LARGE, (12000, 20000, 600, 1200), 0.54),
    Pool(_EXPERTS, (4000, 8000, 150, 300), 13.4),
    Pool(_EXPERTS, (4000, 8000, 150, 300), 25.0),
)


@functools.cache
def _speed(served: Served, seats: int) -> EngineSpeed:
    replica = replica_of(*served)
    budget = int(replica.efficiency.batched_tokens)
    table = step_table(replica, seats, budget)
    return EngineSpeed(table, seats, _KV_TOKENS, budget, request_seconds=replica.efficiency.request_seconds)


def _drawn(of: Lengths, count: int, random: np.random.Generator) -> Vector:
    return np.minimum(of.longest, of.median * np.exp(of.deviation * random.standard_normal(count)))


def _requests(pool: Pool, replicas: int, seed: int) -> list[SimulatedRequest]:
    """Requests that come at random, for all replicas together."""
    workload, random, count = pool.workload, np.random.default_rng(seed), max(FEWEST, EACH * replicas)
    longest = float(replica_of(*pool.served).architecture.max_context_tokens)
    times = np.cumsum(random.exponential(1.0 / (pool.rate * replicas), count))
    prompts = _drawn(lengths(workload.input_tokens, workload.input_tokens_p95, longest), count, random)
    answers = _drawn(lengths(workload.output_tokens, workload.output_tokens_p95, longest), count, random)
    return [
        SimulatedRequest(now, max(1, round(prompt)), max(2, round(answer)))
        for now, prompt, answer in zip(times.tolist(), prompts.tolist(), answers.tolist(), strict=True)
    ]


def measured(pool: Pool, replicas: int, front: str) -> Vector:
    """TPOT in seconds of each request, of all seeds."""
    seats = service(replica_of(*pool.served), pool.workload, Role.Aggregated).seats
    found: list[float] = []
    for seed in SEEDS:
        requests = _requests(pool, replicas, seed)
        served = [ServedEngine("pool", _speed(pool.served, seats), 0.0, number) for number in range(replicas)]
        through(FRONTS[front](Random(seed)), served, requests)
        count = len(requests)
        found += [each.tpot for each in requests[int(_WARM_UP * count) : count - int(_COOL_DOWN * count)]]
    return np.array(found)


def predicted(pool: Pool, replicas: int, percentile: int) -> float:
    """The same by the model, of one of so many replicas."""
    server = service(replica_of(*pool.served), pool.workload, Role.Aggregated)
    point = replace(server, dispersion=dispersion(replicas, ASTRAY)).at_rate(pool.rate)
    if point is None:
        raise ValueError("too many requests")
    return point.tpot.at(percentile)


def rows(percentile: int = 95) -> Iterator[str]:
    """Lines of a Markdown table: one for each pool and count."""
    yield f"| pool | requests/s | replicas | counted on | {' | '.join(SHOWN)} |"
    yield "|" + "---|" * (4 + len(SHOWN))
    for pool in POOLS:
        inputs, _, outputs, _ = pool.lengths
        for replicas in REPLICAS:
            fronts = SHOWN if replicas > 1 else SHOWN[:1]
            found = [float(np.percentile(measured(pool, replicas, each), percentile)) for each in fronts]
            told = [f"{1e3 * each:.1f}" for each in (predicted(pool, replicas, percentile), *found)]
            told += ["-"] * (len(SHOWN) - len(fronts))
            name = f"{pool.served.model}, {pool.served.tensor} {pool.served.accelerator}, {inputs} in, {outputs} out"
            yield f"| {name} | {pool.rate:g} | {replicas} | {' | '.join(told)} |"


def main() -> int:
    """Print the table."""
    print(f"TPOT p95 in milliseconds ({this_machine()}):\n")
    for line in rows():
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
