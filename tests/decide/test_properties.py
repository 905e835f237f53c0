"""Rules that hold over any history: random edits, failures, node losses and metrics, one pass after the other."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decide.test_splits import split
from tests.decide.world import World, expert_spec, external, of_kueue, pool, pool_spec
from tests.fabric.cluster import board, busy, nvlink_domain, rack
from tests.placement.cases import stages_apart
from tests.scaling.test_properties import observations
from weft.catalog import load
from weft.decide import decide
from weft.decide.rollout import limits_of
from weft.domain.cluster import ContainerFailure, PodPhase
from weft.domain.moves import MoveBudget
from weft.domain.queueing import Queueing, QueueRecord
from weft.domain.reports import ComputeDomainReport, DomainMember
from weft.domain.snapshot import PoolObservation
from weft.domain.spec import PoolSpec, RolloutSpec, ScalingSpec, ShapePins

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.cluster import PodRecord
    from weft.domain.decision import Decisions
    from weft.domain.shape import Plan
    from weft.domain.snapshot import Snapshot
    from weft.domain.status import Assignment
from weft.domain.workload import Role, Slo

NODES = [*rack("a.1", 5), *rack("b.1", 3), board("b-0"), board("b-1"), board("b-2")]
SINGLE = ("chat", "moe", "search")
GPUS = {node.name: node.allocatable[0][1] for node in NODES}
DOMAINS = {node.name: nvlink_domain(node) for node in NODES}
NAMES = (*SINGLE, "pd-prefill", "pd-decode")
ROLLOUTS = (RolloutSpec(), RolloutSpec(max_surge=0, max_unavailable=1), RolloutSpec(max_surge=2, max_unavailable=0.5))

autos = st.builds(
    ScalingSpec,
    min_replicas=st.integers(1, 2),
    max_replicas=st.integers(2, 5),
    max_gpus=st.one_of(st.none(), st.integers(1, 24)),
    max_step=st.one_of(st.none(), st.just(1)),
    scale_down_delay_seconds=st.sampled_from([1.0, 20.0]),
)
scalings = st.one_of(autos, st.integers(1, 4).map(external))
dense = st.builds(
    pool_spec,
    tp=st.sampled_from([1, 4, 8]),
    scaling=scalings,
    accelerator=st.sampled_from(["H200", "GB200"]),
    rollout=st.sampled_from(ROLLOUTS),
)


def mixtures(accelerator: str, *sizes: tuple[int, int]) -> st.SearchStrategy[PoolSpec]:
    """Pools of a mixture of experts, by tensor and data parallel size."""
    pools = st.sampled_from([expert_spec(tp, dp, accelerator=accelerator) for tp, dp in sizes])
    return st.builds(replace, pools, scaling=scalings, rollout=st.sampled_from(ROLLOUTS))


boards, racks = mixtures("H200", (1, 8), (4, 2)), mixtures("GB200", (1, 8), (2, 8))


def left_open(spec: PoolSpec, rate: float) -> PoolSpec:
    """A pool whose shape is Weft's to choose, by the rate and by the holes that there are."""
    load = replace(spec.workload, requests_per_second=rate)
    return replace(spec, shape=ShapePins(), workload=load, slo=Slo(tpot=((95, 0.05),)))


opened = st.builds(left_open, dense, st.sampled_from([1.0, 100.0]))
pinned = st.one_of(dense, boards, racks)
specs = st.one_of(pinned, opened, pinned.map(of_kueue))
KUEUE = Queueing(installed=True, queues=(QueueRecord("team", "llm"),), topologies=(("nvidia.com/gpu.clique",),))
actions = st.one_of(
    st.tuples(st.just("edit"), st.sampled_from(SINGLE), specs),
    st.tuples(st.just("restart"), st.sampled_from(NAMES), st.integers(0, 3)),
    st.tuples(st.just("metrics"), st.sampled_from(NAMES), observations),
    st.tuples(st.just("serve"), st.sampled_from(NAMES), st.tuples(st.floats(0.01, 3.0), st.floats(0.001, 0.2))),
    st.tuples(st.just("fail"), st.integers(0, 20), st.booleans()),
    st.tuples(st.just("node"), st.sampled_from([node.name for node in NODES]), st.booleans()),
    st.tuples(st.just("foreign"), st.sampled_from([node.name for node in NODES]), st.integers(1, 8)),
    st.tuples(st.just("evict"), st.sampled_from(SINGLE), st.none()),
    st.tuples(st.just("queues"), st.booleans(), st.none()),
    st.tuples(st.just("driver"), st.booleans(), st.none()),
    st.tuples(st.just("domain"), st.sampled_from([node.name for node in NODES]), st.booleans()),
    st.tuples(st.just("undo"), st.integers(0, 5), st.none()),
    st.tuples(st.just("wait"), st.integers(1, 4), st.sampled_from([5.0, 70.0])),
)
histories = st.lists(actions, max_size=10)
Action = tuple[str, Any, Any]


