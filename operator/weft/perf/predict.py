"""What one replica of a shape does under a workload, and how many requests a second it can take within an SLO.

Decode: by Little's law a batch of B sequences means B / (OSL x TPOT) requests a second. In an aggregated replica
prefill takes its part of every second first: TPOT = t_decode / (1 - rate x t_prefill), hence
rate = B / (OSL x t_decode + B x t_prefill).

Capacity is the highest rate at which every percentile target holds. The batch never takes more than four fifths of the
KV memory (or of the sequences that the engine admits): the rest is for the swings of random arrivals. Prompts fill at
most 95 % of the time under a TTFT target, and 80 % without one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.shape import Limit, Prediction
from weft.domain.workload import Role
from weft.perf.memory import footprint, kv_tokens, sequences_that_fit
from weft.perf.queueing import batch_at, length_at, mean_wait_seconds, squared_variation, wait_at
from weft.perf.steps import stepper

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.workload import Slo, Workload
    from weft.perf.replica import ReplicaModel
    from weft.perf.steps import Stepper, StepTime

_USED_OF_KV = 0.8
_USED_WITHOUT_TARGET = 0.8
_USED_AT_MOST = 0.95
_IDLE = 1e-4  # of the largest load: nobody waits for anybody
_ROUNDING = 1.0 + 1e-9
_HALVINGS = 12  # in the logarithm of the load: finds it to 0.2 %


@dataclass(frozen=True, slots=True)
class Miss:
    """A target that cannot be met at any rate: `predicted_seconds` is what an idle replica would reach."""

    metric: str
    percentile: int
    target_seconds: float
    predicted_seconds: float

    @property
    def overshoot(self) -> float:
        """Predicted over target, above 1."""
        return self.predicted_seconds / self.target_seconds

    def __str__(self) -> str:
        """`TTFT p95 1200 ms of 500 ms`."""
        return f"{self.metric} p{self.percentile} {_shown(self.predicted_seconds)} of {_shown(self.target_seconds)}"


@dataclass(frozen=True, slots=True)
class Assessment:
    """A prediction, and the targets that stand in the way when its capacity is 0."""

    prediction: Prediction
    misses: tuple[Miss, ...] = ()


def predict(replica: ReplicaModel, workload: Workload, slo: Slo, role: Role) -> Prediction:
    """What one replica does at the highest rate within the SLO; `capacity` is 0 if even idle it misses a target."""
    return assess(replica, workload, slo, role).prediction


def assess(replica: ReplicaModel, workload: Workload, slo: Slo, role: Role) -> Assessment:
    """The prediction with the targets that are missed even when the replica is idle.

    Targets count where the role works: TTFT in Aggregated and Prefill, TPOT in Aggregated and Decode.
    """
    service = _service(replica, workload, slo, role)
    idle = service.at(_IDLE)
    if service.max_batch == 0:
        return Assessment(_prediction(service, idle, 0.0, Limit.KVMemory))
    misses = tuple(service.misses(idle))
    if misses:
        return Assessment(_prediction(service, idle, 0.0, idle.limit_of(misses[0].metric)), misses)
    point, limit = _busiest(service, idle)
    return Assessment(_prediction(service, point, point.rate, limit))


def _busiest(service: _Service, idle: _Point) -> tuple[_Point, Limit]:
    """The highest load that holds and what forbids more. Latencies grow with load, so halving finds it."""
    full = service.at(1.0)
    obstacle = service.obstacle(full)
    if obstacle is None:
        return full, service.limit_when_full(full)
    low, high, best = math.log(_IDLE), 0.0, idle
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        point = service.at(math.exp(middle))
        found = service.obstacle(point)
        if found is None:
            low, best = middle, point
        else:
            high, obstacle = middle, found
    return best, best.limit_of(obstacle)


def _prediction(service: _Service, point: _Point, capacity: float, limit: Limit) -> Prediction:
    replica = service.stepper.replica
    return Prediction(
        capacity=capacity,
        ttft_seconds=service.mean_ttft_seconds(point),
        tpot_seconds=point.tpot_seconds,
        max_batch=service.max_batch,
        kv_tokens=kv_tokens(replica, service.tokens_per_sequence),
        weight_bytes_per_gpu=footprint(replica).weight_bytes,
        limit=limit,
    )


@dataclass(frozen=True, slots=True)
class _Point:
    """A replica at one load: requests a second, mean batch, and the two kinds of step.

    `utilisation` is that of a rank by prompts, each of which takes `server_seconds` of it; `stolen` is the fraction of
    time that decode does without because of prefill.
    """

    rate: float
    batch: float
    decode: StepTime | None
    prefill: StepTime
    utilisation: float
    server_seconds: float
    stolen: float

    @property
    def tpot_seconds(self) -> float:
        """Mean time per output token."""
        return self.decode_seconds / (1.0 - self.stolen)

    @property
    def decode_seconds(self) -> float:
        """A decode step; 0 where none is made."""
        return self.decode.seconds if self.decode else 0.0

    def limit_of(self, metric: str) -> Limit:
        """What most of the time goes into that a latency is made of."""
        return self.prefill.limit if metric == "TTFT" or self.decode is None else self.decode.limit


@dataclass(frozen=True, slots=True)
class _Service:
    """One replica as a server of one workload. Prompts wait per data-parallel rank, stages overlap between prompts."""

    stepper: Stepper
    workload: Workload
    slo: Slo
    role: Role
    max_batch: int
    tokens_per_sequence: float
    prompt: StepTime  # what a mean prompt costs when prompts share steps
    alone: tuple[tuple[int, float], ...]  # (percentile, seconds) of a prompt of that length in steps of its own
    mean_alone: float

    @property
    def decodes(self) -> bool:
        return self.role is not Role.Prefill

    @property
    def prefills(self) -> bool:
        return self.role is not Role.Decode

    def at(self, load: float) -> _Point:
        """The replica at a fraction of the largest load that it is ever given."""
        shape = self.stepper.replica.shape
        parallel = shape.data_parallel * shape.pipeline_parallel
        prefill_seconds = self.prompt.seconds / parallel if self.prefills else 0.0
        if not self.decodes:
            rate = load * self._most_utilised() / prefill_seconds
            utilisation = rate * prefill_seconds
            return _Point(rate, 0.0, None, self.prompt, utilisation, prefill_seconds * shape.data_parallel, 0.0)
        batch = load * max(1.0, self.max_batch * _USED_OF_KV)
        step = self._decode(batch)
        rate = batch / (max(1.0, self.workload.output_tokens) * step.seconds + batch * prefill_seconds)
        # A step that prefills decodes as well, so prompts also pay for the decode part of the steps they are in.
        server = prefill_seconds + self._steps(self._new_tokens(), whole=False) * step.seconds / parallel
        server = server if self.prefills else 0.0
        stolen = rate * prefill_seconds
        return _Point(rate, batch, step, self.prompt, rate * server, server * shape.data_parallel, stolen)

    def misses(self, point: _Point) -> Iterator[Miss]:
        """Targets that do not hold at a point."""
        for percentile, target in self.slo.ttft if self.prefills else ():
            if (seconds := self._ttft(percentile, point)) > target:
                yield Miss("TTFT", percentile, target, seconds)
        for percentile, target in self.slo.tpot if self.decodes else ():
            if (seconds := self._tpot(percentile, point)) > target:
                yield Miss("TPOT", percentile, target, seconds)

    def obstacle(self, point: _Point) -> str | None:
        """The latency that forbids a load: of a missed target, or of prompts that fill too much of the time."""
        if point.utilisation > self._most_utilised() * _ROUNDING:
            return "TTFT"
        miss = next(self.misses(point), None)
        return miss.metric if miss else None

    def limit_when_full(self, point: _Point) -> Limit:
        """What binds a replica that runs at its largest load within all targets."""
        if not self.decodes:
            return point.prefill.limit
        at_engine_limit = self.max_batch >= self._sequence_limit()
        return point.limit_of("TPOT") if at_engine_limit else Limit.KVMemory

    def mean_ttft_seconds(self, point: _Point) -> float:
        """Mean time to first token: API, wait, the prompt and decode in the same steps. Decode role: one step."""
        if not self.prefills:
            return self.stepper.replica.efficiency.request_seconds + point.decode_seconds
        wait = self._mean_wait(point)
        return self._served(self._new_tokens(), self.mean_alone, point) + wait

    def _ttft(self, percentile: int, point: _Point) -> float:
        wait = wait_at(percentile, point.utilisation, self._mean_wait(point))
        new = self._new_tokens(percentile)
        return self._served(new, dict(self.alone)[percentile], point) + wait

    def _tpot(self, percentile: int, point: _Point) -> float:
        batch = min(batch_at(percentile, point.batch), max(1.0, float(self.max_batch)))
        return self._decode(batch).seconds / (1.0 - point.stolen)

    def _served(self, new_tokens: float, alone_seconds: float, point: _Point) -> float:
        """A request's own part: API, half a step until it joins, its prefill, and the decode part of those steps."""
        shared = self._steps(new_tokens, whole=True) + 0.5
        return self.stepper.replica.efficiency.request_seconds + alone_seconds + shared * point.decode_seconds

    def _mean_wait(self, point: _Point) -> float:
        variation = squared_variation(self.workload.input_tokens, self.workload.input_tokens_p95)
        return mean_wait_seconds(point.utilisation, point.server_seconds, variation)

    def _decode(self, batch: float) -> StepTime:
        return self.stepper.decode(batch, self.workload.input_tokens + self.workload.output_tokens / 2)

    def _new_tokens(self, percentile: int | None = None) -> float:
        return _new_tokens(self.workload, percentile)

    def _steps(self, new_tokens: float, *, whole: bool) -> float:
        steps = new_tokens / self.stepper.replica.efficiency.batched_tokens
        return math.ceil(steps) if whole else steps

    def _most_utilised(self) -> float:
        return _USED_AT_MOST if self.slo.ttft else _USED_WITHOUT_TARGET

    def _sequence_limit(self) -> int:
        return _sequence_limit(self.stepper.replica)


