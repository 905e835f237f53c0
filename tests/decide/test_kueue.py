"""Pools that Kueue places (ADR 0019): what is handed over, what waiting means, and who may take a replica away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.world import World, expert_spec, external, of_kueue, pool, pool_spec
from tests.fabric.cluster import board, busy, node, rack
from weft.catalog import load
from weft.decide import decide
from weft.domain.cluster import NodeRecord, PodPhase
from weft.domain.queueing import AdmissionRecord, Queueing, QueueRecord, Stated
from weft.domain.reasons import Reason
from weft.domain.reports import DeviceReport, Reports
from weft.domain.spec import SchedulerName
from weft.domain.status import Handover
from weft.domain.texts.units import GIB
from weft.render import replica_name

CLIQUE, HOSTNAME = "nvidia.com/gpu.clique", "kubernetes.io/hostname"
KUEUE = Queueing(installed=True, queues=(QueueRecord("team", "llm"),), topologies=((CLIQUE, HOSTNAME),))
H200 = ("nvidia.com/gpu.product", ("NVIDIA-H200",))
NO_QUOTA = Stated(
    "QuotaReserved", holds=False, reason="Pending", message="insufficient unused quota for nvidia.com/gpu"
)
LONG = 3600.0


def kueue_world(replicas: int = 1, boards: int = 3, queueing: Queueing | None = KUEUE) -> World:
    """A pool `chat` of 8-GPU replicas in the queue `llm`."""
    spec = of_kueue(pool_spec(8, external(replicas)))
    world = World.of([board(f"b-{i}") for i in range(boards)], pool("chat", spec))
    world.queueing = queueing
    return world


def say(world: World, replica: int, *stated: Stated) -> None:
    """Kueue writes the conditions of a replica's Workload."""
    name = replica_name(world.pools["chat"].key, replica)
    assert world.queueing is not None
    known = {**world.queueing.admissions, ("team", name): AdmissionRecord("team", name, stated)}
    world.queueing = replace(world.queueing, admissions=known)


def ids(world: World, name: str = "chat") -> list[int]:
    return [each.replica for each in world.status(name).assignments]


def evict(world: World, reason: str, name: str = "chat-0-0") -> None:
    """Kueue says why on the pod, and deletes it."""
    stopped = (f"WorkloadEvictedDueTo{reason}", "to accommodate a workload")
    world.pods[name] = replace(world.pods[name], terminating=True, ready=False, stopped=stopped)


def running() -> World:
    """A replica that Kueue admitted and that has served for a while."""
    world = kueue_world()
    world.admitted["chat", 0] = ("b-1",)
    world.turn(6, seconds=30)
    assert world.serving("chat") == 1
    return world


def test_a_replica_is_handed_over_without_nodes_and_waits_in_words_of_kueue() -> None:
    world = kueue_world()
    world.turn(2)
    (assignment,) = world.status("chat").assignments
    assert assignment.nodes == ()
    assert Handover(SchedulerName.Kueue, "llm", 1, HOSTNAME, 1, H200) == assignment.handover
    assert ("False", "WaitingForQuota") == world.condition("chat", "Placed")[:2]
    assert "LocalQueue llm has not taken it up yet" in world.condition("chat", "Placed")[2]
    say(world, 0, NO_QUOTA)
    world.turn()
    assert "1 of 1 replicas wait to be admitted; insufficient unused quota" in world.condition("chat", "Placed")[2]


def test_a_full_cluster_refuses_nobody_who_can_queue() -> None:
    world = kueue_world(replicas=3, boards=1)
    world.pods["other"] = busy("other", "b-0", 8)
    world.turn(2)
    assert [0, 1, 2] == ids(world)


def test_waiting_for_quota_is_no_failure_however_long_it_takes() -> None:
    world = kueue_world()
    world.turn(4, seconds=LONG)
    assert [0] == ids(world)
    assert world.status("chat").failure is None
    assert world.decision("chat").events == ()


def test_what_waits_promises_nothing_and_what_runs_counts_as_anyones() -> None:
    """S2: a pool beside it gets what is free, and nothing that Kueue's pods hold."""
    world = kueue_world(boards=1)
    world.turn(2)
    world.pools["plain"] = pool("plain", pool_spec(8, external(1)))
    world.turn()
    assert [("b-0",)] == world.nodes_of("plain")
    other = running()
    other.pools["plain"] = pool("plain", pool_spec(8, external(3)))
    other.turn()
    assert {("b-0",), ("b-2",)} == set(other.nodes_of("plain"))
    assert "NoSlot" == other.condition("plain", "Placed")[1]


def test_an_admitted_replica_is_placed_and_serves() -> None:
    world = running()
    assert ("True", "AllPlaced") == world.condition("chat", "Placed")[:2]
    assert [()] == world.nodes_of("chat")