def act(world: World, action: Action) -> None:
    """One thing that happens to the cluster."""
    what, first, second = action
    ACTS[what](world, first, second)


def _edit(world: World, name: Any, spec: Any) -> None:  # noqa: ANN401 - values of one action
    world.edit(name, spec)


def _restart(world: World, name: Any, value: Any) -> None:  # noqa: ANN401 - as above
    spec = world.pools[name].spec
    assert spec is not None
    world.edit(name, replace(spec, engine=replace(spec.engine, env=(("VERSION", str(value)),))))


def _metrics(world: World, name: Any, seen: Any) -> None:  # noqa: ANN401 - as above
    world.observations.pop(f"uid-{name}", None)
    if seen is not None:
        world.observations[f"uid-{name}"] = seen


def _serve(world: World, name: Any, means: Any) -> None:  # noqa: ANN401 - as above
    """Minutes of whole metrics, so that the pool is measured."""
    for _ in range(4):
        replicas = world.serving(name)
        world.observations[f"uid-{name}"] = PoolObservation(
            expected=replicas,
            answered=replicas,
            age_seconds=5.0,
            requests_per_second=0.5 * replicas,
            input_tokens=1000.0,
            output_tokens=200.0,
            prefix_hit=0.0,
            waiting=0.0,
            running=4.0,
            kv_usage=0.1,
            ttft_mean=means[0],
            tpot_mean=means[1],
        )
        world.turn(1, 55.0)


def _node(world: World, name: Any, ready: Any) -> None:  # noqa: ANN401 - as above
    world.nodes = [replace(node, ready=ready) if node.name == name else node for node in world.nodes]


def _foreign(world: World, name: Any, gpus: Any) -> None:  # noqa: ANN401 - as above
    world.pods[f"job-{name}"] = busy(f"job-{name}", name, gpus)


def _wait(world: World, turns: Any, seconds: Any) -> None:  # noqa: ANN401 - as above
    for _ in range(turns):
        _admit(world)
        world.turn(1, seconds)


def _evict(world: World, name: Any, _: Any) -> None:  # noqa: ANN401 - as above
    """Kueue takes the first of a pool's replicas that it admitted."""
    for each in world.status(name).assignments:
        pod = world.pods.get(f"{name}-{each.replica}-0")
        if world.admitted.pop((name, each.replica), None) and pod is not None:
            stopped = ("WorkloadEvictedDueToPreempted", "for another")
            world.pods[pod.name] = replace(pod, terminating=True, ready=False, stopped=stopped)
            return


def _admit(world: World) -> None:
    """Kueue admits whoever waits to nodes that no pod holds, whatever Weft promised of them."""
    for name in SINGLE:
        waiting = [each for each in world.status(name).assignments if each.handover is not None]
        for each in waiting:
            if (name, each.replica) not in world.admitted and (nodes := _roomy(world, each)):
                world.admitted[name, each.replica] = nodes


def _roomy(world: World, assignment: Assignment) -> tuple[str, ...]:
    assert assignment.handover is not None
    assert assignment.handover.product is not None
    key, values = assignment.handover.product
    held = held_gpus(world.snapshot().pods)
    for domain in sorted(set(DOMAINS.values())):
        free = [
            node.name
            for node in NODES
            if DOMAINS[node.name] == domain
            and node.label(key) in values
            and GPUS[node.name] - held[node.name] >= assignment.gpus_per_pod
        ]
        if len(free) >= assignment.pods:
            return tuple(free[: assignment.pods])
    return ()


def _queues(world: World, there: Any, _: Any) -> None:  # noqa: ANN401 - as above
    """Kueue is installed, or taken away."""
    world.queueing = KUEUE if there else Queueing()


def _driver(world: World, there: Any, _: Any) -> None:  # noqa: ANN401 - as above
    """The driver that forms ComputeDomains is installed, or nobody can list them any more."""
    world.driver = there


