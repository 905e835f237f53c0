"""A pool as a fluid: requests are a rate, replicas a number, and a new one answers when its start is over.

The count is decided by the very function that the operator calls, on what metrics would show. It says what scaling
makes of a trace in seconds rather than minutes; the twin has the engines that this leaves out.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from weft.domain.capacity import Capacity
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.snapshot import PoolObservation
from weft.domain.workload import Role
from weft.scaling import ScaleAnswer, ScaleRequest, scale_pool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.pool_memory import ScaleMemory

STEP_SECONDS = 10.0
WINDOW_STEPS = 6  # the minute over which answered requests are counted
START = 1_800_000_000.0 - 1_800_000_000.0 % 86_400.0 + 4 * 86_400.0  # midnight before a workday
# Beyond its capacity within the SLO a replica answers faster yet, only too slowly for it.
SATURATION = 1.25
PATIENCE_SECONDS = 2.0
LONGEST_QUEUE_SECONDS = 60.0


@dataclass(slots=True)
class Fluid:
    """One pool. `capacity` is requests per second of a replica; `late`, `arrived`, `answered` are requests so far.

    `counts` are the desired replicas of every step, `replica_seconds` what they held, those that start included.
    """

    spec: ScalingSpec = field(default_factory=lambda: ScalingSpec(max_replicas=1000))
    capacity: float = 1.0
    startup_seconds: float = 120.0
    declared_rate: float = 1.0
    now: float = START
    ready: int = 0
    starting: deque[tuple[float, int]] = field(default_factory=deque)
    backlog: float = 0.0
    late: float = 0.0
    arrived: float = 0.0
    replica_seconds: float = 0.0
    counts: list[int] = field(default_factory=list)
    answer: ScaleAnswer | None = None
    memory: ScaleMemory | None = None
    _answered: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW_STEPS))
    _latest: float = 0.0

    def run(self, rates: Iterable[float]) -> Self:
        """Let requests come at one rate after the other, each for a step."""
        for rate in rates:
            self.step(rate)
        return self

    def step(self, rate: float) -> int:
        """Decide on what was seen until now, then let a step pass with requests at this rate; the desired count."""
        desired = self.desired()
        self._change(desired - self.held)
        self.now += STEP_SECONDS
        while self.starting and self.starting[0][0] <= self.now:
            self.ready += self.starting.popleft()[1]
        self._serve(rate)
        self.counts.append(desired)
        self.replica_seconds += desired * STEP_SECONDS
        return desired

    @property
    def attained(self) -> float:
        """Part of the requests that did not wait for longer than the patience."""
        return 1.0 - self.late / self.arrived if self.arrived > 0 else 1.0

    @property
    def held(self) -> int:
        """Replicas that are ready or start."""
        return self.ready + sum(count for _, count in self.starting)

    def desired(self) -> int:
        """The count as the operator decides it."""
        request = ScaleRequest(
            spec=self.spec,
            role=Role.Aggregated,
            current=self.held,
            capacity=Capacity(self.capacity),
            declared_rate=self.declared_rate,
            gpus=1,
            pods=1,
            now=self.now,
            observation=self.observation(),
            memory=self.memory,
            previous=self.answer.explanation if self.answer is not None else None,
        )
        self.answer = scale_pool(request)
        self.memory = self.answer.memory
        return self.answer.desired

    def _change(self, more: int) -> None:
        """What there is at the beginning is ready."""
        if not self.counts:
            self.ready = more
        elif more > 0:
            self.starting.append((self.now + self.startup_seconds, more))
        else:
            self._shrink(-more)

    def observation(self) -> PoolObservation | None:
        """What metrics show; None before there were any."""
        if not self._answered:
            return None
        seen = PoolObservation(self.ready, self.ready, age_seconds=5.0, running=0.0, waiting=self.backlog)
        rate = sum(self._answered) / len(self._answered)
        arrivals = self._latest * STEP_SECONDS
        return replace(seen, requests_per_second=rate, arrivals=arrivals, arrival_seconds=STEP_SECONDS)

    def _shrink(self, fewer: int) -> None:
        """Those that start go first, the latest before all."""
        while fewer and self.starting:
            at, count = self.starting.pop()
            gone = min(count, fewer)
            fewer -= gone
            if count > gone:
                self.starting.append((at, count - gone))
        self.ready -= fewer

    def _serve(self, rate: float) -> None:
        per_second = max(self.ready, 1e-9) * self.capacity * SATURATION
        waited, offered = self.backlog / per_second, self.backlog + rate * STEP_SECONDS
        answered = min(offered, per_second * STEP_SECONDS)
        self.backlog = min(offered - answered, per_second * LONGEST_QUEUE_SECONDS)
        waits = self.backlog / per_second
        most, least = max(waited, waits), min(waited, waits)
        if most > PATIENCE_SECONDS:
            part = 1.0 if least >= PATIENCE_SECONDS else (most - PATIENCE_SECONDS) / (most - least)
            self.late += part * rate * STEP_SECONDS
        self.arrived += rate * STEP_SECONDS
        self._answered.append(answered / STEP_SECONDS)
        self._latest = rate


def oracle_seconds(rates: list[float], capacity: float) -> float:
    """Replica-seconds of one who has, minute by minute and without any start, just enough for the minute's requests."""
    minutes = [rates[begin : begin + WINDOW_STEPS] for begin in range(0, len(rates), WINDOW_STEPS)]
    needed = (max(1, math.ceil(sum(each) / len(each) / capacity - 1e-9)) * len(each) for each in minutes)
    return sum(needed) * STEP_SECONDS
