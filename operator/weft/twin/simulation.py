"""A whole simulation: traces through fronts into engines, on one cluster that the operator's own functions run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING

from weft.domain.workload import Role, Slo
from weft.twin.cluster.cluster import SimulatedCluster
from weft.twin.cluster.parts import Parts
from weft.twin.cluster.start_up import StartPhases
from weft.twin.cluster.starts import Starts
from weft.twin.operating import external
from weft.twin.operating.engines import JUST_BEFORE, Engines
from weft.twin.operating.operation import SimulatedOperation
from weft.twin.operating.standstill import AWAKE_SECONDS, LEAP_SECONDS, POLICY_LEAPS, QUIET_SECONDS, may_leap
from weft.twin.outcome import DecisionEvent, Moment, PoolFigures, PoolSample, SimulationOutcome
from weft.twin.serving.front import FrontOptions
from weft.twin.serving.scrapes import ScrapeOptions
from weft.twin.serving.streams import Streams
from weft.twin.shortages import Shortages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weft.catalog import Catalog
    from weft.domain.cluster import NodeRecord, PodRecord
    from weft.domain.quotas import QuotaRecord
    from weft.domain.snapshot import PoolObservation, PoolRecord, ResourceKey, SplitRecord
    from weft.twin.cluster.start_up import Fault
    from weft.twin.engine.speed import EngineSpeed
    from weft.twin.policies.policy import Policy
    from weft.twin.serving.stream import Stream

SAMPLE_SECONDS = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0)  # possible steps of a timeline
USUAL_MOMENTS = 300  # most steps until the last arrival, unless they are a minute apart
BRING_UP_SECONDS = 3600.0  # before the trace, at least: a fleet that is not up by then begins as it is
BRING_UP_STARTS = 3.0  # at least so many median starts: of thousands of replicas the slowest takes two
FINISH_SECONDS = 900.0  # after the last arrival: a request that is not answered by then has failed
SHORTEST_SLEEP_SECONDS = 0.05
WEFT = "weft"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SimulationSetting:
    """Everything that a simulation depends on, except the policy. Times are seconds since the traces began.

    `pools` and `splits` are as their users wrote them, without a status; `nodes` and `pods` (of others) are the
    cluster. Each of `streams` goes to pools of its own. `classes` are PriorityClasses by name: their value, and whether
    they preempt; what `quotas` have used is used by others. Weft decides every `decide_seconds`, and whenever something
    changes. `truth` turns the modelled speed of an engine into its true one; None: the model is right. Replicas start
    within `start_up`, except those of pools that `starts` has by namespace and name, in their first shape: in another
    one they take what is estimated for it. Pools of schedulers other than the stock one never get a node here, and no
    node is in a ComputeDomain.

    GPU-seconds are counted until the last arrival, as in comparisons of policies on a long trace (bench/scaling.py);
    with `until_answered` the operator goes on, and they are counted, until the last request has ended. Policies begin
    with the replicas for the declared rates, or with `begins_at_peak` with those for the busiest minute of each stream.
    Without `leaps` every pass is made, also where it changes nothing, which takes longer and has the same outcome.
    """

    pools: tuple[PoolRecord, ...] = ()
    splits: tuple[SplitRecord, ...] = ()
    nodes: tuple[NodeRecord, ...]
    pods: tuple[PodRecord, ...] = ()
    catalog: Catalog
    streams: tuple[Stream, ...]
    classes: Mapping[str, tuple[int, bool]] = field(default_factory=dict)
    quotas: tuple[QuotaRecord, ...] = ()
    front: FrontOptions = field(default_factory=FrontOptions)
    scrapes: ScrapeOptions = field(default_factory=ScrapeOptions)
    start_up: StartPhases = field(default_factory=StartPhases)
    starts: Mapping[tuple[str, str], StartPhases] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    decide_seconds: float = 15.0
    warm_up: float = 0.0
    seed: int = 0
    truth: Callable[[EngineSpeed], EngineSpeed] | None = None
    until_answered: bool = False
    begins_at_peak: bool = False
    leaps: bool = True

    @property
    def seconds(self) -> float:
        """Seconds until the last request of the longest trace."""
        return max(each.trace.seconds for each in self.streams)

    @property
    def longest_start(self) -> StartPhases:
        """Start phases of the pool whose replicas take longest once their image is pulled."""
        return max(self.starts.values(), key=lambda each: each.engine_seconds, default=self.start_up)

    def start_of(self, key: ResourceKey) -> StartPhases:
        """Return the start phases of a pool's replicas."""
        return self.starts.get((key.namespace, key.name), self.start_up)


