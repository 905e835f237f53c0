"""Nodes that fall silent and answer again: no engine is ended for nothing, and what has room elsewhere goes there.

Rules of docs/rules.md: S1, L1, F18. An engine runs on while its kubelet is silent; a pod that was deleted meanwhile
ends as soon as the kubelet hears of it.
"""

from __future__ import annotations

import pytest

from tests.holding.cluster import boards, bound_to
from tests.holding.operation import Operation, pool_body

IN_PLACE = {"maxSurge": 0, "maxUnavailable": 1}


def serving(nodes: int, replicas: int, **more: object) -> Operation:
    world = Operation.of(boards(nodes), pool_body("chat", "H200", 8, replicas, **more))
    world.rest()
    assert list(range(replicas)) == world.serving("chat")
    return world


def silence(world: Operation, *nodes: str, ready: bool = False) -> None:
    for node in nodes:
        world.cluster.silence(node, ready=ready)


def engines(world: Operation) -> set[str]:
    return {pod["metadata"]["uid"] for pod in world.pods_of("chat")}


@pytest.mark.parametrize("rollout", [{}, IN_PLACE], ids=["surge", "in place"])
@pytest.mark.parametrize("silent", [["b-0"], ["b-0", "b-1"]], ids=["one", "all"])
def test_a_replica_whose_successor_has_no_room_serves_again_once_its_node_answers(
    silent: list[str], rollout: dict[str, int]
) -> None:
    """Two minutes of silence cost no engine: the pods are the same ones. Deleted, all would have started anew."""
    world = serving(2, 2, **({"rollout": rollout} if rollout else {}))
    before = engines(world)
    silence(world, *silent)
    world.turn(12, 10.0)
    assert not any("deletionTimestamp" in pod["metadata"] for pod in world.pods_of("chat"))
    told, reason, message = world.condition("chat", "Placed")
    assert ("False", "NoSlot") == (told, reason)
    assert "replica 0 is replaced, as node b-0 is not ready" in message
    assert "but nothing has room" in message
    silence(world, *silent, ready=True)
    world.rest()
    assert (before, [0, 1]) == (engines(world), world.serving("chat"))
    assert ("True", "AllPlaced") == world.condition("chat", "Placed")[:2]


def test_a_replica_that_has_room_elsewhere_lacks_no_place_while_its_node_is_waited_for() -> None:
    """In place it is given up after half a minute, and until then nothing is missing but its node."""
    world = serving(2, 1, rollout=IN_PLACE)
    silence(world, "b-0")
    world.turn(2, 10.0)
    told, reason, message = world.condition("chat", "Placed")
    assert ("True", "AllPlaced") == (told, reason)
    assert message.endswith("replica 0 is replaced, as node b-0 is not ready")
    world.turn(4, 10.0)
    assert [1] == world.serving("chat")


@pytest.mark.parametrize("surge", [0, 1])
def test_more_silent_nodes_than_have_room_are_told_whether_a_successor_comes_first_or_not(surge: int) -> None:
    """Two of three replicas are on silent nodes, and one more board is free."""
    world = serving(4, 3, rollout={"maxSurge": surge, "maxUnavailable": 1})
    silence(world, "b-0", "b-1")
    world.turn(1)
    assert 3 + surge == len(world.replicas("chat"))
    told, reason, message = world.condition("chat", "Placed")
    assert ("False", "NoSlot") == (told, reason)
    assert "but nothing has room for all of their replacements" in message


def test_as_many_are_placed_anew_as_have_room_and_the_others_wait() -> None:
    """Three of five nodes are silent: one successor comes above the count, one for who is given up, and two wait."""
    world = serving(5, 3)
    silence(world, "b-0", "b-1", "b-2")
    world.turn(5, 10.0)
    assert [1, 2, 3, 4] == world.replicas("chat")
    assert [3, 4] == world.serving("chat")
    silence(world, "b-0", "b-1", "b-2", ready=True)
    world.rest()
    assert [1, 2, 3] == world.serving("chat")


