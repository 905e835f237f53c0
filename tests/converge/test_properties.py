"""Whatever pods exist, converging stays within what is ours and comes to rest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.converge.world import World
from tests.fabric.cluster import board, tray
from tests.render.pools import changed, plan, pool, shape, spec
from weft.catalog import load
from weft.converge import Heard, converge_pool
from weft.domain.action import Action, ApplyObject, CreatePod, DeletePod, ReleasePods, UnroutePod
from weft.domain.cluster import PodIdentity, PodPhase, PodRecord
from weft.fabric import build_fabric
from weft.render import pod_name

CREATED = pool(spec(), plan(shape(8, pipeline_parallel=2, gpus_per_pod=8)), ("node-a", "node-b"), ("node-c", "node-d"))
FIRST, SECOND = CREATED.status.assignments
POOL = changed(CREATED, assignments=(replace(FIRST, complete=True), SECOND))
NODES = tuple(board(f"node-{letter}") for letter in "abcd")


@st.composite
def pods(draw: st.DrawFn) -> PodRecord:
    """A pod of this pool or of another, in any state, plausible or not."""
    replica, rank = draw(st.integers(2, 5)), draw(st.integers(0, 1))
    ours = draw(st.booleans())
    gated = draw(st.booleans())
    phase = PodPhase.Pending if gated else draw(st.sampled_from(PodPhase))
    owner = POOL.key.uid if ours else "somebody"
    return PodRecord(
        POOL.key.namespace,
        pod_name(POOL.key, replica, rank) if ours else f"other-{replica}-{rank}",
        f"{owner}-{replica}-{rank}",
        phase=phase,
        node=None if gated else draw(st.sampled_from([None, "node-a", "node-b", "node-c", "node-d"])),
        requests=(("nvidia.com/gpu", 8),),
        identity=PodIdentity(owner, replica, rank, POOL.status.revision),
        gated=gated,
        ready=phase is PodPhase.Running and draw(st.booleans()),
        routed=rank == 0 and draw(st.booleans()),
        terminating=draw(st.booleans()),
    )


clusters = st.lists(pods(), max_size=8, unique_by=lambda pod: pod.uid).map(tuple)
BEHIND_GATES = tuple(
    PodRecord(
        POOL.key.namespace,
        pod_name(POOL.key, FIRST.replica, rank),
        f"{POOL.key.uid}-{FIRST.replica}-{rank}",
        phase=PodPhase.Pending,
        node=None,
        requests=(("nvidia.com/gpu", 8),),
        identity=PodIdentity(POOL.key.uid, FIRST.replica, rank, POOL.status.revision),
        gated=True,
    )
    for rank in (0, 1)
)
# Of any pods hardly ever two are a replica that may be released.
nearly_whole = clusters.map(lambda found: tuple({pod.uid: pod for pod in (*BEHIND_GATES, *found)}.values()))


def actions_for(found: tuple[PodRecord, ...]) -> tuple[Action, ...]:
    return converge_pool(POOL, build_fabric(NODES, found, load()), found, (), Heard(0.0)).actions


def touched(actions: tuple[Action, ...]) -> set[str]:
    """UIDs of pods that are changed or deleted."""
    single = {action.uid for action in actions if isinstance(action, UnroutePod | DeletePod)}
    return single | {uid for action in actions if isinstance(action, ReleasePods) for _, uid in action.pods}


@given(clusters)
def test_no_pod_of_another_owner_is_touched(found: tuple[PodRecord, ...]) -> None:
    """S3."""
    foreign = {pod.uid for pod in found if pod.identity and pod.identity.pool_uid != POOL.key.uid}
    assert touched(actions_for(found)).isdisjoint(foreign)


@given(clusters)
def test_no_pod_that_is_being_deleted_is_touched(found: tuple[PodRecord, ...]) -> None:
    """S10."""
    assert touched(actions_for(found)).isdisjoint({pod.uid for pod in found if pod.terminating})


@given(clusters)
def test_no_pod_of_an_assigned_replica_is_deleted(found: tuple[PodRecord, ...]) -> None:
    """S1: only deciding lets a replica go."""
    assigned = {assignment.replica for assignment in POOL.status.assignments}
    kept = {pod.uid for pod in found if pod.identity and pod.identity.replica in assigned}
    assert not kept & {action.uid for action in actions_for(found) if isinstance(action, DeletePod)}


@given(clusters)
def test_no_pod_is_created_twice_or_without_assignment(found: tuple[PodRecord, ...]) -> None:
    created = [action.body["metadata"]["name"] for action in actions_for(found) if isinstance(action, CreatePod)]
    wanted = {pod_name(POOL.key, replica, rank) for replica in (3, 4) for rank in (0, 1)}
    assert len(created) == len(set(created))
    assert set(created) <= wanted - {pod.name for pod in found}


@given(clusters)
def test_no_pod_is_created_for_a_replica_that_was_complete(found: tuple[PodRecord, ...]) -> None:
    """Ids are never reused, whatever is left of the replica."""
    made = {action.body["metadata"]["name"] for action in actions_for(found) if isinstance(action, CreatePod)}
    assert made.isdisjoint({pod_name(POOL.key, FIRST.replica, rank) for rank in (0, 1)})


@given(clusters)
def test_a_worker_is_deleted_only_when_its_leader_can_serve_no_more(found: tuple[PodRecord, ...]) -> None:
    deleted = {action.uid for action in actions_for(found) if isinstance(action, DeletePod)}
    for pod in found:
        if pod.uid not in deleted or pod.identity is None or pod.identity.rank == 0:
            continue
        mates = [other for other in found if other.identity and other.identity.replica == pod.identity.replica]
        ours = [other for other in mates if other.identity and other.identity.pool_uid == POOL.key.uid]
        leaders = [other for other in ours if other.identity and other.identity.rank == 0]
        started = any(not other.gated for other in ours)
        assert all(not started or leader.phase in {PodPhase.Failed, PodPhase.Succeeded} for leader in leaders)


def test_gates_fall_once_a_replica_is_whole() -> None:
    """Else the next one would hold for an operator that releases nobody."""
    assert [2] == [len(each.pods) for each in actions_for(BEHIND_GATES) if isinstance(each, ReleasePods)]


def test_what_is_left_of_a_replica_is_neither_released_nor_completed() -> None:
    """Half a replica would run, or one that lost a pod would be mended."""
    assert not [action for action in actions_for(BEHIND_GATES[:1]) if isinstance(action, ReleasePods)]
    runs = replace(
        BEHIND_GATES[0],
        name=pod_name(POOL.key, SECOND.replica, 0),
        identity=PodIdentity(POOL.key.uid, SECOND.replica, 0, POOL.status.revision),
        phase=PodPhase.Running,
        node="node-c",
        gated=False,
    )
    made = {action.body["metadata"]["name"] for action in actions_for((runs,)) if isinstance(action, CreatePod)}
    assert pod_name(POOL.key, SECOND.replica, 1) not in made


@pytest.mark.parametrize(("cliques", "released"), [(("a.1", "a.1"), 1), (("a.1", "b.1"), 0)], ids=["one", "two"])
def test_gates_stay_where_labels_say_by_now_that_a_group_spans_domains(cliques: tuple[str, str], released: int) -> None:
    """S9: deciding saw the trays in one rack, and the status still has them."""
    nodes = [tray(f"tray-{index}", clique) for index, clique in enumerate(cliques)]
    spread = pool(spec(), plan(shape(8, "GB200", gpus_per_pod=4)), ("tray-0", "tray-1"))
    world = World(*nodes)
    world.carry_out(*world.look(spread).actions)
    assert len(world.pods) == 2
    assert released == sum(isinstance(action, ReleasePods) for action in world.look(spread).actions)


@given(nearly_whole)
def test_gates_fall_for_whole_replicas_only(found: tuple[PodRecord, ...]) -> None:
    for action in actions_for(found):
        if isinstance(action, ReleasePods):
            released = {uid for _, uid in action.pods}
            numbers = {pod.identity.replica for pod in found if pod.uid in released and pod.identity}
            assert len(numbers) == 1
            assert numbers == {FIRST.replica}, "nothing is released before the status says that it was complete"
            mates = [
                p for p in found if p.identity and p.identity.pool_uid == POOL.key.uid and p.identity.replica in numbers
            ]
            assert len(mates) == 2


@settings(max_examples=50)
@given(clusters, st.floats(0, 1e10))
def test_an_answer_depends_on_nothing_but_its_arguments(found: tuple[PodRecord, ...], now: float) -> None:
    fabric = build_fabric(NODES, found, load())
    assert converge_pool(POOL, fabric, found, (), Heard(now)) == converge_pool(
        POOL, fabric, found[::-1], (), Heard(now)
    )


@given(clusters)
def test_a_pool_without_a_readable_spec_gets_nothing_new(found: tuple[PodRecord, ...]) -> None:
    """F9: what runs stays, what has no assignment still drains."""
    unread = replace(changed(POOL), spec=None)
    actions = converge_pool(unread, build_fabric(NODES, found, load()), found, (), Heard(0.0)).actions
    assert not [action for action in actions if isinstance(action, CreatePod | ApplyObject)]
