"""A pool that learns how far the model is off, window by window, and the looks at it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tests.shaping.cases import CATALOG, LLAMA_70B
from weft.domain.calibration import Calibrated, CalibrationSubject
from weft.domain.shape import Calibration, EngineName, EngineRelease, Shape
from weft.domain.snapshot import PodObservation, PoolObservation
from weft.domain.workload import Role, Workload
from weft.perf import ReplicaModel, at_rate
from weft.scaling.calibrating.calibration import CalibrationInput, Means, is_due, learnt, watched
from weft.scaling.calibrating.taking_over import in_force

if TYPE_CHECKING:
    from weft.domain.pool_memory import CalibrationMemory

WINDOW = 120.0
PODS = ("chat-0-0", "chat-1-0")
START = 1_000_000.0
RELEASE = EngineRelease(EngineName.VLLM, "0.33.0", "vllm/vllm-openai:v0.33.0")
DECLARED = Workload(1.0, 1000, 200, 2000, 400)


def shape_of(model: str, tensor: int) -> Shape:
    architecture = CATALOG.architecture(model)
    assert architecture is not None
    return Shape(EngineName.VLLM, "H200", architecture.checkpoint_precision, tensor, gpus_per_pod=tensor)


SHAPE = shape_of(LLAMA_70B, 4)
SUBJECT = CalibrationSubject.of(LLAMA_70B, RELEASE, SHAPE)


def replica(model: str = LLAMA_70B, tensor: int = 4) -> ReplicaModel:
    architecture, accelerator, shape = CATALOG.architecture(model), CATALOG.accelerator("H200"), shape_of(model, tensor)
    assert architecture is not None
    efficiency = CATALOG.efficiency(accelerator, shape.engine, shape.precision)
    return ReplicaModel(architecture, shape, accelerator, efficiency, accelerator.memory_bytes)


def quiet(ttft: float | None = 0.2, tpot: float | None = 0.02, rate: float = 4.0) -> PoolObservation:
    """Two replicas that answer, with nothing in the way of a measurement."""
    return PoolObservation(
        expected=2,
        answered=2,
        age_seconds=5.0,
        requests_per_second=rate,
        input_tokens=1000.0,
        output_tokens=200.0,
        prefix_hit=0.0,
        waiting=0.0,
        running=20.0,
        kv_usage=0.3,
        ttft_mean=ttft,
        tpot_mean=tpot,
        pods=tuple(reporting(pod, rate / 2, ttft, tpot) for pod in PODS),
    )


def reporting(pod: str, rate: float = 2.0, ttft: float | None = 0.2, tpot: float | None = 0.02) -> PodObservation:
    """One pod that does its part."""
    return PodObservation(
        pod,
        5.0,
        requests_per_second=rate,
        input_tokens=1000.0,
        output_tokens=200.0,
        waiting=0.0,
        running=10.0,
        kv_usage=0.3,
        ttft_mean=ttft,
        tpot_mean=tpot,
    )


def look(now: float = START, observation: PoolObservation | None = None, **changes: Any) -> CalibrationInput:  # noqa: ANN401 - any field
    return replace(CalibrationInput(SUBJECT, Role.Aggregated, now, PODS, observation or quiet()), **changes)


@dataclass
class Pool:
    """A pool whose true factors the model does not know; each step is one window of metrics."""

    truth: Calibration
    model: ReplicaModel = field(default_factory=replica)
    role: Role = Role.Aggregated
    rate: float = 2.0  # of one replica
    now: float = START
    memory: CalibrationMemory | None = None
    known: tuple[Calibrated, ...] = ()
    writes: int = 0

    def means(self, factors: Calibration) -> Means | None:
        load = replace(DECLARED, requests_per_second=self.rate)
        found = at_rate(replace(self.model, calibration=factors), load, self.role)
        return None if found is None else Means(found[0].mean, found[1].mean)

    @cached_property
    def true_means(self) -> Means:
        found = self.means(self.truth)
        assert found is not None
        return found

    def step(self, ttft: float = 1.0, tpot: float = 1.0) -> Calibration:
        """One more window, in which latencies were so many times what they are on average."""
        self.now += WINDOW
        seen = quiet(self.true_means.ttft * ttft, self.true_means.tpot * tpot, 2 * self.rate)
        this = look(self.now, seen, role=self.role)
        if self.memory is not None and is_due(self.memory, this):
            self.memory = learnt(self.memory, this, self.means)
        self.memory = watched(self.memory, this, self.known)
        before, self.known = self.known, in_force(self.known, self.memory, self.now, lambda _: 0.0)
        self.writes += self.known != before
        return self.memory.factors

    def run(self, steps: int) -> Calibration:
        """Windows without noise."""
        for _ in range(steps - 1):
            self.step()
        return self.step()


class FixedCosts(Pool):
    """Half of its TTFT is no work, and all is arithmetic: for histories of days."""

    def means(self, factors: Calibration) -> Means | None:
        return Means(
            0.1 + 0.1 * factors.prefill + 0.02 * factors.decode, 0.02 * factors.decode + 0.002 * factors.prefill
        )


def off(found: Calibration, truth: Calibration) -> tuple[float, float]:
    """How far both factors are off, at least 1."""
    pairs = ((found.prefill, truth.prefill), (found.decode, truth.decode))
    prefill, decode = (math.exp(abs(math.log(one / other))) for one, other in pairs)
    return prefill, decode
