"""Pods of a pool that Kueue places: created in one group, let go by both, and gone without Kueue's finalizer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.converge.world import World
from tests.render.pools import changed
from tests.render.shapes import SHAPES
from weft.converge import Heard, converge_pool
from weft.domain import labels
from weft.domain.action import CreatePod, DeletePod, ReleasePods
from weft.domain.reasons import Explanation, Reason
from weft.domain.status import Condition, Failure
from weft.schedulers.kueue import GATES

if TYPE_CHECKING:
    from weft.domain.action import Action
    from weft.domain.snapshot import PoolRecord

Json = dict[str, Any]
TWO_PODS = SHAPES["kueue-one-domain"]


class KueueWorld(World):
    """Kueue lets a group go, once `admits` is set, when all of its pods are there."""

    admits = False

    def run(self) -> None:
        counted = "kueue.x-k8s.io/pod-group-total-count"
        for body in self.pods.values():
            whole = str(len(self.pods)) == body["metadata"]["annotations"][counted]
            if self.admits and whole:
                kept = [gate for gate in body["spec"]["schedulingGates"] if gate["name"] not in GATES]
                body["spec"]["schedulingGates"] = kept
        super().run()

    def node_for(self, body: Json) -> str:
        index = body["metadata"]["labels"]["kueue.x-k8s.io/pod-group-pod-index"]
        return ("node-a", "node-b")[int(index)]


def gates(world: World) -> list[list[str]]:
    return [[gate["name"] for gate in body["spec"]["schedulingGates"]] for body in world.pods.values()]


def waits(record: PoolRecord) -> PoolRecord:
    """The pool as deciding leaves it while Kueue has no quota."""
    said = Explanation(Reason.WaitingForQuota, "1 of 1 replicas wait to be admitted; 8 more needed")
    return replace(record, conditions=(Condition("Placed", "False", said),))


def test_all_pods_come_at_once_and_our_gate_falls_when_they_are_noted() -> None:
    world = KueueWorld()
    world.settle(TWO_PODS)
    assert [list(GATES), list(GATES)] == gates(world)
    assert 0 == world.look(TWO_PODS).progress.ready_replicas


def test_no_pod_runs_before_the_status_notes_that_all_were_there() -> None:
    """No id ever has two generations of pods that may have run (ADR 0004), however fast Kueue is."""
    world = KueueWorld()
    world.admits = True
    world.carry_out(*world.look(TWO_PODS).actions)
    world.run()
    assert [[labels.GATE], [labels.GATE]] == gates(world)
    unnoted = converge_pool(TWO_PODS, world.fabric(), world.pod_records(), world.object_records(), Heard(0.0))
    assert [] == [action for action in unnoted.actions if isinstance(action, ReleasePods)]


def test_a_group_that_kueue_admits_serves_where_kueue_put_it() -> None:
    world = KueueWorld()
    world.admits = True
    world.settle(TWO_PODS)
    assert ["node-a", "node-b"] == [body["spec"]["nodeName"] for body in world.pods.values()]
    assert 1 == world.look(TWO_PODS).progress.ready_replicas


def test_what_a_replica_waits_for_is_said_by_ready_and_reconciling() -> None:
    world = KueueWorld()
    world.settle(TWO_PODS)
    conditions = {each.kind: each for each in world.look(waits(TWO_PODS)).progress.conditions}
    assert Reason.WaitingForQuota is conditions["Ready"].explanation.reason
    assert ("True", Reason.WaitingForQuota) == (
        conditions["Reconciling"].status,
        conditions["Reconciling"].explanation.reason,
    )
    assert "8 more needed" in conditions["Reconciling"].explanation.message
    assert "Stalled" not in conditions


def test_an_eviction_is_not_what_a_replica_waits_for_that_queues_again() -> None:
    evicted = Explanation(Reason.EvictedByScheduler, "replica 2: Kueue took it away")
    status = TWO_PODS.status
    record = changed(waits(TWO_PODS), failure=Failure(status.revision, 1, 1000.0, evicted))
    ready = next(each for each in KueueWorld().look(record).progress.conditions if each.kind == "Ready")
    assert Reason.WaitingForQuota is ready.explanation.reason


def test_a_replica_that_waits_is_taken_back_whole_without_ever_running() -> None:
    world = KueueWorld()
    world.settle(TWO_PODS)
    gone = changed(TWO_PODS, assignments=(), desired_replicas=0)
    world.settle(gone)
    assert {} == world.pods


def test_no_pod_gets_a_finalizer_of_ours_or_asks_kueue_for_one() -> None:
    """L4 and S10: a pod with a suspending parent gets no finalizer from Kueue, so that deletion ends by itself."""
    world = KueueWorld()
    world.settle(TWO_PODS)
    for body in world.pods.values():
        assert "finalizers" not in body["metadata"]
        assert "weft" == body["metadata"]["annotations"]["kueue.x-k8s.io/pod-suspending-parent"]


def steps(world: KueueWorld, record: PoolRecord) -> list[Action]:
    return list(world.look(record).actions)


@pytest.mark.parametrize("written", range(8))
def test_a_restart_between_any_two_writes_ends_in_the_same_state(written: int) -> None:
    """L5: nothing is known but what is in the cluster."""
    whole, broken = KueueWorld(), KueueWorld()
    whole.admits = broken.admits = True
    whole.settle(TWO_PODS)
    left = written
    while left > 0 and (actions := steps(broken, TWO_PODS)):
        broken.carry_out(*actions[:left])
        left -= len(actions)
    broken.settle(TWO_PODS)
    assert whole.state() == broken.state()


def test_pods_that_kueue_evicts_are_not_created_again_under_the_same_id() -> None:
    world = KueueWorld()
    world.admits = True
    world.settle(TWO_PODS)
    world.look(TWO_PODS)
    world.pods = {}
    actions = world.look(TWO_PODS).actions
    assert [] == [action for action in actions if isinstance(action, CreatePod | DeletePod)]
