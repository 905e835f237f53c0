"""The outcome of one simulation: every request, a timeline, and the cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weft.domain.reasons import Explanation
    from weft.domain.workload import Role, Slo


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """One stream's requests as columns of one length, in order of arrival.

    `arrived` are seconds since the trace began (float64), `ttft` and `tpot` seconds (float32); both are infinite for a
    request that failed: refused, given up by its client for the last time, or lost with its engine. `tpot` is NaN for
    an answer of one token, which has none.
    """

    arrived: NDArray[np.float64]
    ttft: NDArray[np.float32]
    tpot: NDArray[np.float32]

    @property
    def completed(self) -> NDArray[np.bool_]:
        """Whether each request has an answer."""
        return np.isfinite(self.ttft)

    def within(self, ttft_seconds: float, tpot_seconds: float) -> NDArray[np.bool_]:
        """Whether each request met both targets; a one-token answer meets any TPOT target, a failed request none."""
        in_time = (self.ttft <= ttft_seconds) & (np.isnan(self.tpot) | (self.tpot <= tpot_seconds))
        return in_time & self.completed

    def part(self, begin: float, end: float) -> Answers:
        """Return the requests that arrived in [begin, end) seconds."""
        kept = slice(*np.searchsorted(self.arrived, [begin, end]))
        return Answers(self.arrived[kept], self.ttft[kept], self.tpot[kept])


@dataclass(frozen=True, slots=True)
class PoolSample:
    """One pool at one moment. Replicas: `desired` were wanted, `ready` served, `paid` held GPUs, starting ones too.

    `network_bound` is whether its condition NetworkBound was True; `gpus` are those that its pods held.
    """

    desired: int
    ready: int
    paid: int
    waiting: int = 0
    running: int = 0
    kv_usage: float = 0.0
    network_bound: bool = False
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """The pools at `at` seconds since the trace began, in the order of `Outcome.pools`."""

    at: float
    pools: tuple[PoolSample, ...]

    @property
    def gpus(self) -> int:
        """GPUs that all pools held, whatever their shapes were then."""
        return sum(sample.gpus for sample in self.pools)


@dataclass(frozen=True, slots=True)
class DecisionEvent:
    """A decision with its reason, as in an event; `pool` is a name, `resource` the UID of the user's pool or split."""

    at: float
    pool: str
    explanation: Explanation
    resource: str = ""


@dataclass(frozen=True, slots=True)
class Shortage:
    """A period, from `at` until `until`, in which a pool had fewer replicas than it wanted, for one reason.

    The explanation is that of `worst_at`, when most were missing: the numbers in its message may not be those of the
    whole period.
    """

    at: float
    until: float
    pool: str
    explanation: Explanation
    worst_at: float


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """One pool of the outcome, after the warm-up.

    `gpu_seconds` counts its replicas from binding to end, starting and draining ones too; `changes` counts changes of
    the desired replicas. `cost` is GPU-hours times the accelerator's cost in the catalog.
    """

    name: str
    role: Role
    gpus: int
    accelerator: str
    shape: str
    gpu_seconds: float
    cost: float
    changes: int


@dataclass(frozen=True, slots=True, eq=False)
class SimulationOutcome:
    """One policy on one stream of requests, with the pools that serve it.

    The first `warm_up` seconds count only in the timeline. `slo` is the user's; `model` and `stream` name what served
    whom. Of `retried` requests only the last attempt counts, timed from the first one. `unfinished` are arrival times
    of requests that at the end had a first token but no last one, or had waited for less than a minute: they are not
    among the answers.
    """

    policy: str
    stream: str
    model: str
    slo: Slo
    answers: Answers
    pools: tuple[PoolFigures, ...]
    timeline: tuple[Moment, ...]
    told: tuple[DecisionEvent, ...]
    seconds: float
    warm_up: float
    retried: int = 0
    shortages: tuple[Shortage, ...] = ()
    wall_seconds: float = 0.0
    unfinished: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    @property
    def counted(self) -> Answers:
        """The requests that arrived after the warm-up."""
        return self.answers.part(self.warm_up, np.inf)

    @property
    def came(self) -> NDArray[np.float64]:
        """The arrival times of all requests, answered or not, in order."""
        return np.sort(np.concatenate([self.answers.arrived, self.unfinished]))

    @property
    def targets(self) -> tuple[float, float]:
        """The (TTFT, TPOT) in seconds that each request is held against: those of the highest percentiles."""
        ttft, tpot = (kind[-1][1] if kind else np.inf for kind in (self.slo.ttft, self.slo.tpot))
        return float(ttft), float(tpot)

    @property
    def attainment(self) -> float:
        """Fraction of counted requests that met both targets; failed ones did not. NaN without requests."""
        within = self.counted.within(*self.targets)
        return float(within.mean()) if len(within) else float("nan")

    @property
    def gpu_hours(self) -> float:
        """GPU-hours of all pools after the warm-up, with starting and draining replicas."""
        return sum(pool.gpu_seconds for pool in self.pools) / 3600.0

    @property
    def cost(self) -> float:
        """Cost of the GPU-hours of all pools."""
        return sum(pool.cost for pool in self.pools)