def _domain(world: World, name: Any, there: Any) -> None:  # noqa: ANN401 - as above
    """Somebody's ComputeDomain takes a node, or leaves all of them."""
    members = (DomainMember(name, "", ready=True),)
    world.theirs = (ComputeDomainReport("other", "theirs", members, "uid-theirs"),) if there else ()


def _undo(world: World, index: Any, _: Any) -> None:  # noqa: ANN401 - as above
    """Somebody deletes a ComputeDomain of ours."""
    if world.domains:
        del world.domains[sorted(world.domains)[index % len(world.domains)]]


def _fail(world: World, index: Any, deleted: Any) -> None:  # noqa: ANN401 - as above
    ours = [pod for pod in world.pods.values() if pod.identity is not None and pod.phase is PodPhase.Running]
    if not ours:
        return
    pod = ours[index % len(ours)]
    if deleted:
        world.pods[pod.name] = replace(pod, terminating=True)
    else:
        world.end(pod.name, ContainerFailure("Error", "RuntimeError: no", 1))


ACTS = {
    "edit": _edit,
    "restart": _restart,
    "metrics": _metrics,
    "serve": _serve,
    "fail": _fail,
    "node": _node,
    "evict": _evict,
    "queues": _queues,
    "driver": _driver,
    "domain": _domain,
    "undo": _undo,
    "foreign": _foreign,
    "wait": _wait,
}


def world_of(first: list[PoolSpec]) -> World:
    """Three pools of their own and a pair, whose halves are never of different generations; replicas may be moved."""
    world = World.of(NODES, *(pool(name, spec) for name, spec in zip(SINGLE, first, strict=False)))
    world.budget = MoveBudget(per_hour=20, per_decision=3)
    prefill = replace(first[3], role=Role.Prefill, placement=first[4].placement)
    decode = replace(first[4], role=Role.Decode)
    world.queueing = KUEUE
    world.splits["pd"] = split(prefill, decode)
    world.pools["pd-prefill"] = pool("pd-prefill", prefill, split_uid="uid-pd")
    world.pools["pd-decode"] = pool("pd-decode", decode, split_uid="uid-pd")
    return world


halves = [st.lists(kind, min_size=2, max_size=2) for kind in (dense, boards, racks, opened)]  # a pair is of one model
starts = st.builds(list.__add__, st.lists(specs, min_size=3, max_size=3), st.one_of(halves))


def without_events(decisions: Decisions) -> Decisions:
    return replace(decisions, pools=tuple(replace(each, events=()) for each in decisions.pools))


@settings(max_examples=40, deadline=None)
@given(first=starts, history=histories)
def test_no_gpu_is_promised_twice_and_no_group_leaves_its_domain(first: list[PoolSpec], history: list[Action]) -> None:
    """S2 and S9, counted GPU by GPU from the nodes, the pods and the assignments alone.

    What a pool's own leaving pods hold may be promised once more, to that pool alone.
    """
    world = world_of(first)
    for action in (("wait", 2, 5.0), *history, ("wait", 2, 5.0)):
        act(world, action)
        before = {(name, each.replica) for name in NAMES for each in world.status(name).assignments}
        snapshot = world.snapshot()
        world.decide()
        promised = held_gpus(snapshot.pods)
        for name in NAMES:
            ours: Counter[str] = Counter()
            for each in world.status(name).assignments:
                for rank in set(range(len(each.nodes))) - bound_ranks(snapshot, name, each.replica):
                    ours[each.nodes[rank]] += each.gpus_per_pod
            promised += ours - held_gpus(leaving_pods(snapshot, name, world.status(name).assignments))
        for name, each in fresh(world, before):
            plan = world.status(name).plan
            assert plan is not None
            if each.handover is None:
                assert stages_apart(plan.shape, each.nodes, DOMAINS) == []
            elif each.pods > 1:
                assert each.handover.level
            assert all(promised[node] <= GPUS[node] for node in each.nodes)


def leaving_pods(snapshot: Snapshot, name: str, assignments: Iterable[Assignment]) -> list[PodRecord]:
    """Pods of a pool whose replica has no assignment any more."""
    staying = {each.replica for each in assignments}
    ours = [pod for pod in snapshot.pods if pod.identity and pod.identity.pool_uid == f"uid-{name}"]
    return [pod for pod in ours if pod.identity and pod.identity.replica not in staying]


