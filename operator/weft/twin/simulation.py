"""A whole simulation: a trace through a front into engines, on a cluster that the operator's own functions run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING

from weft.domain.workload import Role, Slo
from weft.twin import external
from weft.twin.cluster import SimulatedCluster
from weft.twin.engines import Engines
from weft.twin.front import FrontOptions
from weft.twin.operation import SimulatedOperation
from weft.twin.outcome import Moment, Outcome, PoolFigures, PoolSample
from weft.twin.scrapes import ScrapeOptions
from weft.twin.serving import Route, Serving
from weft.twin.start_up import StartUp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from weft.catalog import Catalog
    from weft.domain.cluster import NodeRecord, PodRecord
    from weft.domain.snapshot import PoolObservation, PoolRecord, ResourceKey, SplitRecord
    from weft.twin.policy import Policy
    from weft.twin.speed import EngineSpeed
    from weft.twin.start_up import Fault
    from weft.twin.trace import Trace

SAMPLE_SECONDS = 60.0  # from one moment of the timeline to the next
BRING_UP_SECONDS = 3600.0  # before the trace: a fleet that is not up by then begins as it is
FINISH_SECONDS = 900.0  # after the last arrival: what is not answered by then has failed
SHORTEST_SLEEP_SECONDS = 0.05
WEFT = "weft"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Setting:
    """Everything that a simulation depends on, but for the policy. Times are seconds of the trace.

    `pools` and `splits` are as their users wrote them, without a status; `nodes` and `pods` (of others) are the
    cluster. Weft decides every `decide_seconds`, and whenever something changes. `truth` is how fast an
    engine really is, of which the performance model says so much; None: just so. Pools of schedulers other than the
    stock one never get a node here, and no node is in a ComputeDomain.
    """

    pools: tuple[PoolRecord, ...] = ()
    splits: tuple[SplitRecord, ...] = ()
    nodes: tuple[NodeRecord, ...]
    pods: tuple[PodRecord, ...] = ()
    catalog: Catalog
    trace: Trace
    route: Route
    front: FrontOptions = field(default_factory=FrontOptions)
    scrapes: ScrapeOptions = field(default_factory=ScrapeOptions)
    start_up: StartUp = field(default_factory=StartUp)
    faults: tuple[Fault, ...] = ()
    decide_seconds: float = 15.0
    warm_up: float = 0.0
    seed: int = 0
    truth: Callable[[EngineSpeed], EngineSpeed] | None = None


def simulate(
    setting: Setting, policy: Policy | None = None, progress: Callable[[float], None] | None = None
) -> Outcome:
    """Run the trace once; None is Weft itself, by its own count. The same setting gives the same outcome.

    `progress` is told the fraction of the trace that is done.
    """
    began = perf_counter()
    outcome = Simulation(setting, policy).run(progress or _nothing)
    return replace(outcome, wall_seconds=perf_counter() - began)


class Simulation:
    """One run."""

    def __init__(self, setting: Setting, policy: Policy | None) -> None:
        """Nothing has happened."""
        self._setting, self._policy = setting, policy
        self._asked = {setting.route.pool, setting.route.decode_pool}
        self._serving = Serving(setting.trace, setting.route, setting.front, setting.scrapes, setting.seed)
        truth = setting.truth or _as_modelled
        self._engines = Engines(self._serving, setting.route, self._pool, setting.catalog, truth)
        self._cluster = SimulatedCluster(setting.nodes, setting.pods, setting.start_up, setting.seed, self._engines)
        self._operation = SimulatedOperation(
            (replace(each, key=_known(each.key)) for each in setting.pools),
            (replace(each, key=_known(each.key)) for each in setting.splits),
            self._cluster,
            setting.catalog,
        )
        self._decide_at = self._sample_at = 0.0
        self._policy_at = 0.0 if policy is not None else inf
        self._revision = -1
        self._desired: dict[str, int] = {}
        self._changes: dict[str, int] = {}
        self._timeline: list[Moment] = []

    def run(self, progress: Callable[[float], None]) -> Outcome:
        """From the first replica to the last answer."""
        end = self._setting.trace.seconds
        self._bring_up()
        self._cluster.plan(self._setting.faults)
        now = 0.0
        while now < end:
            self._step(now)
            progress(now / end)
            now = min(self._decide_at, self._policy_at, self._sample_at, self._cluster.next_at)
        self._serving.advance(end)
        self._sample(end)
        self._serving.advance(end + FINISH_SECONDS)
        progress(1.0)
        return self._outcome(end)

    def _pool(self, uid: str) -> PoolRecord:
        return self._operation.pools[uid]

    # before the trace

    def _bring_up(self) -> None:
        """Have the replicas for the declared rates ready, by a clock below 0; only then the counts change hands."""
        now = -BRING_UP_SECONDS
        while now < 0.0:
            self._cluster.advance(now)
            wake = self._operation.turn(now, {})
            if self._is_up():
                break
            now = min(now + self._sleep(wake), max(now, self._cluster.next_at))
        self._operation.forget()
        if self._policy is not None:
            external.hand_over(self._operation)

    def _is_up(self) -> bool:
        operation = self._operation
        whole = len(operation.pools) >= len(self._setting.pools) + 2 * len(operation.splits)
        return whole and all(
            0 < pool.status.desired_replicas <= operation.ready(uid) for uid, pool in operation.pools.items()
        )

    # during the trace

    def _step(self, now: float) -> None:
        """Everything that is due."""
        self._serving.advance(now)
        self._cluster.advance(now)
        due = now >= self._decide_at or now >= self._policy_at or self._cluster.revision != self._revision
        if due:
            self._turn(now)
        if now >= self._sample_at:
            self._sample(now)
            self._sample_at = now + SAMPLE_SECONDS

    def _turn(self, now: float) -> None:
        operation, observations = self._operation, self._observed(now)
        if self._policy is not None and now >= self._policy_at:
            views = tuple(external.views(operation, self._engines, observations))
            external.write(operation, self._policy.counts(now, views))
            self._policy_at = now + self._policy.every_seconds
        wake = operation.turn(now, observations)
        self._decide_at = now + self._sleep(wake)
        self._revision = self._cluster.revision
        for uid, pool in operation.pools.items():
            desired = pool.status.desired_replicas
            if self._desired.setdefault(uid, desired) != desired:
                self._desired[uid] = desired
                self._changes[uid] = self._changes.get(uid, 0) + (now >= self._setting.warm_up)

    def _sleep(self, wake: float | None) -> float:
        usual = self._setting.decide_seconds
        return usual if wake is None else min(usual, max(SHORTEST_SLEEP_SECONDS, wake))

    def _observed(self, now: float) -> dict[str, PoolObservation]:
        found = {}
        for uid, pool in self._operation.pools.items():
            engines = self._cluster.engines(uid) if pool.key.name in self._asked else ()
            observation = self._serving.observe(pool.key.name, engines, now) if engines else None
            if observation is not None:
                found[uid] = observation
        return found

    def _sample(self, now: float) -> None:
        pools = self._operation.pools.items()
        self._timeline.append(Moment(now, tuple(self._sampled(uid, pool) for uid, pool in pools)))

    def _sampled(self, uid: str, pool: PoolRecord) -> PoolSample:
        desired, ready, paid = pool.status.desired_replicas, self._cluster.serving(uid), self._cluster.paid(uid)
        if pool.key.name not in self._asked:
            return PoolSample(desired, ready, paid)
        bound = any(each.kind == "NetworkBound" and each.status == "True" for each in pool.conditions)
        return PoolSample(desired, ready, paid, *self._serving.sample(pool.key.name), network_bound=bound)

    # afterwards

    def _outcome(self, end: float) -> Outcome:
        setting, pools = self._setting, self._operation.pools
        return Outcome(
            policy=WEFT if self._policy is None else self._policy.name,
            stream=setting.route.stream,
            model=next((pool.spec.model.model_id for pool in self._routed() if pool.spec is not None), ""),
            slo=slo_of(self._routed()),
            answers=self._serving.answers(),
            pools=tuple(self._figures(uid, pool, end) for uid, pool in pools.items()),
            timeline=tuple(self._timeline),
            told=tuple(each for each in self._operation.told if each.at >= 0.0),
            seconds=end,
            warm_up=setting.warm_up,
            retried=self._serving.retried,
        )

    def _routed(self) -> tuple[PoolRecord, ...]:
        return tuple(pool for pool in self._operation.pools.values() if pool.key.name in self._asked)

    def _figures(self, uid: str, pool: PoolRecord, end: float) -> PoolFigures:
        """Of a pool in its last shape."""
        shape = pool.status.plan.shape if pool.status.plan is not None else None
        seconds = self._cluster.gpu_seconds(uid, self._setting.warm_up, end)
        cost = self._setting.catalog.accelerator(shape.accelerator).cost if shape is not None else 0.0
        return PoolFigures(
            name=pool.key.name,
            role=pool.spec.role if pool.spec is not None else Role.Aggregated,
            gpus=shape.gpus if shape is not None else 0,
            accelerator=shape.accelerator if shape is not None else "",
            shape=str(shape) if shape is not None else "",
            gpu_seconds=seconds,
            cost=seconds / 3600.0 * cost,
            changes=self._changes.get(uid, 0),
        )


def slo_of(pools: Iterable[PoolRecord]) -> Slo:
    """TTFT of who reads the prompts, TPOT of who writes the answers."""
    specs = [pool.spec for pool in pools if pool.spec is not None]
    ttft = next((spec.slo.ttft for spec in specs if spec.role is not Role.Decode), ())
    tpot = next((spec.slo.tpot for spec in specs if spec.role is not Role.Prefill), ())
    return Slo(ttft, tpot)


def _known(key: ResourceKey) -> ResourceKey:
    """With what the API server adds to what a user wrote."""
    return replace(key, namespace=key.namespace or "default", uid=key.uid or f"{key.kind}-{key.name}".lower())


def _as_modelled(speed: EngineSpeed) -> EngineSpeed:
    return speed


def _nothing(_: float) -> None:
    """Nobody wants to know."""
