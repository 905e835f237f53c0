"""Nodes that are drained, or do not answer: replaced first, drained after, and nothing else is touched."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.decide.world import World, expert_spec, external, pool, pool_spec
from tests.fabric.cluster import board, busy, rack, taint
from weft.domain.reasons import Reason
from weft.domain.spec import RolloutSpec

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord, Taint
    from weft.domain.spec import PoolSpec

IN_USE = 6


def serving(boards: int, spec: PoolSpec | None = None, replicas: int = 2) -> World:
    nodes = [board(f"b-{index}") for index in range(boards)]
    world = World.of(nodes, pool("chat", spec or pool_spec(8, external(replicas))))
    world.turn(IN_USE)
    assert world.serving("chat") == replicas
    return world


def cordon(world: World, *names: str) -> None:
    world.nodes = [replace(node, cordoned=node.cordoned or node.name in names) for node in world.nodes]


def silence(world: World, *names: str) -> list[NodeRecord]:
    before = world.nodes
    world.nodes = [replace(node, ready=node.ready and node.name not in names) for node in before]
    return before


def test_a_cordoned_node_is_left_once_another_replica_serves() -> None:
    world = serving(3)
    cordon(world, "b-0")
    world.turn()
    assert world.nodes_of("chat") == [("b-0",), ("b-1",), ("b-2",)]
    assert [event.reason for event in world.decision("chat").events] == [Reason.NodeCordoned]
    assert "replica 0 is replaced, as node b-0 is cordoned" in world.condition("chat", "Placed")[2]
    for _ in range(10):
        world.turn()
        assert world.serving("chat") >= 2
    assert world.nodes_of("chat") == [("b-1",), ("b-2",)]
    assert {pod.node for pod in world.pods.values()} == {"b-1", "b-2"}


def test_each_replica_that_is_replaced_is_told_once() -> None:
    """Three of them, one after the other."""
    world = serving(6, replicas=3)
    cordon(world, "b-0", "b-1", "b-2")
    told = []
    for _ in range(20):
        world.turn()
        told += [event.message for event in world.decision("chat").events]
    assert world.nodes_of("chat") == [("b-3",), ("b-4",), ("b-5",)]
    assert sorted(told) == [f"replica {index} is replaced, as node b-{index} is cordoned" for index in range(3)]


def test_without_room_for_another_replica_it_stays_and_says_so() -> None:
    world = serving(2)
    cordon(world, "b-0")
    world.turn(20)
    assert world.serving("chat") == 2
    status, reason, message = world.condition("chat", "Placed")
    assert (status, reason) == ("False", "NoSlot")
    assert message.startswith(
        "replica 0 is replaced, as node b-0 is cordoned, but nothing has room for its replacement;"
    )
    world.nodes.append(board("b-9"))
    world.turn(10)
    assert world.nodes_of("chat") == [("b-1",), ("b-9",)]


def test_of_several_that_cannot_leave_two_are_named() -> None:
    """Who asks for one of them finds it."""
    world = serving(3, replicas=3)
    cordon(world, "b-0", "b-1", "b-2")
    world.turn()
    told = world.condition("chat", "Placed")[2]
    assert "node b-0 is cordoned, and replica 1 is replaced, as node b-1 is cordoned (and 1 more)" in told
    assert "but nothing has room for all of their replacements" in told


def test_a_replica_that_only_its_own_nodes_and_the_spares_can_hold_says_what_lets_it_go() -> None:
    """A rack holds one replica of 16 trays and two spares: replaced first it cannot be, and replaced after it can."""
    spec = expert_spec(1, 64)
    spec = replace(spec, placement=replace(spec.placement, spare_nodes_per_domain=2))
    world = World.of(rack("a.1"), pool("wide", spec))
    world.turn(IN_USE)
    cordon(world, "a.1-t3")
    world.turn(2)
    told = world.condition("wide", "Placed")[2]
    assert told.endswith("spec.rollout.maxUnavailable above 0 replica 0 would leave first, and its successor has room")
    assert "lower it" not in told, "two spares are no room for sixteen nodes"
    world.edit("wide", replace(spec, rollout=RolloutSpec(max_unavailable=1)))
    world.turn(IN_USE)
    assert 1 == world.serving("wide")
    assert "a.1-t3" not in world.nodes_of("wide")[0]


def test_a_node_that_is_free_for_use_again_keeps_its_replica() -> None:
    world = serving(3)
    before = world.nodes
    cordon(world, "b-0")
    world.turn(2)
    assert len(world.nodes_of("chat")) == 3
    world.nodes = before
    world.turn(4)
    assert world.nodes_of("chat") == [("b-0",), ("b-1",)]


def test_a_paused_rollout_does_not_keep_anything_on_a_node_that_goes() -> None:
    world = serving(3, pool_spec(8, external(2), rollout=RolloutSpec(paused=True)))
    cordon(world, "b-0")
    world.turn(10)
    assert world.nodes_of("chat") == [("b-1",), ("b-2",)]


def test_a_silent_node_gets_a_stand_in_at_once_that_leaves_when_it_answers_again() -> None:
    """Kubernetes called the node NotReady: nothing of it is given up, but the time until that is not wasted."""
    world = serving(3)
    world.engines_start = False
    before = silence(world, "b-1")
    world.turn()
    assert world.nodes_of("chat") == [("b-0",), ("b-1",), ("b-2",)]
    world.nodes, world.engines_start = before, True
    world.pods = {name: replace(pod, ready=pod.node != "b-2") for name, pod in world.pods.items()}
    world.turn()
    assert world.nodes_of("chat") == [("b-0",), ("b-1",)]


def wide(spares: int = 2) -> World:
    """Two racks; a replica of 64 GPUs in one, others beside it."""
    spec = expert_spec(1, 64)
    spec = replace(spec, placement=replace(spec.placement, spare_nodes_per_domain=spares))
    world = World.of(
        [*rack("a.1"), *rack("b.1", 6)],
        pool("wide", spec, priority=1),
        pool("chat", pool_spec(4, external(3), "GB200")),
    )
    world.turn(IN_USE)
    assert (world.serving("wide"), world.serving("chat")) == (1, 3)
    return world


def test_a_lost_tray_is_replaced_by_the_spare_of_its_rack_in_the_first_pass() -> None:
    """What its own dying pods hold is promised to their successor, which waits behind its gates for it."""
    world = wide()
    (before,) = world.nodes_of("wide")
    others = world.nodes_of("chat")
    lost = before[5]
    world.nodes = [node for node in world.nodes if node.name != lost]
    world.pods = {name: pod for name, pod in world.pods.items() if pod.node != lost}
    world.turn()
    (after,) = world.nodes_of("wide")
    assert lost not in after
    assert len(set(after) - set(before)) == 1
    assert {name.partition("-")[0] for name in after} == {"a.1"}
    world.turn(10)
    assert world.nodes_of("wide") == [after]
    assert (world.serving("wide"), world.nodes_of("chat")) == (1, others)


def test_a_silent_tray_is_replaced_by_the_spare_in_the_first_pass_where_nothing_else_has_room() -> None:
    """The spare is kept for that; without one, whether the tray answers again is waited for."""
    for spares, changed in ((2, 1), (0, 0)):
        world = wide(spares)
        (before,) = world.nodes_of("wide")
        others = world.nodes_of("chat")
        silence(world, before[5])
        world.turn()
        (after,) = world.nodes_of("wide")
        assert (len(set(after) - set(before)), before[5] in after) == (changed, not changed)
        assert world.nodes_of("chat") == others
        told = [event.message for event in world.decision("wide").events]
        assert [bool(changed)] == [f"node {before[5]} is not ready" in each for each in told or [""]]
    world = wide()
    world.nodes += rack("c.1")
    (before,) = world.nodes_of("wide")
    silence(world, before[5])
    world.turn()
    stays, stand_in = world.nodes_of("wide")
    assert (before, {"c.1"}) == (stays, {name.partition("-")[0] for name in stand_in})


def test_spares_are_for_their_pool_alone() -> None:
    """Another pool takes every other tray."""
    world = wide()
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, scaling=external(20)))
    world.turn(IN_USE)
    taken = {node for nodes in world.nodes_of("chat") for node in nodes}
    assert taken == {f"b.1-t{index}" for index in range(6)}
    assert world.condition("chat", "Placed")[2].startswith("6 of 20 replicas placed")


def test_as_many_as_were_lost_take_spares_and_nobody_who_is_only_wanted() -> None:
    """Two trays serve, a job holds one and two are spares: a third replica waits, also beside one that is replaced."""
    spec = pool_spec(4, external(2), "GB200")
    spec = replace(spec, placement=replace(spec.placement, spare_nodes_per_domain=2))
    world = World.of(rack("a.1", 5), pool("chat", spec), pods=(busy("job", "a.1-t2", 4),))
    world.turn(IN_USE)
    world.edit("chat", replace(spec, scaling=external(3)))
    world.turn(2)
    assert [("a.1-t0",), ("a.1-t1",)] == world.nodes_of("chat")
    assert "NoSlot" == world.condition("chat", "Placed")[1]
    world.nodes = [node for node in world.nodes if node.name != "a.1-t1"]
    world.pods = {name: pod for name, pod in world.pods.items() if pod.node != "a.1-t1"}
    world.turn(IN_USE)
    (first, (successor,)) = world.nodes_of("chat")
    assert (("a.1-t0",), True) == (first, successor in {"a.1-t3", "a.1-t4"})
    assert "NoSlot" == world.condition("chat", "Placed")[1]


def test_the_spare_is_a_tray_that_its_pool_may_use() -> None:
    """The last tray is dedicated to others: one that could not stand in is not kept, and the one before it is."""
    nodes = rack("a.1", 4)
    nodes[-1] = replace(nodes[-1], taints=(taint("dedicated", "others"),))
    spec = pool_spec(4, external(1), "GB200")
    spec = replace(spec, placement=replace(spec.placement, spare_nodes_per_domain=1))
    world = World.of(nodes, pool("chat", spec, priority=1), pool("more", pool_spec(4, external(4), "GB200")))
    world.turn(IN_USE)
    assert [("a.1-t0",)] == world.nodes_of("chat")
    assert [("a.1-t1",)] == world.nodes_of("more")


def test_without_a_spare_it_says_what_is_missing_and_comes_back_with_the_tray() -> None:
    world = wide(spares=0)
    world.pools["wide"] = replace(world.pools["wide"], preempts=False)
    (before,) = world.nodes_of("wide")
    lost = next(node for node in world.nodes if node.name == before[5])
    world.nodes.remove(lost)
    world.pods = {name: pod for name, pod in world.pods.items() if pod.node != lost.name}
    world.turn(5)
    assert world.condition("wide", "Placed")[:2] == ("False", "NoSlot")
    world.nodes.append(lost)
    world.turn(10)
    assert world.serving("wide") == 1


SPOT = taint("aws-node-termination-handler/spot-itn")


def give_notice(world: World, name: str, *notices: Taint) -> None:
    world.nodes = [replace(node, taints=notices) if node.name == name else node for node in world.nodes]


def test_a_node_that_a_cloud_takes_back_in_seconds_is_left_at_once_and_replaced_in_the_same_pass() -> None:
    """Whatever the rollout allows: nobody asks before it is gone. Who serves elsewhere is left alone."""
    world = serving(3)
    give_notice(world, "b-0", SPOT)
    world.turn()
    assert world.nodes_of("chat") == [("b-1",), ("b-2",)]
    (event,) = world.decision("chat").events
    assert event.reason is Reason.NodeReclaimed
    assert "replica 0 is replaced, as node b-0 goes away soon: a spot interruption of AWS" in event.message
    world.turn(5)
    assert world.serving("chat") == 2


def test_it_is_left_at_once_however_soon_requests_are_over() -> None:
    """No engine starts within the two minutes of the notice, so that none can be waited for."""
    world = serving(3, pool_spec(8, external(2), rollout=RolloutSpec(drain_timeout_seconds=30.0)))
    give_notice(world, "b-0", SPOT)
    world.turn()
    assert world.nodes_of("chat") == [("b-1",), ("b-2",)]


def test_it_is_left_though_nothing_has_room_for_a_successor() -> None:
    world = serving(2)
    give_notice(world, "b-0", SPOT)
    world.turn(3)
    assert world.nodes_of("chat") == [("b-1",)]
    assert world.condition("chat", "Placed")[:2] == ("False", "NoSlot")
    world.nodes.append(board("b-9"))
    world.turn(5)
    assert world.nodes_of("chat") == [("b-1",), ("b-9",)]


def test_an_urgent_departure_lets_nobody_else_leave_beside_it() -> None:
    """One is allowed to be away, and the node that goes has taken that."""
    world = serving(5, pool_spec(8, external(3), rollout=RolloutSpec(max_surge=0, max_unavailable=1)), replicas=3)
    give_notice(world, "b-0", SPOT)
    cordon(world, "b-1")
    world.turn()
    assert ("b-1",) in world.nodes_of("chat")
    assert world.serving("chat") == 2


def test_a_notice_that_leaves_time_for_a_successor_is_answered_by_one_first() -> None:
    """The cluster autoscaler waits ten minutes for pods, and requests of this pool take up to five."""
    world = serving(3)
    give_notice(world, "b-0", taint("ToBeDeletedByClusterAutoscaler", str(int(world.now))))
    for _ in range(8):
        world.turn()
        assert world.serving("chat") >= 2
    assert world.nodes_of("chat") == [("b-1",), ("b-2",)]


def test_whoever_found_no_successor_leaves_while_requests_can_still_finish() -> None:
    world = serving(2)
    give_notice(world, "b-0", taint("ToBeDeletedByClusterAutoscaler", str(int(world.now))))
    world.turn(1, seconds=290.0)
    assert world.serving("chat") == 2
    world.turn(1, seconds=15.0)
    assert world.nodes_of("chat") == [("b-1",)]
