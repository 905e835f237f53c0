"""Who takes the place, and what happens to it, between the decision, the gates, their fall and the binding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.holding.cluster import CLIQUE, boards, rack
from tests.holding.operation import Died, Operation, pool_body
from weft.fabric.faults import XID_TAINT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.holding.cluster import Cluster


def gated() -> Operation:
    """A replica of two trays of a.1 behind its gates, all of whose pods are known; b.1 is free."""
    world = Operation.of([*rack("a.1", 2), *rack("b.1", 3)], pool_body("pair", "GB200", 8, 1))
    behind_gates(world)
    assert [("a.1-t0", "a.1-t1")] == world.nodes_of("pair")
    return world


def behind_gates(world: Operation) -> None:
    """All pods are made and known to be there, and none is released."""
    world.decide()
    for name in world.bodies:
        world.converge(name)
    world.decide()


def pods(world: Operation) -> list[str]:
    """Replica and rank of the pods that there are."""
    return sorted("-".join(name.rsplit("-", 2)[1:]) for name in world.cluster.pods if name.startswith("pair"))


IN_BETWEEN: dict[str, Callable[[Cluster], object]] = {
    "somebody's pod is bound": lambda cluster: cluster.occupy("a.1-t1", 1),
    "the node is gone": lambda cluster: cluster.remove("a.1-t1"),
    "the node fails": lambda cluster: cluster.silence("a.1-t1"),
    "the node is cordoned": lambda cluster: cluster.cordon("a.1-t1"),
    "a GPU falls off": lambda cluster: cluster.lose("a.1-t1", 1),
    "an XID taints the node": lambda cluster: cluster.taint("a.1-t1", XID_TAINT),
    "the node is reclaimed": lambda cluster: cluster.taint("a.1-t1", "karpenter.sh/disrupted"),
    "the clique changes": lambda cluster: cluster.label("a.1-t1", CLIQUE, "c.1"),
}


@pytest.mark.parametrize("happens", IN_BETWEEN.values(), ids=IN_BETWEEN)
def test_what_loses_its_slot_before_release_is_not_released_and_goes_elsewhere(
    happens: Callable[[Cluster], object],
) -> None:
    """Whichever of both loops looks first: converging releases nothing, and deciding takes another place at once."""
    world = gated()
    happens(world.cluster)
    world.converge("pair")
    assert all(pod["spec"]["schedulingGates"] for pod in world.pods_of("pair"))
    world.decide()
    assert ([1], {"b.1"}) == (world.replicas("pair"), {node.partition("-")[0] for node in world.nodes_of("pair")[0]})
    world.rest()
    assert ([1], ["1-0", "1-1"]) == (world.serving("pair"), pods(world))
    assert world.pool("pair").status.failure is None


AFTER_RELEASE = {name: IN_BETWEEN[name] for name in IN_BETWEEN if name != "the clique changes"}


@pytest.mark.parametrize("happens", AFTER_RELEASE.values(), ids=AFTER_RELEASE)
def test_a_released_pair_whose_one_node_was_taken_goes_elsewhere_as_a_whole(
    happens: Callable[[Cluster], object],
) -> None:
    """One of its pods is bound, the other can never be: after 60 s both are given up, and a new pair serves."""
    world = gated()
    world.converge("pair")
    assert not any(pod["spec"].get("schedulingGates") for pod in world.pods_of("pair"))
    happens(world.cluster)
    world.turn(12)
    assert 0 not in world.replicas("pair")
    world.rest()
    assert ([1], ["1-0", "1-1"]) == (world.serving("pair"), pods(world))
    assert {"b.1"} == {node.partition("-")[0] for node in world.nodes_of("pair")[0]}


def test_a_pending_replica_times_out_and_is_placed_elsewhere() -> None:
    """The scheduler says nothing for a minute; the place that it was promised is free for others from then on."""
    world = gated()
    world.converge("pair")
    world.cluster.deaf = True
    world.turn(11)
    assert [0] == world.replicas("pair")
    world.turn(2)
    assert [] == world.replicas("pair")
    assert ["SchedulingTimedOut"] == [world.pool("pair").status.failure.explanation.reason.value]  # type: ignore[union-attr]
    world.cluster.deaf = False
    world.rest()
    assert [1] == world.serving("pair")


def test_without_a_plan_a_place_that_is_lost_is_no_promise_either() -> None:
    """The fabric became too small for one pool, whose replica is behind its gates; another one takes what is left."""
    world = Operation.of(rack("a.1", 2), pool_body("pair", "GB200", 8, 1), pool_body("rival", "GB200", 4, 0))
    behind_gates(world)
    world.cluster.remove("a.1-t1")
    world.edit("rival", scaling={"mode": "External", "replicas": 1, "maxReplicas": 9})
    world.decide()
    assert ("Unknown", "NothingToPlace") == world.condition("pair", "Placed")[:2]
    assert ([], [("a.1-t0",)]) == (world.nodes_of("pair"), world.nodes_of("rival"))
    world.rest()
    assert ([0], ["0-0"]) == (world.serving("rival"), [name[-3:] for name in world.cluster.pods])


def test_what_the_scheduler_refused_for_reasons_of_its_own_goes_to_other_nodes() -> None:
    """A volume, or processors that others hold: Weft cannot see why, and does not try the same node for ever."""
    world = Operation.of(boards(3), pool_body("chat", "H200", 8, 1))
    world.cluster.refusing = {"b-0", "b-1"}
    for node in ("b-0", "b-1"):
        behind_gates(world)
        assert [(node,)] == world.nodes_of("chat")
        world.turn(16)
    world.rest()
    assert ([2], [("b-2",)]) == (world.serving("chat"), world.nodes_of("chat"))


def test_where_every_node_was_refused_once_the_first_is_tried_again() -> None:
    """It is a preference, so nothing is lost where a reason passes."""
    world = Operation.of(boards(1), pool_body("chat", "H200", 8, 1))
    world.cluster.refusing = {"b-0"}
    world.turn(16)
    world.cluster.refusing = set()
    world.rest()
    assert ([1], [("b-0",)]) == (world.serving("chat"), world.nodes_of("chat"))


@pytest.mark.parametrize("rank", [0, 1])
def test_a_gated_pod_that_is_deleted_by_hand_takes_its_replica_along(rank: int) -> None:
    """All its pods were there once: none is made again under that id, and nothing is left behind a gate."""
    world = gated()
    world.cluster.delete(world.pods_of("pair", 0)[rank]["metadata"]["name"])
    world.turn()
    assert [] == world.replicas("pair")
    world.rest()
    assert ([1], ["1-0", "1-1"]) == (world.serving("pair"), pods(world))
    assert {1} == set(world.made.values())


def test_whoever_deletes_gated_pods_before_they_are_known_gets_no_storm() -> None:
    """F12: what never ran is made again under its name, at most once in a pass, and all heals when that ends."""
    world = Operation.of(boards(1), pool_body("pair", "H200", 8, 1))
    for _ in range(20):
        world.turn()
        for pod in world.pods_of("pair"):
            world.cluster.delete(pod["metadata"]["name"])
    assert max(world.made.values()) <= 20
    world.rest()
    assert 1 == len(world.serving("pair"))


def test_two_replicas_are_released_at_once_and_neither_is_in_the_others_way() -> None:
    world = Operation.of(boards(2), pool_body("one", "H200", 4, 2), pool_body("two", "H200", 4, 2))
    world.turn(2)
    assert 4 == len([pod for pod in world.cluster.pods.values() if not pod["spec"].get("schedulingGates")])
    world.rest()
    assert ([0, 1], [0, 1]) == (world.serving("one"), world.serving("two"))


@pytest.mark.parametrize("names", [("one", "one"), ("one", "two")], ids=["of one pool", "of two pools"])
def test_of_two_replicas_for_which_a_node_became_too_small_one_is_given_up(names: tuple[str, str]) -> None:
    """Both were promised half a board, which loses a GPU before they are released; it heals, and both serve."""
    pools = {name: pool_body(name, "H200", 4, names.count(name)) for name in names}
    world = Operation.of(boards(1), *pools.values())
    behind_gates(world)
    world.cluster.lose("b-0", 1)
    world.decide()
    assert 1 == sum(len(world.replicas(name)) for name in pools)
    world.rest()
    assert 1 == sum(len(world.serving(name)) for name in pools)
    world.cluster.lose("b-0", 0)
    world.rest()
    assert 2 == sum(len(world.serving(name)) for name in pools)


def test_of_two_replicas_of_one_pool_only_one_is_released_into_what_is_left() -> None:
    """Also when converging looks before deciding does."""
    world = Operation.of(boards(1), pool_body("one", "H200", 4, 2))
    behind_gates(world)
    world.cluster.lose("b-0", 1)
    world.converge("one")
    assert 1 == len([pod for pod in world.cluster.pods.values() if not pod["spec"].get("schedulingGates")])


def test_of_two_pools_that_were_released_into_what_one_has_room_for_one_goes_elsewhere() -> None:
    """Each converges for itself, so both may be released: the scheduler binds one, and the other times out."""
    world = Operation.of(boards(1), pool_body("one", "H200", 4, 1), pool_body("two", "H200", 4, 1))
    behind_gates(world)
    world.cluster.lose("b-0", 1)
    for name in world.bodies:
        world.converge(name)
    world.cluster.nodes["b-1"] = boards(2)[1]
    world.turn(2)
    assert [1] == sorted(len(world.serving(name)) for name in world.bodies if world.serving(name))
    world.rest()
    assert {"b-0", "b-1"} == {node for name in world.bodies for (node,) in world.nodes_of(name)}
    assert all(world.serving(name) for name in world.bodies)


def test_an_operator_that_died_between_two_gates_ends_as_one_that_did_not() -> None:
    """The one pod is released and the other is not, while somebody takes the place of the second."""
    world = gated()
    world.writes_left = 1
    with pytest.raises(Died):
        world.converge("pair")
    world.restart()
    assert [False, True] == sorted(bool(pod["spec"].get("schedulingGates")) for pod in world.pods_of("pair"))
    world.cluster.occupy("a.1-t1", 4)
    world.rest()
    assert ([1], ["1-0", "1-1"]) == (world.serving("pair"), pods(world))


def test_who_waits_for_a_predecessor_that_never_ends_takes_another_place_once_there_is_one() -> None:
    """A kubelet that cannot end a pod is no reason to wait for ever; until then it says for whom it waits."""
    world = Operation.of(boards(1), pool_body("chat", "H200", 8, 1))
    world.rest()
    world.cluster.wedged.add("b-0")
    world.cluster.delete(world.pods_of("chat")[0]["metadata"]["name"])
    world.turn(6)
    assert [1] == world.replicas("chat")
    assert "replica 1 waits until pods that leave b-0 are gone" in world.condition("chat", "Placed")[2]
    world.cluster.nodes["b-1"] = boards(2)[1]
    world.turn(3)
    assert [1] == world.replicas("chat"), "a grace period is worth waiting for"
    world.turn(6)
    assert ([2], [("b-1",)]) == (world.replicas("chat"), world.nodes_of("chat"))
    world.rest()
    assert [2] == world.serving("chat")
