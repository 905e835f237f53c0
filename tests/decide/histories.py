"""What may happen to a cluster, as strategies: random edits, failures, node losses and metrics, in any order."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.decide.test_splits import split
from tests.decide.world import World, expert_spec, external, of_kueue, pool, pool_spec
from tests.fabric.cluster import board, busy, nvlink_domain, rack
from tests.scaling.test_properties import observations
from weft.domain.cluster import ContainerFailure, PodPhase
from weft.domain.moves import MoveBudget
from weft.domain.queueing import Queueing, QueueRecord
from weft.domain.reports import ComputeDomainReport, DomainMember
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.snapshot import PoolObservation
from weft.domain.spec import PoolSpec, RolloutSpec, ShapePins
from weft.domain.workload import Role, Slo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.cluster import PodRecord
    from weft.domain.status import Assignment

NODES = [*rack("a.1", 5), *rack("b.1", 3), board("b-0"), board("b-1"), board("b-2")]
SINGLE = ("chat", "moe", "search")
GPUS = {node.name: node.allocatable[0][1] for node in NODES}
DOMAINS = {node.name: nvlink_domain(node) for node in NODES}
NAMES = (*SINGLE, "pd-prefill", "pd-decode")
NO_SURGE = RolloutSpec(max_surge=0, max_unavailable=1)
ROLLOUTS = (RolloutSpec(), NO_SURGE, RolloutSpec(max_surge=2, max_unavailable=0.5))

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
    """Somebody's job gets as many GPUs of a node as it asks for, or all that pods leave it."""
    world.pods.pop(f"job-{name}", None)
    left = GPUS[name] - held_gpus(world.pods.values())[name]
    if left > 0:
        world.pods[f"job-{name}"] = busy(f"job-{name}", name, min(gpus, left))


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


def held_gpus(pods: Iterable[PodRecord]) -> Counter[str]:
    """GPUs by node of every pod that is bound and has not ended."""
    held: Counter[str] = Counter()
    for pod in pods:
        if pod.node is not None and pod.phase in {PodPhase.Pending, PodPhase.Running}:
            held[pod.node] += sum(count for _, count in pod.requests)
    return held


def fresh(world: World, before: set[tuple[str, int]]) -> list[tuple[str, Assignment]]:
    """Assignments of this pass."""
    every = [(name, each) for name in NAMES for each in world.status(name).assignments]
    return [(name, each) for name, each in every if (name, each.replica) not in before]