def held_gpus(pods: Iterable[PodRecord]) -> Counter[str]:
    """GPUs by node of every pod that is bound and has not ended."""
    held: Counter[str] = Counter()
    for pod in pods:
        if pod.node is not None and pod.phase in {PodPhase.Pending, PodPhase.Running}:
            held[pod.node] += sum(count for _, count in pod.requests)
    return held


def bound_ranks(snapshot: Snapshot, name: str, replica: int) -> set[int]:
    """Ranks whose devices the fabric counts as used."""
    ours = [pod for pod in snapshot.pods if pod.identity and pod.identity.pool_uid == f"uid-{name}" and pod.node]
    return {pod.identity.rank for pod in ours if pod.identity and pod.identity.replica == replica}


def fresh(world: World, before: set[tuple[str, int]]) -> list[tuple[str, Assignment]]:
    """Assignments of this pass."""
    every = [(name, each) for name in NAMES for each in world.status(name).assignments]
    return [(name, each) for name, each in every if (name, each.replica) not in before]


@settings(max_examples=40, deadline=None)
@given(first=starts, history=histories, seed=st.integers(0, 1000))
def test_deciding_is_deterministic_whatever_the_order_of_listing(
    first: list[PoolSpec], history: list[Action], seed: int
) -> None:
    world = world_of(first)
    for action in (("wait", 1, 5.0), *history):
        act(world, action)
    snapshot = world.snapshot()
    expected = decide(snapshot, load())
    assert decide(snapshot, load()) == expected
    shuffle = Random(seed)
    pools, nodes, pods = list(snapshot.pools), list(snapshot.nodes), list(snapshot.pods)
    shuffle.shuffle(pools)
    shuffle.shuffle(nodes)
    shuffle.shuffle(pods)
    shuffled = replace(snapshot, pools=tuple(pools), nodes=tuple(nodes), pods=tuple(pods))
    assert decide(shuffled, load()) == expected


@settings(max_examples=40, deadline=None)
@given(first=starts, history=histories)
def test_a_second_pass_on_its_own_result_changes_nothing(first: list[PoolSpec], history: list[Action]) -> None:
    """L1 and L3: status, conditions, memory and waking stay, and nothing happens that deserves an event."""
    world = world_of(first)
    for action in (*history, ("wait", 1, 5.0)):
        act(world, action)
        first_pass = world.decide()
        second_pass = world.decide()
        assert second_pass == without_events(first_pass)


@settings(max_examples=40, deadline=None)
@given(first=starts, history=histories)
def test_counts_and_serving_replicas_stay_within_their_bounds(first: list[PoolSpec], history: list[Action]) -> None:
    """S4 for any metrics; S1: only failures may take the serving count below desired minus maxUnavailable."""
    world = world_of(first)
    for action in (("wait", 4, 5.0), *history, ("wait", 3, 5.0)):
        act(world, action)
        serving = {name: _healthy(world, name) for name in NAMES}
        world.decide()
        for name in NAMES:
            spec, status = world.pools[name].spec, world.status(name)
            assert spec is not None
            assert _fewest(spec, status.plan) <= status.desired_replicas <= spec.scaling.max_replicas
            least = status.desired_replicas - limits_of(spec.rollout, status.desired_replicas).unavailable
            kept = {each.replica for each in status.assignments}
            assert len(serving[name] & kept) >= min(least, len(serving[name]))
            surge = limits_of(spec.rollout, status.desired_replicas).surge
            assert len(status.assignments) <= max(status.desired_replicas + surge, len(serving[name]))


def _fewest(spec: PoolSpec, plan: Plan | None) -> int:
    """`minReplicas`, or what `maxGPUs` pays for."""
    if spec.scaling.max_gpus is None or plan is None:
        return spec.scaling.min_replicas
    return min(spec.scaling.min_replicas, spec.scaling.max_gpus // plan.shape.gpus)


def _healthy(world: World, name: str) -> set[int]:
    """Replicas that serve and that nothing takes away: all pods ready on nodes that answer."""
    silent = {node.name for node in world.nodes if not node.ready}
    found = set()
    for each in world.status(name).assignments:
        pods = [pod for pod in world.pods.values() if pod.identity and pod.identity.pool_uid == f"uid-{name}"]
        mine = [pod for pod in pods if pod.identity and pod.identity.replica == each.replica]
        whole = len(mine) == each.pods and not silent & {pod.node for pod in mine}
        if whole and all(pod.ready and not pod.terminating and pod.failure is None for pod in mine):
            found.add(each.replica)
    return found
