"""Outcomes of simulations, made by hand as the tests of what shows them need them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weft.domain.reasons import Explanation, Reason
from weft.domain.workload import Role, Slo
from weft.twin.outcome import Answers, DecisionEvent, Moment, PoolFigures, PoolSample, SimulationOutcome

SLO = Slo(ttft=((95, 0.5),), tpot=((95, 0.03),))


@dataclass(frozen=True, slots=True)
class Made:
    """An hour with a peak in its middle, served by replicas that follow it after `late` seconds.

    Every `fails`-th request fails; 0: none. `roles` are those of its pools.
    """

    policy: str = "weft"
    seed: int = 0
    late: float = 60.0
    fails: int = 0
    roles: tuple[Role, ...] = (Role.Aggregated,)
    slo: Slo = SLO
    seconds: float = 3600.0
    warm_up: float = 300.0
    rate: float = 8.0

    def outcome(self) -> SimulationOutcome:
        """What came out of it."""
        random = np.random.default_rng(self.seed)
        arrived = np.sort(random.uniform(0.0, self.seconds, int(self.seconds * self.rate)))
        load = np.array([self.load(at) / self.served(at) for at in arrived.tolist()])
        ttft = (0.12 * np.exp(2.2 * np.maximum(0.0, load - 0.8)) * random.lognormal(0.0, 0.35, len(arrived))).astype(
            "f4"
        )
        tpot = (0.016 * (0.7 + 0.4 * load) * random.lognormal(0.0, 0.12, len(arrived))).astype("f4")
        if self.fails:
            ttft[:: self.fails] = tpot[:: self.fails] = math.inf
        return SimulationOutcome(
            policy=self.policy,
            stream="chat",
            model="meta-llama/Llama-3.1-8B-Instruct",
            slo=self.slo,
            answers=Answers(arrived, ttft, tpot),
            pools=tuple(self.pool(role) for role in self.roles),
            timeline=tuple(self.moment(at) for at in np.arange(0.0, self.seconds, 15.0).tolist()),
            told=tuple(self.told()),
            seconds=self.seconds,
            warm_up=self.warm_up,
            retried=3 if self.fails else 0,
            wall_seconds=1.5,
        )

    def load(self, at: float) -> float:
        """Replicas that the requests of a moment need."""
        return 1.5 + 5.0 * math.exp(-(((at - self.seconds / 2) / (self.seconds / 6)) ** 2))

    def wanted(self, at: float) -> int:
        return math.ceil(self.load(max(0.0, at - self.late)) * 1.15)

    def served(self, at: float) -> int:
        return min(self.wanted(max(0.0, at - 120.0)), self.wanted(at))

    def moment(self, at: float) -> Moment:
        wanted, ready = self.wanted(at), self.served(at)
        paid = max(wanted, self.wanted(max(0.0, at - 90.0)))
        return Moment(
            at, tuple(PoolSample(wanted + place, ready + place, paid + place) for place, _ in enumerate(self.roles))
        )

    def pool(self, role: Role) -> PoolFigures:
        name = "chat" if role is Role.Aggregated else f"chat-{role.value.lower()}"
        return PoolFigures(name, role, 2, "H100", "H100 BF16 TP2", 9000.0 + 600 * self.late, 2.5 + self.late / 6, 11)

    def told(self) -> list[DecisionEvent]:
        found, before = [], self.wanted(0.0)
        for at in np.arange(0.0, self.seconds, 15.0).tolist():
            now = self.wanted(at)
            if now != before:
                reason = Reason.ScaleUp if now > before else Reason.ScaleDown
                message = f"{now} replicas for {1.9 * now:.1f} requests/s of 2.1 each"
                found.append(DecisionEvent(at, self.pool(self.roles[0]).name, Explanation(reason, message)))
            before = now
        full = DecisionEvent(
            self.seconds / 2, self.pool(self.roles[-1]).name, Explanation(Reason.NoSlot, "no <slot> for replica 9")
        )
        return sorted([*found, full], key=lambda told: told.at)
