"""Pods match assignments: created gated, released together, drained in order, never mended."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.converge.world import World
from tests.fabric.cluster import board, busy
from tests.render.pools import changed, plan, pool, shape, spec
from weft.converge import Heard, converge_pool
from weft.converge.draining import IDLE_GRACE_SECONDS
from weft.converge.starting import PODS_AT_A_TIME
from weft.domain import labels
from weft.domain.action import ApplyObject, CreatePod, DeletePod, ReleasePods, UnroutePod
from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import EngineName
from weft.domain.spec import EngineSpec
from weft.render import pod_name, revision

if TYPE_CHECKING:
    from weft.domain.shape import Plan
    from weft.domain.snapshot import PoolRecord

TWO_PODS = plan(shape(8, pipeline_parallel=2, gpus_per_pod=8))


def one_pod() -> PoolRecord:
    return pool(spec(), plan(shape(8)), ("node-a",))


def two_pods() -> PoolRecord:
    return pool(spec(), TWO_PODS, ("node-a", "node-b"))


def names(world: World) -> list[str]:
    return sorted(world.pods)


def started(record: PoolRecord) -> World:
    world = World()
    world.settle(record)
    return world


@pytest.mark.parametrize("record", [one_pod(), two_pods()], ids=["one pod", "two pods"])
def test_a_converged_pool_wants_nothing(record: PoolRecord) -> None:
    """L3: a steady state writes nothing."""
    world = started(record)
    assert world.look(record).actions == ()
    assert world.look(record).progress.ready_replicas == 1


def test_pods_are_created_gated_and_released_only_together() -> None:
    record, world = two_pods(), World()
    first = world.look(record).actions
    assert [type(action) for action in first if not isinstance(action, ApplyObject)] == [CreatePod, CreatePod]
    world.carry_out(*first)
    assert all(body["spec"]["schedulingGates"] for body in world.pods.values())
    (release,) = world.look(record).actions
    assert isinstance(release, ReleasePods)
    assert [name for name, _ in release.pods] == [pod_name(record.key, 3, 0), pod_name(record.key, 3, 1)]


def test_half_a_replica_is_completed_before_it_is_released() -> None:
    record, world = two_pods(), World()
    world.carry_out(*world.look(record).actions)
    del world.pods[pod_name(record.key, 3, 1)]
    assert [type(action) for action in world.look(record).actions] == [CreatePod]


def test_services_exist_before_pods_need_their_names() -> None:
    kinds = [type(action) for action in World().look(two_pods()).actions]
    assert kinds.index(CreatePod) > max(at for at, kind in enumerate(kinds) if kind is ApplyObject)


def test_many_replicas_are_created_some_at_a_time_and_never_a_part_of_one() -> None:
    """So that the first are released while the others are still being written."""
    record, world = pool(spec(), TWO_PODS, *(("node-a", "node-b") for _ in range(PODS_AT_A_TIME))), World()
    sizes = []
    while created := [action for action in world.look(record).actions if isinstance(action, CreatePod)]:
        sizes.append(len(created))
        world.carry_out(*created)
    assert [PODS_AT_A_TIME, PODS_AT_A_TIME] == sizes


def test_a_replica_of_more_pods_than_go_at_a_time_is_created_at_once() -> None:
    nodes = tuple(f"node-{rank}" for rank in range(PODS_AT_A_TIME + 1))
    record = pool(spec(), plan(shape(8 * len(nodes), gpus_per_pod=8)), nodes, nodes)
    created = [action for action in World().look(record).actions if isinstance(action, CreatePod)]
    assert len(nodes) == len(created)


def test_what_is_whole_is_released_before_more_is_created() -> None:
    """The longer it waits for its release, the longer others may take its place."""
    record, world = pool(spec(), TWO_PODS, ("node-a", "node-b"), ("node-c", "node-d")), World()
    world.carry_out(*(action for action in world.look(record).actions[:-2]))
    actions = world.look(record).actions
    assert [ReleasePods, CreatePod, CreatePod] == [type(action) for action in actions]


def test_a_slot_that_somebody_took_is_not_released_into() -> None:
    record, world = two_pods(), World()
    world.carry_out(*world.look(record).actions)
    taken = (*world.pod_records(), busy("thief", "node-b", 1))
    world.pod_records = lambda: taken  # type: ignore[method-assign]
    assert world.look(record).actions == ()


def test_two_replicas_are_not_released_into_one_slot() -> None:
    """S2, also when a node shrank after both were assigned."""
    record = pool(spec(), plan(shape(8)), ("node-a",), ("node-a",))
    world = World()
    world.carry_out(*world.look(record).actions)
    releases = [action for action in world.look(record).actions if isinstance(action, ReleasePods)]
    assert len(releases) == 1
    world.carry_out(*releases)
    assert world.look(record).actions == ()  # released, not bound yet: its GPUs are spoken for


def test_a_release_that_stopped_half_way_is_finished() -> None:
    record, world = two_pods(), World()
    world.carry_out(*world.look(record).actions)
    (release,) = world.look(record).actions
    assert isinstance(release, ReleasePods)
    world.carry_out(replace(release, pods=release.pods[:1]))
    world.run()
    (rest,) = world.look(record).actions
    assert isinstance(rest, ReleasePods)
    assert rest.pods == release.pods[1:]


def test_a_replica_without_assignment_is_unrouted_then_its_leader_goes_then_the_workers() -> None:
    record = two_pods()
    world = started(record)
    leader, worker = names(world)
    gone = changed(record, assignments=(), desired_replicas=0)
    actions = [action for action in world.look(gone).actions if not isinstance(action, ApplyObject)]
    assert [(type(action), getattr(action, "name", "")) for action in actions] == [
        (UnroutePod, leader),
        (DeletePod, leader),
    ]
    world.carry_out(*actions)
    assert not [action for action in world.look(gone).actions if isinstance(action, DeletePod)]
    world.reap()
    (last,) = (action for action in world.look(gone).actions if isinstance(action, DeletePod))
    assert (last.name, last.grace_seconds) == (worker, IDLE_GRACE_SECONDS)
    world.settle(gone)
    assert world.pods == {}


def test_a_front_that_heeds_deletion_alone_is_told_by_deletion() -> None:
    """sglang-router does not see that a label goes, and looks no more at a pod that lost it."""
    record = pool(spec(), plan(shape(8, engine=EngineName.SGLang)), ("node-a",))
    world = started(record)
    gone = changed(record, assignments=(), desired_replicas=0)
    (deleted,) = (action for action in world.look(gone).actions if not isinstance(action, ApplyObject))
    assert (type(deleted), deleted.name) == (DeletePod, names(world)[0])  # type: ignore[union-attr]
    assert deleted.grace_seconds is None  # type: ignore[union-attr]
    world.settle(gone)
    assert world.pods == {}


def test_a_broken_replica_behind_such_a_front_waits_for_its_assignment_to_go() -> None:
    stages = shape(8, engine=EngineName.SGLang, pipeline_parallel=2, gpus_per_pod=8)
    record = pool(spec(), plan(stages), ("node-a", "node-b"))
    world = started(record)
    world.fail(names(world)[1])
    assert world.look(record).actions == ()
    deletes = [a.name for a in world.look(changed(record, assignments=())).actions if isinstance(a, DeletePod)]
    assert deletes == names(world)[:1]


def test_a_drained_pod_keeps_its_own_grace_period() -> None:
    record = one_pod()
    world = started(record)
    deletes = [a for a in world.look(changed(record, assignments=())).actions if isinstance(a, DeletePod)]
    assert [delete.grace_seconds for delete in deletes] == [None]


def test_pods_that_helped_one_that_ended_are_not_waited_for() -> None:
    """Their own grace period is as long as its requests might have taken."""
    record = two_pods()
    world = started(record)
    world.fail(names(world)[0])
    deletes = [a for a in world.look(changed(record, assignments=())).actions if isinstance(a, DeletePod)]
    assert [each.name for each in deletes] == names(world)
    assert {each.grace_seconds for each in deletes} == {IDLE_GRACE_SECONDS}


def test_a_replica_that_never_started_goes_at_once() -> None:
    record, world = two_pods(), World()
    world.carry_out(*world.look(record).actions)
    deletes = [a for a in world.look(changed(record, assignments=())).actions if isinstance(a, DeletePod)]
    assert len(deletes) == 2


def test_a_dead_rank_takes_its_replica_out_of_routing_and_nothing_is_mended() -> None:
    """The pods stay until deciding has seen how they ended and dropped the assignment."""
    record = two_pods()
    world = started(record)
    leader, worker = names(world)
    world.fail(worker)
    seen = world.look(record)
    assert [(type(action), action.name) for action in seen.actions if isinstance(action, UnroutePod)] == [
        (UnroutePod, leader)
    ]
    assert len(seen.actions) == 1
    assert seen.progress.ready_replicas == 0
    world.carry_out(*seen.actions)
    assert world.look(record).actions == ()


def test_a_worker_whose_leader_ended_goes_with_it() -> None:
    record = two_pods()
    world = started(record)
    world.fail(names(world)[0])
    dropped = changed(record, assignments=())
    deletes = [a.name for a in world.look(dropped).actions if isinstance(a, DeletePod)]
    assert deletes == names(world)


def test_workers_do_not_wait_for_a_leader_whose_node_is_away() -> None:
    """Nobody ends it there, so it stays terminating; its workers would hold their GPUs all the while."""
    record = two_pods()
    world = started(record)
    leader, worker = names(world)
    gone = changed(record, assignments=())
    world.carry_out(*world.look(gone).actions)
    assert not [action for action in world.look(gone).actions if isinstance(action, DeletePod)]
    world.nodes = (replace(board("node-a"), ready=False), board("node-b"))
    assert [a.name for a in world.look(gone).actions if isinstance(a, DeletePod)] == [worker]
    assert "deletionTimestamp" in world.pods[leader]["metadata"]


def test_a_pod_of_a_running_replica_is_never_created_again() -> None:
    record = two_pods()
    world = started(record)
    del world.pods[names(world)[1]]
    assert not [action for action in world.look(record).actions if isinstance(action, CreatePod)]


@pytest.mark.parametrize("record", [one_pod(), two_pods()], ids=["one pod", "two pods"])
def test_nothing_is_created_again_when_every_pod_of_a_replica_vanished(record: PoolRecord) -> None:
    """Its id is used up. Deciding sees the same and replaces it."""
    world = started(record)
    world.pods.clear()
    assert world.look(record).actions == ()


def test_no_gate_falls_before_the_status_says_that_all_pods_were_there() -> None:
    """Or nobody could tell, should the pods vanish right after their release, that they had ever been."""
    record, world = one_pod(), World()
    world.carry_out(*world.look(record).actions)
    unnoted = converge_pool(record, world.fabric(), world.pod_records(), world.object_records(), Heard(2000.0))
    assert unnoted.actions == ()
    assert [type(action) for action in world.look(record).actions] == [ReleasePods]


def test_pods_that_are_being_deleted_are_left_alone() -> None:
    """S10."""
    record = one_pod()
    world = started(record)
    (name,) = names(world)
    world.pods[name]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for seen in (record, changed(record, assignments=())):
        assert [action for action in world.look(seen).actions if not isinstance(action, ApplyObject)] == []


def test_a_pool_that_is_being_deleted_gets_nothing() -> None:
    assert World().look(replace(one_pod(), deleting=True)).actions == ()


def test_pods_of_a_predecessor_of_the_same_name_are_not_ours() -> None:
    """S3, F4: the UID decides, never the name."""
    old = one_pod()
    world = started(old)
    new = replace(old, key=replace(old.key, uid="another"))
    touched = {getattr(action, "name", None) for action in world.look(new).actions}
    assert touched.isdisjoint(world.pods)


def test_a_replica_that_was_assigned_for_another_revision_is_not_created() -> None:
    record = one_pod()
    newer = replace(record, spec=spec(engine=EngineSpec(args=("--enforce-eager",))))
    assert not [action for action in World().look(newer).actions if isinstance(action, CreatePod)]


def rolled(record: PoolRecord, chosen: Plan) -> PoolRecord:
    """The pool after its spec changed and one successor was assigned beside the old replica."""
    wanted = spec(engine=EngineSpec(args=("--enforce-eager",)))
    hashed = revision(wanted, chosen)
    (old,) = record.status.assignments
    new = replace(old, replica=4, revision=hashed, nodes=tuple(f"{node}2" for node in old.nodes))
    return replace(changed(record, assignments=(old, new), revision=hashed), spec=wanted)


SCENARIOS = {
    "create one pod": (None, one_pod()),
    "create two pods": (None, two_pods()),
    "scale to zero": (two_pods(), changed(two_pods(), assignments=(), desired_replicas=0)),
    "surge": (one_pod(), rolled(one_pod(), plan(shape(8)))),
    "end of a rollout": (
        two_pods(),
        changed(rolled(two_pods(), TWO_PODS), assignments=rolled(two_pods(), TWO_PODS).status.assignments[1:]),
    ),
}


def prepared(before: PoolRecord | None) -> World:
    world = World(*(board(name) for name in ("node-a", "node-b", "node-a2", "node-b2")))
    if before is not None:
        world.settle(before)
    return world


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_stopping_after_any_action_changes_nothing_in_the_end(scenario: str) -> None:
    """L5, F1: an operator that dies between any two writes converges to the same end as one that does not."""
    before, after = SCENARIOS[scenario]
    undisturbed = prepared(before)
    total = undisturbed.settle(after)
    for survived in range(total):
        world, left = prepared(before), survived
        while left > 0:
            actions = world.look(after).actions[:left]
            world.carry_out(*actions)
            left -= len(actions)
            if left > 0:
                world.run()
                world.reap()
        world.settle(after)
        assert world.state() == undisturbed.state(), f"stopped after {survived} of {total} actions"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_actions_may_be_repeated(scenario: str) -> None:
    """F2: a stale view asks for what was done already."""
    before, after = SCENARIOS[scenario]
    undisturbed = prepared(before)
    undisturbed.settle(after)
    world = prepared(before)
    for _ in range(12):
        actions = world.look(after).actions
        world.carry_out(*actions, *actions)
        world.run()
        world.reap()
    assert world.state() == undisturbed.state()


def test_names_never_repeat_between_replicas_and_ranks() -> None:
    record = two_pods()
    made = {pod_name(record.key, replica, rank) for replica in range(30) for rank in range(30)}
    assert len(made) == 900
    assert all(name.startswith("chat-") for name in made)


def test_the_selector_finds_the_first_pod_of_each_replica_only() -> None:
    """HPA averages over what it finds."""
    record = two_pods()
    world = started(record)
    wanted = dict(pair.split("=") for pair in world.look(record).progress.selector.split(","))
    found = [body for body in world.pods.values() if wanted.items() <= body["metadata"]["labels"].items()]
    assert [body["metadata"]["labels"][labels.RANK] for body in found] == ["0"]


def ready(record: PoolRecord, world: World) -> str:
    (found,) = [one for one in world.look(record).progress.conditions if one.kind == "Ready"]
    return found.status


def test_the_scheduler_is_quoted_while_a_released_pod_waits() -> None:
    record, world = one_pod(), World()
    for _ in range(2):
        world.carry_out(*world.look(record).actions)
    (body,) = world.pods.values()
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no memory"}
    body["status"]["conditions"] = [refused]
    ready, moving = world.look(record).progress.conditions
    words = f"0 of 1 replicas are ready; pod {pod_name(record.key, 3, 0)} waits for the scheduler: no memory"
    assert ready.explanation == Explanation(Reason.ReplicasStarting, words)
    assert moving.explanation == Explanation(Reason.Scaling, words)


def test_growing_beyond_the_least_makes_no_serving_pool_unready() -> None:
    """One replica serves and a second one is wanted: alerts on Ready stay quiet, Reconciling tells."""
    record = one_pod()
    world = started(record)
    growing = replace(record, status=replace(record.status, desired_replicas=2))
    assert ready(growing, world) == "True"
    assert [one.kind for one in world.look(growing).progress.conditions] == ["Ready", "Reconciling"]
    assert growing.spec is not None
    least = replace(growing, spec=replace(growing.spec, scaling=replace(growing.spec.scaling, min_replicas=2)))
    assert ready(least, world) == "False"