def test_pods_that_kueue_let_go_and_nobody_binds_are_tried_anew() -> None:
    """The minute counts from the last gate, whoever took it off."""
    world = kueue_world()
    world.scheduler_works = False
    world.turn(3, seconds=LONG)
    world.admitted["chat", 0] = ("b-0",)
    world.turn(3, seconds=5)
    assert [0] == ids(world)
    world.turn(2, seconds=70)
    assert 0 not in ids(world)
    failure = world.status("chat").failure
    assert failure is not None
    assert Reason.SchedulingTimedOut is failure.explanation.reason


def test_a_preempted_replica_queues_again_under_a_new_id() -> None:
    world = running()
    evict(world, "Preempted")
    world.turn()
    assert [1] == ids(world)
    (event,) = world.decision("chat").events
    assert Reason.EvictedByScheduler is event.reason
    assert "Preempted: to accommodate a workload" in event.message
    assert world.status("chat").failure is None
    assert "WaitingForQuota" == world.condition("chat", "Placed")[1]


@pytest.mark.parametrize("reason", ["PodsReadyTimeout", "Deactivated", "AdmissionCheck"])
def test_an_eviction_that_would_repeat_itself_is_answered_with_a_pause(reason: str) -> None:
    world = running()
    evict(world, reason)
    world.turn()
    assert [] == ids(world)
    assert ("False", "BackingOff") == world.condition("chat", "Placed")[:2]
    world.turn(2, seconds=30)
    assert [1] == ids(world)


def test_an_eviction_just_after_the_start_is_answered_with_a_pause() -> None:
    """Whoever preempts at once may do so again: no storm."""
    world = kueue_world()
    world.turn(3, seconds=LONG)
    world.admitted["chat", 0] = ("b-1",)
    world.turn(3, seconds=5)
    evict(world, "Preempted")
    world.turn()
    assert ("False", "BackingOff") == world.condition("chat", "Placed")[:2]


def test_a_replica_that_kueue_will_never_let_go_is_replaced() -> None:
    world = kueue_world()
    world.turn(3)
    say(world, 0, Stated("Finished", holds=True, reason="FailedToStart", message="node selectors conflict"))
    world.turn()
    assert 0 not in ids(world)
    assert "Kueue gave it up: node selectors conflict" in world.decision("chat").events[0].message


def test_a_pod_that_somebody_else_deletes_is_not_blamed_on_kueue() -> None:
    world = running()
    world.pods["chat-0-0"] = replace(world.pods["chat-0-0"], terminating=True, ready=False)
    world.turn()
    assert Reason.PodDeleted is world.decision("chat").events[0].reason


def test_the_node_that_kueue_picked_is_watched_as_any() -> None:
    world = running()
    world.nodes[1] = replace(world.nodes[1], ready=False)
    world.turn()
    assert (("b-1", world.now),) == world.memory["uid-chat"].nodes_away
    world.turn(2, seconds=31)
    assert [1] == ids(world)


def test_scaling_in_takes_those_that_wait_before_those_that_serve() -> None:
    world = kueue_world(replicas=3)
    world.admitted["chat", 1] = ("b-0",)
    world.turn(6)
    world.edit("chat", of_kueue(pool_spec(8, external(1))))
    world.turn(2)
    assert [1] == ids(world)


@pytest.mark.parametrize(
    ("queueing", "reason", "words"),
    [
        (Queueing(), "SchedulerMissing", "Kueue is not installed"),
        (Queueing(installed=True, queues=(QueueRecord("other", "llm"),)), "QueueMissing", "no LocalQueue llm"),
        (replace(KUEUE, queues=(QueueRecord("team", "batch"),)), "QueueMissing", "it has batch"),
        (replace(KUEUE, refused=("localqueues",)), "NotPermitted", "localqueues"),
    ],
)
def test_nothing_is_created_where_the_queue_is_missing_and_it_recovers(
    queueing: Queueing, reason: str, words: str
) -> None:
    """L2: as soon as the administrator has made what was missing, the pool goes on by itself."""
    world = kueue_world(queueing=queueing)
    world.turn(2)
    status, said, message = world.condition("chat", "Placed")
    assert ("False", reason) == (status, said)
    assert words in message
    assert [] == ids(world)
    assert {} == world.pods
    world.queueing = KUEUE
    world.turn()
    assert [0] == ids(world)


def test_nothing_is_handed_over_where_only_a_driver_names_the_accelerator() -> None:
    """Kueue goes by labels: without one the pods could land on any other kind of GPU."""
    world = kueue_world(boards=0)
    world.nodes = [node("n-0", {HOSTNAME: "n-0"}, 8)]
    slices = DeviceReport("s", "n-0", "gpu.nvidia.com", "n-0", 1, (("NVIDIA H200", 141 * GIB, 8),))
    found = decide(replace(world.snapshot(), reports=Reports(devices=(slices,))), load()).pools[0]
    assert () == found.status.assignments
    (placed,) = (each.explanation for each in found.conditions if each.kind == "Placed")
    assert Reason.AcceleratorUnknown is placed.reason
    assert placed.message.endswith("run kubectl label node NAME weft.dev/accelerator=H200")


