"""A pool as a fluid: requests flow in, ready replicas serve them evenly, what is too much waits, new ones take time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.twin.policies.views import ANSWER, EACH, LAUNCH, MOST_SEQUENCES, pod, view

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.twin.policies.policy import Policy, PoolView

TICK = 5.0
FASTEST = MOST_SEQUENCES / (ANSWER * (LAUNCH + EACH * MOST_SEQUENCES))  # requests/s of a replica with a full batch


@dataclass
class Fluid:
    """Runs one policy on one aggregated pool; `counts` are those asked for at each tick."""

    policy: Policy
    rate: Callable[[float], float]
    count: int = 4
    start_seconds: float = 120.0
    most: int = 60
    backlog: float = 0.0
    ready: int = 0
    starting: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    backlogs: list[float] = field(default_factory=list)

    def run(self, seconds: float) -> Fluid:
        """From the beginning, with all of the first count ready."""
        self.ready = self.count
        asked = -TICK
        for tick in range(int(seconds / TICK)):
            now = tick * TICK
            seen = self._flow(now)
            if now - asked >= self.policy.every_seconds or tick == 0:
                asked = now
                self._ask(now, self.policy.counts(now, (seen,)).get("chat", self.count))
            self.counts.append(self.count)
            self.backlogs.append(self.backlog)
        return self

    @property
    def last_counts(self) -> list[int]:
        """Of the last 20 minutes."""
        return self.counts[-int(1200 / TICK) :]

    def _ask(self, now: float, count: int) -> None:
        more = count - self.count
        self.starting += [now + self.start_seconds] * max(0, more)
        for _ in range(-more):  # those that start go first
            if self.starting:
                self.starting.pop()
            else:
                self.ready -= 1
        self.count = count

    def _flow(self, now: float) -> PoolView:
        self.ready += sum(at <= now for at in self.starting)
        self.starting = [at for at in self.starting if at > now]
        arriving = self.rate(now)
        served = min(self.backlog + arriving * TICK, self.ready * FASTEST * TICK)
        self.backlog += arriving * TICK - served
        each = served / TICK / self.ready
        running = min(MOST_SEQUENCES, ANSWER * each * LAUNCH / max(1e-9, 1.0 - ANSWER * each * EACH))
        step = LAUNCH + EACH * running
        one = pod(self.backlog / self.ready, running / MOST_SEQUENCES, running, each, tpot=step)
        return view(*[one] * self.ready, count=self.count, most=self.most, arriving=arriving, tpot=step)
