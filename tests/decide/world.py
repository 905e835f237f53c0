"""A small cluster around `decide`: pods appear, are released, bound and get ready; whoever has no assignment drains.

It is deliberately simpler than the real loops: one call of `turn` is one pass of deciding and one of everything else.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from tests.fabric.cluster import forming
from weft.catalog import load
from weft.decide import decide
from weft.domain.cluster import ContainerFailure, NodeRecord, PodIdentity, PodPhase, PodRecord
from weft.domain.reports import ComputeDomainReport, DomainMember, Reports
from weft.domain.scaling_spec import ScalingMode, ScalingSpec
from weft.domain.snapshot import PoolRecord, ResourceKey, Snapshot, SplitRecord
from weft.domain.spec import (
    EngineSpec,
    KVSpec,
    ModelSpec,
    PlacementSpec,
    PodSpec,
    PoolSpec,
    RolloutSpec,
    RouterSpec,
    SchedulerName,
    ShapePins,
)
from weft.domain.status import Assignment, PoolStatus
from weft.domain.workload import Role, Slo, Workload
from weft.render import compute_domain_name, domain_name_of, shared_by

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.decision import Decisions, PoolDecision
    from weft.domain.moves import MoveBudget
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.queueing import Queueing
    from weft.domain.snapshot import PoolObservation

NVIDIA = "nvidia.com/gpu"
WORKLOAD = Workload(1.0, input_tokens=1000, output_tokens=200, input_tokens_p95=2000, output_tokens_p95=400)


def external(replicas: int, most: int = 20) -> ScalingSpec:
    """A count that somebody wrote, for cases that are not about scaling."""
    return ScalingSpec(mode=ScalingMode.External, replicas=replicas, max_replicas=most)


def pool_spec(
    tp: int = 8,
    scaling: ScalingSpec | None = None,
    accelerator: str = "H200",
    rollout: RolloutSpec | None = None,
    role: Role = Role.Aggregated,
) -> PoolSpec:
    """A pool of a small model with a pinned tensor-parallel size."""
    return PoolSpec(
        role=role,
        model=ModelSpec("meta-llama/Llama-3.1-8B-Instruct"),
        engine=EngineSpec(),
        kv=KVSpec(),
        workload=WORKLOAD,
        slo=Slo(),
        shape=ShapePins(tensor_parallel=tp, pipeline_parallel=1, data_parallel=1),
        placement=PlacementSpec(accelerators=(accelerator,)),
        scaling=scaling or external(1),
        rollout=rollout or RolloutSpec(),
        pod=PodSpec(),
        router=RouterSpec(),
    )


def expert_spec(tp: int, dp: int, scaling: ScalingSpec | None = None, accelerator: str = "GB200") -> PoolSpec:
    """A pool of a small mixture of experts, whose replicas share the experts among all of their GPUs."""
    return replace(
        pool_spec(tp, scaling, accelerator),
        model=ModelSpec("Qwen/Qwen3-30B-A3B"),
        shape=ShapePins(tensor_parallel=tp, pipeline_parallel=1, expert_parallel=tp * dp, data_parallel=dp),
    )


def of_kueue(spec: PoolSpec, queue: str = "llm") -> PoolSpec:
    """The same pool in a queue of Kueue."""
    return replace(spec, placement=replace(spec.placement, scheduler=SchedulerName.Kueue, queue=queue))


def pool(name: str, spec: PoolSpec | None, priority: int = 0, split_uid: str | None = None) -> PoolRecord:
    key = ResourceKey("InferencePool", "team", name, f"uid-{name}")
    return PoolRecord(key, 1, spec, PoolStatus(), priority=priority, split_uid=split_uid)


@dataclass
class World:
    """Nodes, pods and resources that change from turn to turn. Times are epoch seconds."""

    nodes: list[NodeRecord]
    pools: dict[str, PoolRecord] = field(default_factory=dict)
    splits: dict[str, SplitRecord] = field(default_factory=dict)
    pods: dict[str, PodRecord] = field(default_factory=dict)
    observations: dict[str, PoolObservation] = field(default_factory=dict)
    memory: dict[str, ScaleMemory] = field(default_factory=dict)
    now: float = 1_000_000.0
    queueing: Queueing | None = None
    driver: bool = False  # whether NVIDIA's driver forms ComputeDomains
    domains: dict[str, ComputeDomainReport] = field(default_factory=dict)
    theirs: tuple[ComputeDomainReport, ...] = ()
    budget: MoveBudget | None = None
    admitted: dict[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)  # nodes by pool and replica
    engines_start: bool = True  # whether bound pods become ready
    scheduler_works: bool = True
    blind_seconds: float = 0.0  # as in `Snapshot`
    last: Decisions | None = None

    @classmethod
    def of(cls, nodes: Iterable[NodeRecord], *pools: PoolRecord, pods: Iterable[PodRecord] = ()) -> Self:
        return cls(list(nodes), {each.key.name: each for each in pools}, pods={pod.name: pod for pod in pods})

    # looking

    def snapshot(self) -> Snapshot:
        pools, splits = tuple(self.pools.values()), tuple(self.splits.values())
        pods, seen = tuple(self.pods.values()), dict(self.observations)
        world = pools, splits, tuple(self.nodes), pods
        domains = (*self.domains.values(), *self.theirs)
        reports = forming(*self.nodes, domains=domains) if self.driver else Reports()
        kept = dict(self.memory)
        found = Snapshot(self.now, *world, seen, kept, reports=reports, queueing=self.queueing, budget=self.budget)
        return replace(found, blind_seconds=self.blind_seconds)

    def status(self, name: str) -> PoolStatus:
        return self.pools[name].status

    def decision(self, name: str) -> PoolDecision:
        assert self.last is not None
        return next(each for each in self.last.pools if each.key.name == name)

    def condition(self, name: str, kind: str) -> tuple[str, str, str]:
        """(status, reason, message) of one condition as last decided."""
        found = next(each for each in self.decision(name).conditions if each.kind == kind)
        return found.status, found.explanation.reason.value, found.explanation.message

    def nodes_of(self, name: str) -> list[tuple[str, ...]]:
        return [assignment.nodes for assignment in self.status(name).assignments]

    def serving(self, name: str) -> int:
        """Replicas whose pods are all ready and not leaving."""
        assigned = {assignment.replica: assignment.pods for assignment in self.status(name).assignments}
        ready = [
            pod.identity.replica for pod in self._pods_of(name) if pod.ready and not pod.terminating and pod.identity
        ]
        return sum(ready.count(replica) == pods for replica, pods in assigned.items())

    # acting

    def decide(self) -> Decisions:
        """One pass of deciding; its result becomes the status."""
        self.last = decide(self.snapshot(), load())
        for decision in self.last.pools:
            self.pools[decision.key.name] = replace(self.pools[decision.key.name], status=decision.status)
        for split in self.last.splits:
            self.splits[split.key.name] = replace(self.splits[split.key.name], status=split.status)
        self.memory = dict(self.last.memory)
        return self.last

    def turn(self, turns: int = 1, seconds: float = 5.0) -> None:
        """Decide, then let the cluster follow one step, as often as asked for."""
        for _ in range(turns):
            self.now += seconds
            self.decide()
            self._follow()

    def edit(self, name: str, spec: PoolSpec) -> None:
        """The user applies a new spec."""
        record = self.pools[name]
        self.pools[name] = replace(record, spec=spec, generation=record.generation + 1)

    def end(self, name: str, failure: ContainerFailure | None = None) -> None:
        """The engine in a pod ends."""
        self.pods[name] = replace(self.pods[name], phase=PodPhase.Failed, ready=False, failure=failure)

    def _follow(self) -> None:
        for pod in list(self.pods.values()):
            if pod.identity is not None:
                self._advance(pod)
        for record in self.pools.values():
            for assignment in record.status.assignments:
                self._create(record, assignment)
        self._form_domains()

    def _form_domains(self) -> None:
        """A ComputeDomain comes before the gates of its first pods fall and goes after the last; bound pods join it."""
        asked = [each for record in self.pools.values() for each in self._asked(record)] if self.driver else []
        wanted = {name: owner for name, owner, complete in asked if not complete}
        lost = {name for name, _, complete in asked if complete} - self.domains.keys()
        claimed = [each for record in self.pools.values() for each in self._claims(record)]
        kept = {name: each.owner_uid for name, each in self.domains.items() if name in {name for name, _ in claimed}}
        self.domains = {
            name: self._domain(name, owner, [pod for known, pod in claimed if known == name])
            for name, owner in (wanted | kept).items()
            if name not in lost
        }

    def _asked(self, record: PoolRecord) -> list[tuple[str, str | None, bool]]:
        """The name and the owner of what each replica shares, and whether it had it."""
        return [
            (
                domain_name_of(record.key, each),
                record.split_uid if each.compute_domain.name else record.key.uid,
                each.complete,
            )
            for each in record.status.assignments
            if each.compute_domain is not None
        ]

    def _claims(self, record: PoolRecord) -> list[tuple[str, PodRecord]]:
        """What each pod of a pool may have a claim for: its replica's, or that of its pair."""
        pods = [(pod, pod.identity.replica) for pod in self._pods_of(record.key.name) if pod.identity]
        own = [(compute_domain_name(record.key, replica), pod) for pod, replica in pods]
        return own + [(name, pod) for pod, _ in pods if (name := shared_by(record, pod.pair)) is not None]

    def _domain(self, name: str, owner: str | None, pods: list[PodRecord]) -> ComputeDomainReport:
        members = tuple(DomainMember(node, "", ready=True) for node in sorted({pod.node for pod in pods if pod.node}))
        known = self.domains.get(name, ComputeDomainReport("team", name, (), f"uid-{name}", owner))
        return replace(known, members=members)

    def _has_its_domain(self, pod: PodRecord) -> bool:
        """Whether it needs none, or has one to which its nodes can go."""
        assignment = self._assignment(pod)
        assert assignment is not None
        assert pod.identity is not None
        if assignment.compute_domain is None:
            return True
        record = next(each for each in self.pools.values() if each.key.uid == pod.identity.pool_uid)
        name = domain_name_of(record.key, assignment)
        domains = (*self.domains.values(), *self.theirs)
        others = {member.node for each in domains if each.name != name for member in each.members}
        return name in self.domains and others.isdisjoint(assignment.nodes)

    def _advance(self, pod: PodRecord) -> None:
        if pod.terminating:
            del self.pods[pod.name]
        elif not self._is_assigned(pod):
            self.pods[pod.name] = replace(pod, terminating=True, ready=False)
        elif pod.gated and self._is_complete(pod) and self._has_room(pod) and self._has_its_domain(pod):
            self.pods[pod.name] = replace(pod, gated=False, released=self.now)
        elif pod.gated:
            return
        elif pod.queued:
            self.pods[pod.name] = replace(pod, queued=self._places(pod) is None, released=self.now)
        elif pod.node is None and self.scheduler_works and self._fits(pod):
            self.pods[pod.name] = replace(pod, node=self._node_of(pod), phase=PodPhase.Running)
        elif pod.node is not None and pod.phase is PodPhase.Running:
            took = pod.startup_seconds if pod.ready else self.now - (pod.released or pod.created)
            self.pods[pod.name] = replace(pod, ready=self.engines_start, startup_seconds=took)

    def _create(self, record: PoolRecord, assignment: Assignment) -> None:
        if assignment.complete:
            return
        for rank in range(assignment.pods):
            name = f"{record.key.name}-{assignment.replica}-{rank}"
            if name in self.pods:
                continue
            self.pods[name] = PodRecord(
                record.key.namespace,
                name,
                hashlib.sha256(name.encode()).hexdigest()[:8],
                phase=PodPhase.Pending,
                node=None,
                requests=((NVIDIA, assignment.gpus_per_pod),),
                identity=PodIdentity(record.key.uid, assignment.replica, rank, assignment.revision),
                gated=True,
                queued=assignment.handover is not None,
                created=self.now,
                pair=record.spec.pair if record.spec is not None else "",
            )

    def _pods_of(self, name: str) -> list[PodRecord]:
        uid = self.pools[name].key.uid
        return [pod for pod in self.pods.values() if pod.identity and pod.identity.pool_uid == uid]

    def _assignment(self, pod: PodRecord) -> Assignment | None:
        assert pod.identity is not None
        record = next((each for each in self.pools.values() if each.key.uid == pod.identity.pool_uid), None)
        assignments = record.status.assignments if record else ()
        return next((each for each in assignments if each.replica == pod.identity.replica), None)

    def _is_assigned(self, pod: PodRecord) -> bool:
        return self._assignment(pod) is not None

    def _is_complete(self, pod: PodRecord) -> bool:
        assignment = self._assignment(pod)
        return assignment is not None and assignment.complete

    def _has_room(self, pod: PodRecord) -> bool:
        """Whether every node of the pod's replica has GPUs for it beside others that are or shall be there."""
        assignment = self._assignment(pod)
        assert assignment is not None
        others = [each for each in self.pods.values() if not _are_of_one_replica(each, pod)]
        needed = assignment.gpus_per_pod
        return all(self._taken(node, others) + needed <= self._offered(node) for node in assignment.nodes)

    def _fits(self, pod: PodRecord) -> bool:
        """Whether bound pods leave its node GPUs for it: no scheduler binds more than there are, whoever picked it."""
        node, bound = self._node_of(pod), [each for each in self.pods.values() if each.node is not None]
        return self._taken(node, [*bound, replace(pod, node=node)]) <= self._offered(node)

    def _taken(self, node: str, pods: Iterable[PodRecord]) -> int:
        """GPUs of those pods that are bound to a node, or released for it."""
        there = [each for each in pods if each.phase in {PodPhase.Pending, PodPhase.Running}]
        places = [(self._place_of(each), sum(count for _, count in each.requests)) for each in there]
        return sum(count for place, count in places if place == node)

    def _place_of(self, pod: PodRecord) -> str | None:
        released = pod.identity is not None and not pod.gated and not pod.queued and self._is_assigned(pod)
        return pod.node or (self._node_of(pod) if released else None)

    def _offered(self, node: str) -> int:
        return sum(count for each in self.nodes if each.name == node for _, count in each.allocatable)

    def _node_of(self, pod: PodRecord) -> str:
        assignment = self._assignment(pod)
        assert assignment is not None
        assert pod.identity is not None
        return (self._places(pod) or assignment.nodes)[pod.identity.rank]

    def _places(self, pod: PodRecord) -> tuple[str, ...] | None:
        """The nodes that another scheduler picked for a replica."""
        assert pod.identity is not None
        name = next(each.key.name for each in self.pools.values() if each.key.uid == pod.identity.pool_uid)
        return self.admitted.get((name, pod.identity.replica))


def _are_of_one_replica(one: PodRecord, other: PodRecord) -> bool:
    if one.identity is None or other.identity is None:
        return False
    return (one.identity.pool_uid, one.identity.replica) == (other.identity.pool_uid, other.identity.replica)