def simulate(
    setting: SimulationSetting, policy: Policy | None = None, progress: Callable[[float], None] | None = None
) -> SimulationOutcome:
    """Run the only stream once; without a policy Weft sizes the pools. The same setting gives the same outcome.

    `progress` is told the fraction of the trace that is done.
    """
    (outcome,) = simulate_together(setting, () if policy is None else (policy,), progress)
    return outcome


def simulate_together(
    setting: SimulationSetting, policies: Sequence[Policy] = (), progress: Callable[[float], None] | None = None
) -> tuple[SimulationOutcome, ...]:
    """Run all streams at once, with one outcome each; each has its own policy, or Weft sizes all pools.

    All run until the last request of the longest trace comes, or with `until_answered` until all have ended.
    """
    began = perf_counter()
    outcomes = Simulation(setting, tuple(policies)).run(progress or _nothing)
    return tuple(replace(each, wall_seconds=perf_counter() - began) for each in outcomes)


class Simulation:
    """One run of all streams."""

    def __init__(self, setting: SimulationSetting, policies: tuple[Policy, ...]) -> None:
        """Prepare the run; raises `ValueError` unless each stream has a policy, or none has."""
        if len(policies) not in {0, len(setting.streams)}:
            raise ValueError("each stream has a policy of its own, or none has one")
        self._setting, self._policies = setting, policies
        self._streams = Streams(setting.streams, setting.front, setting.scrapes, setting.seed)
        truth = setting.truth or _as_modelled
        parts = Parts(setting.nodes, setting.catalog)
        self._engines = Engines(self._streams.serving, self._pool, setting.catalog, truth, parts)
        self._starts = Starts(setting.start_up, setting.starts, setting.catalog)
        self._cluster = SimulatedCluster(setting.nodes, setting.pods, self._start_of, setting.seed, self._engines)
        self._cluster.limit(setting.quotas)
        self._operation = SimulatedOperation(
            (replace(each, key=_known(each.key)) for each in setting.pools),
            (replace(each, key=_known(each.key)) for each in setting.splits),
            self._cluster,
            setting.catalog,
            setting.classes,
        )
        self._decide_at = self._sample_at = 0.0
        self._sample_seconds = sample_seconds(setting.seconds)
        self._policies_at = [0.0] * len(policies)
        self._policy_at = min(self._policies_at, default=inf)
        self._revision = -1
        self._told_of, self._rests_until = -1, -inf
        self._may_leap = setting.leaps and may_leap(
            setting.decide_seconds, (setting.start_up, *setting.starts.values())
        )
        self._busy_at = self._leaps_from = -inf  # the last time that anything happened, and that a leap led too far to
        self._desired: dict[str, int] = {}
        self._changes: dict[str, int] = {}
        self._shortages = Shortages()
        self._timelines: list[list[Moment]] = [[] for _ in setting.streams]

    def run(self, progress: Callable[[float], None]) -> tuple[SimulationOutcome, ...]:
        """Run from the first replica to the last answer; returns an outcome for each stream."""
        now, last = 0.0, self._setting.seconds
        self._bring_up()
        self._cluster.advance(JUST_BEFORE)
        self._cluster.plan(self._setting.faults)
        while now < last:
            self._step(now)
            progress(now / last)
            now = self._next_at
        if self._setting.until_answered:
            end = self._all_ended(now)
        else:
            end = last
            self._streams.advance(end)
        self._sample(end)
        self._streams.advance(last + FINISH_SECONDS)
        progress(1.0)
        return tuple(self._outcome(place, end) for place in range(len(self._streams.of)))

    def _all_ended(self, now: float) -> float:
        """Go on until every request has ended, but at most `FINISH_SECONDS`; returns when that was."""
        last = self._setting.seconds
        latest = last + FINISH_SECONDS
        while True:
            self._streams.advance(min(now, latest))
            ended = self._streams.ended_at
            if ended is not None or now >= latest:
                return latest if ended is None else max(last, ended)
            self._step(now)
            now = self._next_at

    @property
    def _next_at(self) -> float:
        """When the next thing is due."""
        return min(self._decide_at, self._policy_at, self._sample_at, self._cluster.next_at)

    def _pool(self, uid: str) -> PoolRecord:
        return self._operation.pools[uid]

    def _start_of(self, uid: str) -> StartPhases:
        return self._starts.of(self._pool(uid))

    # before the trace

    def _bring_up(self) -> None:
        """Start the replicas for the declared rates, before second 0; only then policies take over."""
        began = -max(BRING_UP_SECONDS, BRING_UP_STARTS * self._setting.longest_start.seconds)
        now = self._until_up(began, began)
        self._operation.forget()
        if self._policies:
            external.hand_over(self._operation)
        if self._policies and self._setting.begins_at_peak:
            for place, stream in enumerate(self._setting.streams):
                uids = [pool.key.uid for pool in self._owned(place)]
                external.order_for_the_peak(self._operation, uids, self._engines, stream.trace)
            self._until_up(began, now)

    def _until_up(self, began: float, now: float) -> float:
        """Go on until all replicas that are wanted serve, or none that has room starts any more; returns when."""
        while now < 0.0:
            self._cluster.advance(now)
            wake = self._operation.turn(now, {})
            nothing_starts = now >= began + BRING_UP_SECONDS and self._cluster.next_at == inf
            if nothing_starts or self._operation.is_up(len(self._setting.pools)):
                break
            now = min(now + self._sleep(wake), max(now, self._cluster.next_at))
        return now

    # during the trace

    def _step(self, now: float) -> None:
        """Do everything that is due by `now`."""
        self._streams.advance(now)
        self._cluster.advance(now)
        due = now >= self._decide_at or now >= self._policy_at or self._cluster.revision != self._revision
        if due:
            self._turn(now)
        if now >= self._sample_at:
            self._sample(now)
            self._sample_at = now + self._sample_seconds

    def _turn(self, now: float) -> None:
        operation, observations = self._operation, self._observed(now)
        if now >= self._policy_at:
            self._ask_policies(now, observations)
        if now < self._rests_until and operation.has_settled and self._cluster.revision == self._revision:
            self._decide_at = now + self._setting.decide_seconds
            return
        wake = operation.turn(now, observations)
        self._decide_at = now + self._sleep(wake)
        self._revision = self._cluster.revision
        self._shortages.look(operation.pools.values(), now)
        told = len(operation.told)
        if told != self._told_of or self._streams.rest_until <= now or wake is not None or not operation.has_settled:
            self._told_of, self._busy_at = told, now
        else:
            self._leap(now)
        for uid, pool in operation.pools.items():
            desired = pool.status.desired_replicas
            if self._desired.setdefault(uid, desired) != desired:
                self._desired[uid] = desired
                self._changes[uid] = self._changes.get(uid, 0) + (now >= self._setting.warm_up)

    def _leap(self, now: float) -> None:
        """Pass over the passes that change nothing while nothing happens; from the first that does all are made.

        Where policies write the counts, only those passes change anything in which one of them wrote another.
        """
        setting, step = self._setting, LEAP_SECONDS
        until = min(self._streams.rest_until - AWAKE_SECONDS, self._cluster.next_at, setting.seconds)
        if now < max(self._busy_at + QUIET_SECONDS, self._leaps_from) or not self._may_leap:
            return
        if self._policies:
            self._rests_until = min(now + POLICY_LEAPS * step, until)
            return
        while now + step < until:
            now += step
            self._streams.rest(now)
            if not self._operation.rest(now, self._observed(now)):
                self._leaps_from = now
                break
            self._decide_at = now + setting.decide_seconds

    def _ask_policies(self, now: float, observations: Mapping[str, PoolObservation]) -> None:
        """Ask the policies that are due, each for the pools of its stream."""
        operation = self._operation
        for place, policy in enumerate(self._policies):
            if now >= self._policies_at[place]:
                uids = [pool.key.uid for pool in self._owned(place)]
                views = tuple(external.views(operation, uids, self._engines, observations))
                external.write(operation, uids, policy.counts(now, views))
                self._policies_at[place] = now + policy.every_seconds
        self._policy_at = min(self._policies_at)

    def _owned(self, place: int) -> Iterator[PoolRecord]:
        place_of = self._streams.place
        return (each for each in self._operation.pools.values() if place_of(each.key.namespace, each.key.name) == place)

    def _sleep(self, wake: float | None) -> float:
        usual = self._setting.decide_seconds
        return usual if wake is None else min(usual, max(SHORTEST_SLEEP_SECONDS, wake))

    def _observed(self, now: float) -> dict[str, PoolObservation]:
        found = {}
        for uid, pool in self._operation.pools.items():
            serving = self._streams.serving(pool.key)
            engines = self._cluster.engines(uid) if serving is not None else ()
            observation = serving.observe(pool.key.name, engines, now) if serving is not None and engines else None
            if observation is not None:
                found[uid] = observation
        return found

    def _sample(self, now: float) -> None:
        for place, timeline in enumerate(self._timelines):
            timeline.append(Moment(now, tuple(map(self._sampled, self._owned(place)))))

    def _sampled(self, pool: PoolRecord) -> PoolSample:
        uid, serving = pool.key.uid, self._streams.serving(pool.key)
        desired, ready, paid = pool.status.desired_replicas, self._cluster.serving(uid), self._cluster.paid(uid)
        gpus = self._cluster.held(uid)
        if serving is None:
            return PoolSample(desired, ready, paid, gpus=gpus)
        bound = any(each.kind == "NetworkBound" and each.status == "True" for each in pool.conditions)
        return PoolSample(desired, ready, paid, *serving.sample(pool.key.name), network_bound=bound, gpus=gpus)

    # afterwards

    def _outcome(self, place: int, end: float) -> SimulationOutcome:
        pools, serving = tuple(self._owned(place)), self._streams.servings[place]
        routed = [pool for pool in pools if self._streams.serving(pool.key) is not None]
        return SimulationOutcome(
            policy=self._policies[place].name if self._policies else WEFT,
            stream=self._streams.of[place].route.stream,
            model=next((pool.spec.model.model_id for pool in routed if pool.spec is not None), ""),
            slo=slo_of(routed),
            answers=serving.answers(),
            unfinished=serving.unfinished(),
            pools=tuple(self._figures(pool, end) for pool in pools),
            timeline=tuple(self._timelines[place]),
            told=tuple(self._told(place)),
            seconds=end,
            warm_up=self._setting.warm_up,
            retried=serving.retried,
            shortages=tuple(each for pool in pools for each in self._shortages.of(pool, end)),
        )

    def _told(self, place: int) -> Iterator[DecisionEvent]:
        """Yield the decisions about a stream's resources since the traces began."""
        operation = self._operation
        prefills = {uid: (each.key.namespace, each.child_name(Role.Prefill)) for uid, each in operation.splits.items()}
        resources = {uid for uid, prefill in prefills.items() if self._streams.place(*prefill) == place}
        resources |= {pool.key.uid for pool in self._owned(place)}
        return (each for each in operation.told if each.at >= 0.0 and each.resource in resources)

    def _figures(self, pool: PoolRecord, end: float) -> PoolFigures:
        """Return the figures of a pool, which name its last shape."""
        uid = pool.key.uid
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


def sample_seconds(seconds: float) -> float:
    """Return the step of the timeline for traces of `seconds`: short ones are sampled more often.

    It is at most a minute and divides one, so that every whole minute is a moment.
    """
    return next((step for step in SAMPLE_SECONDS if seconds <= step * USUAL_MOMENTS), SAMPLE_SECONDS[-1])


def slo_of(pools: Iterable[PoolRecord]) -> Slo:
    """Return the TTFT targets of the pool that reads prompts, and the TPOT targets of the one that writes answers."""
    specs = [pool.spec for pool in pools if pool.spec is not None]
    ttft = next((spec.slo.ttft for spec in specs if spec.role is not Role.Decode), ())
    tpot = next((spec.slo.tpot for spec in specs if spec.role is not Role.Prefill), ())
    return Slo(ttft, tpot)


def _known(key: ResourceKey) -> ResourceKey:
    """Return a key with the namespace and UID that the API server would add."""
    return replace(key, namespace=key.namespace or "default", uid=key.uid or f"{key.kind}-{key.name}".lower())


def _as_modelled(speed: EngineSpeed) -> EngineSpeed:
    return speed


def _nothing(_: float) -> None:
    """Ignore the progress."""
