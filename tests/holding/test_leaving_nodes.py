"""Nodes that go: their replicas are replaced first and drained after, and nobody else's pods are touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.holding.cluster import bound_to, rack
from tests.holding.operation import Operation, pool_body
from weft.domain import labels
from weft.domain.reports import ComputeDomainReport, DomainMember, Reports
from weft.fabric.faults import NVSENTINEL_STATE, XID_TAINT

if TYPE_CHECKING:
    from collections.abc import Callable

TRAY = "a.1-t1"
SPOT = "aws-node-termination-handler/spot-itn"


def serving() -> Operation:
    """Two replicas of two trays in one rack that has room for a third."""
    world = Operation.of(rack("a.1", 6), pool_body("pair", "GB200", 8, 2))
    world.rest()
    assert [("a.1-t0", TRAY), ("a.1-t2", "a.1-t3")] == world.nodes_of("pair")
    return world


def fall_out_of_its_compute_domain(world: Operation) -> None:
    members = tuple(DomainMember(node, "a.1", ready=node != TRAY) for node in ("a.1-t0", TRAY))
    world.reports = Reports(compute_domains=(ComputeDomainReport("team", "pair-0", members),))


DRAINED: dict[str, Callable[[Operation], None]] = {
    "cordon": lambda world: world.cluster.cordon(TRAY),
    "ComputeDomain fault": fall_out_of_its_compute_domain,
    "XID taint": lambda world: world.cluster.taint(TRAY, XID_TAINT),
    "rebalance": lambda world: world.cluster.taint(TRAY, "aws-node-termination-handler/rebalance-recommendation"),
    "quarantine": lambda world: world.cluster.label(TRAY, NVSENTINEL_STATE, "quarantined"),
}


@pytest.mark.parametrize("drain", DRAINED.values(), ids=DRAINED)
def test_a_node_that_goes_is_left_once_its_replica_has_a_successor_that_serves(
    drain: Callable[[Operation], None],
) -> None:
    """Decided in the first pass; two serve at every moment, and the pods of the other replica are the same ones."""
    world = serving()
    others = {pod["metadata"]["uid"] for pod in world.pods_of("pair", 1)}
    drain(world)
    world.decide()
    assert [("a.1-t0", TRAY), ("a.1-t2", "a.1-t3"), ("a.1-t4", "a.1-t5")] == world.nodes_of("pair")
    for _ in range(8):
        world.turn()
        assert len(world.serving("pair")) >= 2
    assert [1, 2] == world.serving("pair")
    assert others == {pod["metadata"]["uid"] for pod in world.pods_of("pair", 1)}
    assert TRAY not in {bound_to(pod) for pod in world.cluster.pods.values()}


def test_a_spot_node_is_left_at_once_and_its_successor_starts_in_the_same_pass() -> None:
    """AWS takes it in two minutes, and no engine starts in them: what is left is for requests to finish."""
    world = serving()
    others = {pod["metadata"]["uid"] for pod in world.pods_of("pair", 1)}
    world.cluster.taint(TRAY, SPOT)
    world.decide()
    assert [("a.1-t2", "a.1-t3"), ("a.1-t4", "a.1-t5")] == world.nodes_of("pair")
    for _ in range(8):
        world.turn()
        assert len(world.serving("pair")) >= 1
    assert [1, 2] == world.serving("pair")
    assert others == {pod["metadata"]["uid"] for pod in world.pods_of("pair", 1)}
    assert TRAY not in {bound_to(pod) for pod in world.cluster.pods.values()}


def is_in_its_front(world: Operation) -> bool:
    """Whether routers may choose the first replica."""
    return any(labels.ROUTED in pod["metadata"]["labels"] for pod in world.pods_of("pair", 0))


def test_the_only_replica_stays_in_its_front_until_its_successor_serves_whoever_restarts() -> None:
    """Its successor is ordered in the first pass, and takes a minute to start."""
    world = Operation.of(rack("a.1", 4), pool_body("pair", "GB200", 8, 1))
    world.rest()
    world.cluster.taint(TRAY, SPOT)
    world.cluster.deaf = True
    for _ in range(10):
        world.turn()
        world.restart()
        assert [0] == world.serving("pair")
        assert is_in_its_front(world)
    assert [("a.1-t0", TRAY), ("a.1-t2", "a.1-t3")] == world.nodes_of("pair")
    assert "replica 0 serves on until another does" in world.condition("pair", "Placed")[2]
    world.cluster.deaf = False
    for _ in range(4):
        world.turn()
        assert world.serving("pair")
    assert [1] == world.serving("pair")
    assert [] == world.pods_of("pair", 0)


def test_the_only_replica_of_a_full_cluster_leaves_its_front_in_time_for_its_requests() -> None:
    """AWS takes the node after two minutes: until 10 s and a request before that it is asked, and then drained."""
    world = Operation.of(rack("a.1", 3), pool_body("pair", "GB200", 8, 1))
    world.rest()
    world.cluster.taint(TRAY, SPOT)
    told = []
    for _ in range(20):
        world.turn()
        told += world.events("pair")
        assert is_in_its_front(world)
    assert [] == told
    world.turn()
    told += world.events("pair")
    world.turn()
    assert ["NodeReclaimed", "LastOneLeaves"] == [*told, *world.events("pair")]
    assert not is_in_its_front(world)


def lose_the_node(world: Operation) -> None:
    """Its object is deleted, and its pods are collected before anybody looks."""
    world.cluster.remove(TRAY)
    world.cluster.collect()


LOST: dict[str, Callable[[Operation], None]] = {
    "the Node is gone": lose_the_node,
    "its pod failed with it": lambda world: world.cluster.crash(
        next(pod["metadata"]["name"] for pod in world.pods_of("pair", 0) if bound_to(pod) == TRAY)
    ),
}


@pytest.mark.parametrize("lose", LOST.values(), ids=LOST)
def test_a_tray_that_is_lost_moves_its_replica_and_no_other(lose: Callable[[Operation], None]) -> None:
    """The next one is decided on in the first pass that can, and the pods of the other replica are the same ones."""
    world = serving()
    world.turn(12)  # old enough that nothing of it counts as a start that failed
    others = {pod["metadata"]["uid"] for pod in world.pods_of("pair", 1)}
    lose(world)
    world.turn()
    assert 0 not in world.replicas("pair")
    world.rest()
    assert [1, 2] == world.serving("pair")
    assert others == {pod["metadata"]["uid"] for pod in world.pods_of("pair", 1)}
    assert all(count == 1 for count in world.made.values())