def test_no_more_are_given_up_than_have_room_however_often_it_is_looked_at() -> None:
    """The place that one gets is not free for the next one, though its successor has no pod there yet."""
    world = serving(4, 3, rollout=IN_PLACE)
    silence(world, "b-0", "b-1", "b-2")
    world.turn(3, 10.0)
    assert [0, 1, 2] == world.replicas("chat")
    world.cluster.now += 10.0
    for _ in range(3):
        world.decide()
        assert [1, 2, 3] == world.replicas("chat")
    world.turn(6, 10.0)
    assert [1, 2, 3] == world.replicas("chat")
    silence(world, "b-0", "b-1", "b-2", ready=True)
    world.rest()
    assert [1, 2, 3] == world.serving("chat")


def test_what_another_pool_was_promised_is_no_room_for_who_is_silent() -> None:
    """Its pods wait behind their gates, on the only board that is free."""
    world = serving(2, 1, rollout=IN_PLACE)
    silence(world, "b-0")
    world.turn(3, 10.0)
    world.bodies["other"] = pool_body("other", "H200", 8, 1)
    world.decide()
    assert [("b-1",)] == world.nodes_of("other")
    world.cluster.now += 10.0
    world.decide()
    assert [0] == world.replicas("chat")
    world.turn(3, 10.0)
    assert [0] == world.replicas("chat")
    assert [0] == world.serving("other")


def test_of_two_pools_that_want_the_one_place_only_one_gives_up_a_replica() -> None:
    """The engine of the other one would end for nothing once its node answers again."""
    world = Operation.of(boards(3), *(pool_body(name, "H200", 8, 1, rollout=IN_PLACE) for name in ("chat", "other")))
    world.rest()
    assert [("b-0",), ("b-1",)] == world.nodes_of("chat") + world.nodes_of("other")
    silence(world, "b-0", "b-1")
    world.turn(12, 10.0)
    assert ([1], [0]) == (world.serving("chat"), world.replicas("other"))
    assert not any("deletionTimestamp" in pod["metadata"] for pod in world.pods_of("other"))
    assert "NoSlot" == world.condition("other", "Placed")[1]
    silence(world, "b-0", "b-1", ready=True)
    world.rest()
    assert [0] == world.serving("other")


def test_what_a_pool_with_another_silent_node_was_promised_is_no_room_either() -> None:
    """Its first successor has no pod yet when the node of a pool falls silent that is judged before it."""
    sizes = {"chat": 1, "other": 2}
    world = Operation.of(boards(4), *(pool_body(name, "H200", 8, n, rollout=IN_PLACE) for name, n in sizes.items()))
    world.rest()
    assert [("b-0",), ("b-1",), ("b-2",)] == world.nodes_of("chat") + world.nodes_of("other")
    silence(world, "b-1", "b-2")
    world.turn(1, 10.0)
    silence(world, "b-0")
    for _ in range(8):
        world.cluster.now += 10.0
        world.decide()
    assert [("b-0",), ("b-2",), ("b-3",)] == world.nodes_of("chat") + world.nodes_of("other")


def test_one_whose_successor_serves_is_given_up_though_nothing_has_room_any_more() -> None:
    """Surge brought the successor before the node was given up, to the last free one."""
    world = serving(3, 2)
    silence(world, "b-0")
    world.turn(12, 10.0)
    assert [1, 2] == world.replicas("chat")


def test_who_waits_for_a_silent_node_takes_the_place_that_becomes_free() -> None:
    world = serving(2, 2)
    world.cluster.nodes |= {node["metadata"]["name"]: node for node in boards(3)[2:]}
    assert world.cluster.occupy("b-2", 8)
    silence(world, "b-0")
    world.turn(12, 10.0)
    assert [0, 1] == world.replicas("chat")
    world.cluster.vacate("job-b-2")
    world.turn(3, 10.0)
    assert [1, 2] == world.serving("chat")


def test_pods_that_kubernetes_takes_from_a_silent_node_end_the_wait() -> None:
    """It does after five minutes; what it has deleted does not come back."""
    world = serving(2, 2)
    silence(world, "b-0")
    world.turn(12, 10.0)
    (pod,) = (name for name, pod in world.cluster.pods.items() if bound_to(pod) == "b-0")
    world.cluster.delete(pod)
    world.turn()
    assert [1] == world.replicas("chat")
    assert world.condition("chat", "Placed")[1] == "NoSlot"
