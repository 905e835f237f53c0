"""A scheduling gate that admission put on a pod: its replica waits for whoever removes it, and the user reads that.

Rules of docs/rules.md: L1, S10.
"""

from __future__ import annotations

from tests.holding.cluster import boards, stamp
from tests.holding.operation import Operation, pool_body

APPROVAL = {"name": "corp.example/approved"}


def gated() -> Operation:
    """A replica whose pod has Weft's gate no more, and one of somebody else."""
    world = Operation.of(boards(2), pool_body("chat", "H200", 8, 1))
    while not world.cluster.pods:
        world.decide()
        world.converge("chat")
    (pod,) = world.cluster.pods.values()
    pod["spec"]["schedulingGates"].append(APPROVAL)
    world.turn(3)
    assert [APPROVAL] == pod["spec"]["schedulingGates"]
    return world


def test_it_is_waited_for_however_long_that_takes() -> None:
    """Another pod would have the gate, too, and be the last in whatever queue that is."""
    world = gated()
    (before,) = world.cluster.pods
    world.turn(60, 30.0)
    assert ([before], [0]) == ([*world.cluster.pods], world.replicas("chat"))
    world.cluster.pods[before]["spec"]["schedulingGates"] = []
    world.cluster.pods[before]["metadata"]["managedFields"][0]["time"] = stamp(world.cluster.now)  # as a cache notes it
    world.rest()
    assert [0] == world.serving("chat")


def test_the_user_reads_which_it_is() -> None:
    world = gated()
    (pod,) = world.cluster.pods
    told = f"pod {pod} has the scheduling gate corp.example/approved, which whoever sets it has to remove"
    status, reason, message = world.condition("chat", "Ready")
    assert ("False", "ReplicasStarting") == (status, reason)
    assert told in message
