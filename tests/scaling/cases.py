"""A pool that is scaled pass by pass, as the loop does it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from weft.domain.capacity import Capacity
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.snapshot import PoolObservation
from weft.domain.workload import Role
from weft.scaling import ScaleAnswer, ScaleRequest, scale_pool

if TYPE_CHECKING:
    from weft.domain.calibration import Calibrated, ProvenLoad
    from weft.domain.reasons import Reason

AUTO = ScalingSpec(max_replicas=10, scale_down_delay_seconds=300.0, headroom=0.1)


def seen(
    rate: float | None, pods: int, waiting: float | None = 0.0, running: float | None = 0.0, answered: int | None = None
) -> PoolObservation:
    """A fresh observation of `pods` ready replicas, all of which answered unless told otherwise."""
    answered = pods if answered is None else answered
    return PoolObservation(pods, answered, age_seconds=5.0, requests_per_second=rate, waiting=waiting, running=running)


@dataclass
class Pool:
    """Feeds every answer into the next request. One replica serves `capacity` requests per second."""

    spec: ScalingSpec = AUTO
    capacity: float = 2.0
    declared_rate: float = 1.0
    role: Role = Role.Aggregated
    gpus: int = 8
    now: float = 1_000_000.0
    current: int = 0
    declared_capacity: float = 0.0
    calibration: tuple[Calibrated, ...] = ()
    proven: ProvenLoad | None = None
    answer: ScaleAnswer | None = None
    history: list[int] = field(default_factory=list)

    def request(self, observation: PoolObservation | None) -> ScaleRequest:
        last = self.answer
        return ScaleRequest(
            self.spec,
            self.role,
            current=self.current,
            capacity=Capacity(self.capacity),
            declared_rate=self.declared_rate,
            gpus=self.gpus,
            pods=1,
            now=self.now,
            observation=observation,
            memory=last.memory if last else None,
            previous=last.explanation if last else None,
            declared_capacity=self.declared_capacity,
            calibration=self.calibration,
            proven=self.proven,
        )

    def step(self, observation: PoolObservation | None, seconds: float = 10.0) -> ScaleAnswer:
        """Let time pass, then decide."""
        self.now += seconds
        return self.accept(scale_pool(self.request(observation)))

    def accept(self, answer: ScaleAnswer) -> ScaleAnswer:
        self.answer, self.current = answer, answer.desired
        self.history.append(answer.desired)
        return answer

    def run(self, observation: PoolObservation | None, seconds: float, every: float = 10.0) -> ScaleAnswer:
        """The same observation again and again."""
        answer = self.step(observation, every)
        for _ in range(int(seconds / every) - 1):
            answer = self.step(observation, every)
        return answer

    def configured(self, **changes: object) -> Pool:
        self.spec = replace(self.spec, **changes)  # type: ignore[arg-type]
        return self


def reason(pool: Pool) -> Reason:
    """Of its last answer."""
    assert pool.answer is not None
    return pool.answer.explanation.reason