def test_running_replicas_stay_when_the_queue_goes() -> None:
    world = running()
    world.queueing = Queueing()
    world.turn(2)
    assert [0] == ids(world)
    assert 1 == world.serving("chat")


def test_a_plan_that_nobody_asked_kueue_about_says_so() -> None:
    """`weft plan` from files: shape and count are decided, the place is not."""
    world = kueue_world(queueing=None)
    world.turn()
    assert ("Unknown", "NothingToPlace") == world.condition("chat", "Placed")[:2]
    assert "True" == world.condition("chat", "Planned")[0]


def racks_world(nodes: list[NodeRecord], *topologies: tuple[str, ...]) -> World:
    """A pool of four-pod replicas on two racks of 16 trays."""
    world = World.of(nodes, pool("chat", of_kueue(expert_spec(4, 4, external(1)))))
    world.queueing = replace(KUEUE, topologies=topologies)
    return world


def test_a_replica_of_several_pods_asks_for_the_level_that_is_the_nvlink_domain() -> None:
    """S9, by the nodes themselves: the zone is too wide, the host too narrow."""
    zoned = [
        replace(each, labels=(*each.labels, ("zone", "z"), (HOSTNAME, each.name)))
        for each in (*rack("a.1", 16), *rack("b.1", 16))
    ]
    world = racks_world(zoned, ("zone", CLIQUE, HOSTNAME))
    world.turn()
    (assignment,) = world.status("chat").assignments
    product = ("nvidia.com/gpu.product", ("NVIDIA-GB200",))
    assert Handover(SchedulerName.Kueue, "llm", 4, CLIQUE, 4, product) == assignment.handover


def test_without_a_level_that_keeps_nvlink_together_nothing_is_handed_over() -> None:
    world = racks_world([*rack("a.1", 16), *rack("b.1", 16)], (HOSTNAME,))
    world.turn()
    assert ("False", "NoTopologyLevel") == world.condition("chat", "Placed")[:2]
    assert f"add a level with nodeLabel {CLIQUE}" in world.condition("chat", "Placed")[2]
    assert [] == ids(world)


def test_the_level_stays_with_the_replica_when_the_topology_changes() -> None:
    """What its first pod asked for, its last one asks for too."""
    world = racks_world([*rack("a.1", 16), *rack("b.1", 16)], (CLIQUE,))
    world.turn()
    before = [each.handover for each in world.status("chat").assignments]
    assert world.queueing is not None
    world.queueing = replace(world.queueing, topologies=(("another",),))
    world.turn(2)
    assert before == [each.handover for each in world.status("chat").assignments]


@pytest.mark.parametrize("turns", range(8))
def test_a_second_pass_on_its_own_result_changes_nothing(turns: int) -> None:
    """L3 and L5, at each step from the queue to serving and back into the queue."""
    world = kueue_world()
    world.admitted["chat", 0] = ("b-1",)
    world.turn(turns, seconds=20)
    if turns > 6:
        evict(world, "Preempted")
    first = world.decide()
    again = world.decide()
    assert first.pools[0].conditions == again.pools[0].conditions
    assert first.pools[0].status == again.pools[0].status


@pytest.mark.parametrize("turns", range(1, 8))
def test_a_restarted_operator_decides_the_same(turns: int) -> None:
    """L5: nothing about a queue is kept in memory alone."""
    world = kueue_world()
    world.admitted["chat", 0] = ("b-1",)
    world.turn(turns, seconds=20)
    known = world.decide().pools[0]
    world.memory = {}
    assert known.status.assignments == world.decide().pools[0].status.assignments


def test_an_engine_that_ends_is_a_failure_of_its_own() -> None:
    """An engine that ends in Kueue's pods is replaced as anywhere."""
    world = running()
    world.pods["chat-0-0"] = replace(world.pods["chat-0-0"], phase=PodPhase.Failed, ready=False)
    world.turn()
    failure = world.status("chat").failure
    assert failure is not None
    assert Reason.EngineFailedSilently is failure.explanation.reason


def test_one_whose_node_stays_silent_queues_anew_though_nothing_has_room() -> None:
    """Room is none of its questions: that of Kueue waits in the queue, and another pool's waits for its node."""
    world = kueue_world(boards=1)
    world.admitted["chat", 0] = ("b-0",)
    world.turn(6, seconds=30)
    assert world.serving("chat") == 1
    world.nodes = [replace(each, ready=False) for each in world.nodes]
    world.turn(2, seconds=40)
    assert [1] == ids(world)