def _sequence_limit(replica: ReplicaModel) -> int:
    return int(replica.efficiency.sequences) * replica.shape.data_parallel


def _new_tokens(workload: Workload, percentile: int | None) -> float:
    """Prompt tokens to compute: those that no prefix cache has, at least one."""
    tokens = workload.input_tokens
    if percentile is not None:
        tokens = length_at(percentile, workload.input_tokens, workload.input_tokens_p95)
    return max(1.0, tokens * (1.0 - workload.prefix_hit))


def _service(replica: ReplicaModel, workload: Workload, slo: Slo, role: Role) -> _Service:
    steps = stepper(replica)
    tokens = workload.input_tokens + (0.0 if role is Role.Prefill else workload.output_tokens)
    batched = replica.efficiency.batched_tokens

    def alone(percentile: int | None) -> float:
        new = _new_tokens(workload, percentile)
        return steps.prefill(new, _cached(new, workload), math.ceil(new / batched)).seconds

    mean = _new_tokens(workload, None)
    return _Service(
        stepper=steps,
        workload=workload,
        slo=slo,
        role=role,
        max_batch=min(sequences_that_fit(replica, tokens), _sequence_limit(replica)),
        tokens_per_sequence=tokens,
        prompt=steps.prefill(mean, _cached(mean, workload), mean / batched),
        alone=tuple((percentile, alone(percentile)) for percentile, _ in slo.ttft),
        mean_alone=alone(None),
    )


def _cached(new_tokens: float, workload: Workload) -> float:
    """Tokens that the prefix cache has beside so many new ones."""
    hit = min(workload.prefix_hit, 1.0 - 1e-6)
    return new_tokens * hit / (1.0 - hit)


def _shown(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1.0 else f"{seconds:.3g} s"
