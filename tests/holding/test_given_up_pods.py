"""Pods that a kubelet evicts or rejects, and pods that a scheduler nominates and never binds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.holding.cluster import boards, bound_to, stamp
from tests.holding.operation import Operation, pool_body

if TYPE_CHECKING:
    from tests.holding.cluster import Json

pytestmark = pytest.mark.timeout(300)
ARGUMENT = "--max-num-seqs=64"
GIVEN_UP = {
    "Evicted": "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi.",
    "UnexpectedAdmissionError": "Pod was rejected: Allocate failed due to no healthy devices present",
    "OutOfnvidia.com/gpu": "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu",
    "Terminated": "Pod was terminated in response to imminent node shutdown.",
}


def of_the_new_revision(world: Operation) -> list[Json]:
    return [each for each in world.pods_of("chat") if ARGUMENT in str(each["spec"])]


def rolled_out_after(world: Operation, *, gives_up: str = "") -> float:
    """Seconds that a rollout takes; once three new engines run, the kubelet of one gives it up."""
    world.edit("chat", engine={"name": "VLLM", "args": [ARGUMENT]})
    began = world.cluster.now
    while len(of_the_new_revision(world)) < len(world.pods_of("chat")) or world.cluster.now == began:
        assert world.cluster.now - began < 3600.0, "the rollout does not get on"
        world.turn(1, 10.0)
        running = [each for each in of_the_new_revision(world) if each["status"]["phase"] == "Running"]
        if gives_up and len(running) >= 3:
            message = GIVEN_UP[gives_up]
            running[0]["status"] = {"phase": "Failed", "reason": gives_up, "message": message, "conditions": []}
            world.cluster.revision += 1
            gives_up = ""
    return world.cluster.now - began


def serving() -> Operation:
    world = Operation.of(boards(10), pool_body("chat", "H200", 8, 6))
    world.rest()
    world.cluster.now += 3600.0
    return world


@pytest.mark.parametrize("reason", GIVEN_UP)
def test_what_a_node_lacks_is_no_fault_of_a_new_revision(reason: str) -> None:
    """It held the rollout for ten minutes, as an engine that ends by itself does."""
    undisturbed = rolled_out_after(serving())
    assert rolled_out_after(serving(), gives_up=reason) <= undisturbed + 120.0


def test_a_lone_replica_that_is_evicted_after_a_day_is_placed_anew_at_once_and_elsewhere() -> None:
    world = Operation.of(boards(2), pool_body("chat", "H200", 8, 1))
    world.rest()
    world.cluster.now += 86400.0
    world.turn(2)
    (pod,) = world.pods_of("chat")
    before = bound_to(pod)
    pod["status"] = {"phase": "Failed", "reason": "Evicted", "message": GIVEN_UP["Evicted"], "conditions": []}
    world.cluster.revision += 1
    world.turn(4)
    assert [bound_to(each) for each in world.pods_of("chat") if "deletionTimestamp" not in each["metadata"]] != [before]
    assert world.replicas("chat") == [1]


@pytest.mark.parametrize(("nominated", "within"), [(False, 90.0), (True, 660.0)])
def test_a_pod_that_nobody_binds_is_told_and_given_up(*, nominated: bool, within: float) -> None:
    """Whose victims never end: a nominated one was waited for without limit and without a word."""
    world = Operation.of(boards(3), pool_body("chat", "H200", 8, 1))
    world.cluster.deaf = True
    world.turn(6)
    ((node,),) = world.nodes_of("chat")
    began = world.cluster.now
    while world.nodes_of("chat") == [(node,)]:
        assert world.cluster.now - began < within
        for pod in world.pods_of("chat"):
            said = "0/3 nodes are available: 1 Insufficient nvidia.com/gpu."
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
            pod["status"]["conditions"] = [{**condition, "lastTransitionTime": stamp(began)}]
            if nominated:
                pod["status"]["nominatedNodeName"] = node
        world.cluster.revision += 1
        world.turn()
        if world.nodes_of("chat") == [(node,)]:
            told = world.conditions_of("chat")["Reconciling"]
            assert "waits for the scheduler: Insufficient nvidia.com/gpu" in told[-1]
    assert world.conditions_of("chat")["Ready"][1] == "SchedulingTimedOut"
