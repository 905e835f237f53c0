"""Rules that hold over any history: random edits, failures, node losses and metrics, one pass after the other."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.decide.histories import DOMAINS, GPUS, NAMES, NO_SURGE, act, fresh, held_gpus, histories, starts, world_of
from tests.decide.world import expert_spec, external, of_kueue, pool_spec
from tests.placement.cases import stages_apart
from weft.catalog import load
from weft.decide import decide
from weft.decide.counting.worth import share_of
from weft.decide.rollouts.rollout import limits_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.decide.histories import Action
    from tests.decide.world import World
    from weft.domain.cluster import PodRecord
    from weft.domain.decision import Decisions
    from weft.domain.shape import Plan
    from weft.domain.snapshot import Snapshot
    from weft.domain.spec import PoolSpec
    from weft.domain.status import Assignment

PAIR_ON_BOARDS = [expert_spec(1, 8, accelerator="H200")] * 2
QUEUED_BESIDE_PROMISES = [of_kueue(pool_spec(4, external(2))), *[pool_spec(1)] * 2, *PAIR_ON_BOARDS]
ALONE_ON_ITS_BOARD = [pool_spec(8), *[pool_spec(1, accelerator="GB200")] * 2, *PAIR_ON_BOARDS]


def without_events(decisions: Decisions) -> Decisions:
    return replace(decisions, pools=tuple(replace(each, events=()) for each in decisions.pools))


@settings(max_examples=40, deadline=None)
@given(first=starts, history=histories)
@example(first=QUEUED_BESIDE_PROMISES, history=[("wait", 2, 5.0), ("edit", "chat", pool_spec(1))])
@example(
    first=ALONE_ON_ITS_BOARD,
    history=[("wait", 2, 5.0), ("foreign", "b-0", 4), ("edit", "chat", pool_spec(4, rollout=NO_SURGE))],
)
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
        assert promised <= Counter(GPUS)  # or the world is wrong: no scheduler binds more than there are
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


def bound_ranks(snapshot: Snapshot, name: str, replica: int) -> set[int]:
    """Ranks whose devices the fabric counts as used."""
    ours = [pod for pod in snapshot.pods if pod.identity and pod.identity.pool_uid == f"uid-{name}" and pod.node]
    return {pod.identity.rank for pod in ours if pod.identity and pod.identity.replica == replica}


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
            most = max(status.desired_replicas + surge, len(serving[name]))
            assert _whole_ones(status.assignments, status.plan) <= most


def _whole_ones(assignments: Iterable[Assignment], plan: Plan | None) -> int:
    """Smaller ones than planned count by their GPUs (ADR 0071), of which a part of one may be above the limit."""
    return int(sum(1.0 if plan is None else share_of(each, plan) for each in assignments))


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
