"""Replicas that end: the reason in the engine's own words, back-off, and what is no failure at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from tests.scaling.cases import seen
from weft.decide.replicas.health import SCHEDULING_SECONDS, Loss
from weft.decide.rollouts.backoff import failed_again, remaining_seconds, wait_seconds
from weft.domain.cluster import ContainerFailure, PodPhase
from weft.domain.reasons import Explanation, Reason
from weft.domain.status import Assignment, Failure

OUT_OF_MEMORY = ContainerFailure("Error", "ValueError: No available memory for the cache blocks.", exit_code=1)
# vLLM 0.32 on the CPU, recorded when the other pod's rank was killed while a request ran.
LOST_A_PEER = (
    "(Worker_TP0 pid=35) ERROR 11-22 22:05:57 [multiproc_executor.py:1063] RuntimeError: "
    "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.80.1.5]:24776: "
    "Connection reset by peer. This is typically caused by a remote worker hanging or bugs in the application.\n"
)


def serving_world(replicas: int = 1, boards: int = 3) -> World:
    world = World.of([board(f"b-{i}") for i in range(boards)], pool("chat", pool_spec(8, external(replicas))))
    world.turn(5)
    assert world.serving("chat") == replicas
    return world


def failure_of(world: World) -> tuple[Reason, int]:
    failure = world.status("chat").failure
    assert failure is not None
    return failure.explanation.reason, failure.count


def failure_of_pool(world: World, name: str) -> tuple[Reason, str]:
    failure = world.status(name).failure
    assert failure is not None
    return failure.explanation.reason, failure.explanation.message


def test_an_engine_that_ends_is_replaced_under_a_new_id_with_its_own_error_line() -> None:
    world = serving_world()
    world.end("chat-0-0", OUT_OF_MEMORY)
    world.turn()
    assert world.status("chat").assignments == ()
    assert failure_of(world) == (Reason.EngineFailed, 1)
    assert "No available memory for the cache blocks" in world.condition("chat", "Placed")[2]
    assert world.condition("chat", "Placed")[1] == "BackingOff"
    world.turn(3)
    assert [each.replica for each in world.status("chat").assignments] == [1]
    world.turn(4)
    assert world.serving("chat") == 1


def test_a_crash_loop_creates_one_replica_per_back_off_step() -> None:
    """10 s, 20 s, 40 s ... up to 5 min between attempts, counted over half an hour."""
    world = serving_world()
    world.engines_start = False
    started = world.status("chat").next_replica
    for _ in range(360):
        for name, pod in list(world.pods.items()):
            if pod.phase is PodPhase.Running:
                world.end(name, OUT_OF_MEMORY)
        world.turn()
    attempts = world.status("chat").next_replica - started
    assert 6 <= attempts <= 12
    assert failure_of(world)[1] == attempts + 1 or failure_of(world)[1] == attempts


def test_replicas_that_fail_one_after_another_are_one_attempt() -> None:
    """A board with a bad driver takes its eight replicas along within seconds: that is no reason to wait 5 minutes."""
    world = serving_world(replicas=3)
    for name in ("chat-0-0", "chat-1-0", "chat-2-0"):
        world.end(name, OUT_OF_MEMORY)
        world.turn(seconds=2)
    assert failure_of(world) == (Reason.EngineFailed, 1)
    world.turn(8)
    assert world.serving("chat") == 3


def test_a_new_revision_does_not_wait() -> None:
    world = serving_world()
    for _ in range(4):
        world.turn(10)
        for name in [name for name, pod in world.pods.items() if pod.phase is PodPhase.Running]:
            world.end(name, OUT_OF_MEMORY)
        world.turn()
    assert world.condition("chat", "Placed")[1] == "BackingOff"
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, engine=replace(spec.engine, env=(("FIX", "1"),))))
    world.turn()
    assert len(world.status("chat").assignments) == 1
    assert world.status("chat").failure is None


def test_ten_good_minutes_forgive() -> None:
    world = serving_world()
    world.end("chat-0-0", OUT_OF_MEMORY)
    world.turn(110)
    assert failure_of(world)[1] == 1
    world.turn(20)
    assert world.serving("chat") == 1
    assert world.status("chat").failure is None


def test_the_wait_says_when_it_ends() -> None:
    world = serving_world()
    world.end("chat-0-0", OUT_OF_MEMORY)
    world.turn()
    assert world.last is not None
    assert world.last.wake_after_seconds == 10


def test_a_deleted_pod_is_no_failure_and_is_replaced_at_once() -> None:
    world = serving_world()
    world.turn(12)
    world.pods["chat-0-0"] = replace(world.pods["chat-0-0"], terminating=True)
    world.turn()
    assert [each.replica for each in world.status("chat").assignments] == [1]
    assert world.status("chat").failure is None
    assert [event.reason for event in world.decision("chat").events] == [Reason.PodDeleted]


@pytest.mark.parametrize("unseen", [True, False], ids=["by force", "with grace"])
def test_whoever_takes_every_pod_away_is_answered_ever_more_slowly(unseen: bool) -> None:  # noqa: FBT001
    """F12: another controller that deletes what Weft creates gets no fight, but the back-off of a failure."""
    world = World.of([board("b-0")], pool("chat", pool_spec()))
    for _ in range(360):
        world.turn()
        for name, pod in list(world.pods.items()):
            if unseen and not pod.gated:
                del world.pods[name]
            elif not pod.gated:
                world.pods[name] = replace(pod, terminating=True)
    assert 6 <= world.status("chat").next_replica <= 14
    assert failure_of(world)[0] is Reason.PodDeleted


def test_a_replica_of_which_a_part_stays_gated_is_placed_anew() -> None:
    """The operator died between two gates, and meanwhile somebody took the slot of the second."""
    from tests.fabric.cluster import rack  # noqa: PLC0415 - only some cases have a rack

    world = World.of(rack("a.1", 9), pool("moe", pool_spec(16, accelerator="GB200")))
    world.turn(4)
    ranks = {name: pod for name, pod in world.pods.items() if name.startswith("moe-0-")}
    world.pods["moe-0-3"] = replace(ranks["moe-0-3"], gated=True, node=None, phase=PodPhase.Pending, ready=False)
    first = min(pod.released for name, pod in world.pods.items() if name in ranks and pod.released is not None)
    for seconds, replicas in ((30.0, [0]), (40.0, [])):
        world.now += seconds
        wakes_in = world.decide().wake_after_seconds
        assert [each.replica for each in world.status("moe").assignments] == replicas
        assert not replicas or wakes_in == pytest.approx(first + SCHEDULING_SECONDS - world.now)
    assert [event.reason for event in world.decision("moe").events] == [Reason.SlotTaken]


def test_the_pass_that_gives_up_what_nobody_schedules_comes_by_itself() -> None:
    """When the grace of the first that waits is over."""
    world = World.of([board("b-0"), board("b-1")], pool("chat", pool_spec(8, external(1))))
    world.scheduler_works = False
    world.turn(2)
    released = world.now
    world.turn(2)
    world.edit("chat", pool_spec(8, external(2)))
    world.turn(2)
    assert [0, 1] == [each.replica for each in world.status("chat").assignments]
    assert world.decide().wake_after_seconds == pytest.approx(released + SCHEDULING_SECONDS - world.now)


def test_a_node_that_is_gone_loses_its_replica_at_once() -> None:
    world = serving_world()
    lost = world.nodes_of("chat")[0][0]
    world.nodes = [node for node in world.nodes if node.name != lost]
    world.turn()
    assert world.nodes_of("chat")[0][0] != lost
    assert [event.reason for event in world.decision("chat").events] == [Reason.NodeLost]


def test_a_silent_node_loses_its_replica_after_thirty_seconds_and_not_before() -> None:
    world = serving_world()
    lost = world.nodes_of("chat")[0][0]
    world.nodes = [replace(node, ready=node.name != lost) for node in world.nodes]
    world.turn(6)
    assert (lost,) in world.nodes_of("chat")
    world.turn(2)
    assert (lost,) not in world.nodes_of("chat")


def test_a_node_that_comes_back_in_time_keeps_its_replica() -> None:
    world = serving_world()
    nodes = world.nodes
    world.nodes = [replace(node, ready=False) for node in nodes]
    world.turn(5)
    world.nodes = nodes
    world.turn(1)
    world.nodes = [replace(node, ready=False) for node in nodes]
    world.turn(5)
    assert [each.replica for each in world.status("chat").assignments] == [0]


def test_pods_that_nobody_schedules_are_given_up_after_a_minute() -> None:
    world = World.of([board("b-0")], pool("chat", pool_spec()))
    world.scheduler_works = False
    world.turn(13)
    assert [each.replica for each in world.status("chat").assignments] == [0]
    world.pods["chat-0-0"] = replace(world.pods["chat-0-0"], message="0/1 nodes are available: volume node affinity")
    world.turn(2)
    assert failure_of(world) == (Reason.SchedulingTimedOut, 1)
    assert "volume node affinity" in world.condition("chat", "Placed")[2]


def test_what_the_scheduler_says_is_told_before_the_minute_is_over() -> None:
    """And told once: the same words again change nothing (L3)."""
    world = World.of([board("b-0"), board("b-1")], pool("chat", pool_spec(8, external(2))))
    world.scheduler_works = False
    world.turn(3)
    assert (
        world.condition("chat", "Placed")[2]
        == "2 replicas placed: H200 BF16 TP8, at most 1 of them in one NVLink domain"
    )
    world.pods["chat-1-0"] = replace(world.pods["chat-1-0"], message="Insufficient memory")
    world.turn()
    told = world.condition("chat", "Placed")
    assert told[:2] == ("True", "AllPlaced")
    assert told[2].endswith("; pod chat-1-0 waits for the scheduler: Insufficient memory")
    world.turn(4)
    assert world.condition("chat", "Placed") == told
    world.scheduler_works = True
    world.turn(2)
    assert (
        world.condition("chat", "Placed")[2]
        == "2 replicas placed: H200 BF16 TP8, at most 1 of them in one NVLink domain"
    )


def test_a_replica_of_several_pods_lives_and_dies_whole() -> None:
    from tests.fabric.cluster import rack  # noqa: PLC0415 - only this case has a rack

    world = World.of(rack("a.1", 5), pool("moe", pool_spec(16, accelerator="GB200")))
    world.turn(6)
    assert world.serving("moe") == 1
    world.end("moe-0-2", OUT_OF_MEMORY)
    world.turn()
    assert world.status("moe").assignments == ()
    assert "replica 0: pod moe-0-2: ValueError: No available memory" in world.condition("moe", "Placed")[2]
    world.turn(9)
    assert world.serving("moe") == 1
    del world.pods["moe-1-3"]
    world.turn()
    assert [event.reason for event in world.decision("moe").events] == [Reason.PodDeleted]


def test_the_rank_that_failed_is_told_before_those_that_lost_it() -> None:
    """Within one look both have ended: the leader says that a peer is gone, and the worker why."""
    from tests.fabric.cluster import rack  # noqa: PLC0415 - only this case has a rack too

    world = World.of(rack("a.1", 5), pool("moe", pool_spec(16, accelerator="GB200")))
    world.turn(6)
    world.end("moe-0-0", ContainerFailure("Completed", "", 0, log_tail=LOST_A_PEER))
    world.end("moe-0-3", OUT_OF_MEMORY)
    world.turn()
    assert failure_of_pool(world, "moe") == (
        Reason.EngineFailed,
        "replica 0: pod moe-0-3: ValueError: No available memory for the cache blocks.",
    )


def test_a_leader_that_only_lost_a_peer_says_so() -> None:
    from tests.fabric.cluster import rack  # noqa: PLC0415 - as above

    world = World.of(rack("a.1", 5), pool("moe", pool_spec(16, accelerator="GB200")))
    world.turn(6)
    world.end("moe-0-0", ContainerFailure("Completed", "", 0, log_tail=LOST_A_PEER))
    world.turn()
    reason, message = failure_of_pool(world, "moe")
    assert reason is Reason.EngineCoreDied
    assert "Connection reset by peer" in message
    assert "moe-0-0" in message


@pytest.mark.parametrize("restarted", [False, True], ids=["running on", "restarted"])
def test_a_replica_that_vanished_without_a_trace_is_replaced_under_a_new_id(restarted: bool) -> None:  # noqa: FBT001
    """As by `kubectl delete --force`: nobody sees the pod end, and a new process remembers nothing."""
    world = serving_world()
    world.turn(12)
    del world.pods["chat-0-0"]
    world.memory = {} if restarted else world.memory
    world.turn()
    assert [event.reason for event in world.decision("chat").events] == [Reason.PodDeleted]
    assert [each.replica for each in world.status("chat").assignments] == [1]
    world.turn(4)
    assert set(world.pods) == {"chat-1-0"}
    assert world.serving("chat") == 1


def test_a_replica_that_vanished_with_its_node_is_moved() -> None:
    """The node object is deleted and its pods are garbage-collected between two looks."""
    world = serving_world()
    (lost,) = world.nodes_of("chat")[0]
    world.nodes = [node for node in world.nodes if node.name != lost]
    world.pods.clear()
    world.turn()
    assert [event.reason for event in world.decision("chat").events] == [Reason.NodeLost]
    assert [each.replica for each in world.status("chat").assignments] == [1]


def test_a_gated_pod_that_was_not_created_yet_is_no_loss() -> None:
    world = World.of([board("b-0")], pool("chat", pool_spec()))
    world.turn()
    world.pods.clear()
    world.turn(5)
    assert [each.replica for each in world.status("chat").assignments] == [0]
    assert world.serving("chat") == 1


def test_what_was_created_is_released_although_the_plan_became_invalid() -> None:
    """A replica under way is not left behind its gates."""
    world = World.of([board("b-0")], pool("chat", pool_spec()))
    world.turn()
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, model=replace(spec.model, model_id="nobody/knows")))
    world.turn(4)
    assert world.serving("chat") == 1
    assert world.condition("chat", "Placed")[2] == "there is no valid plan; 1 replica keeps its place"
    scale = world.status("chat").scale
    assert scale is not None
    assert scale.message.startswith("held at 1 replica: ")


def test_without_a_valid_plan_what_comes_is_shown_as_before() -> None:
    world = serving_world(2)
    world.observations["uid-chat"] = seen(3.0, 2)
    world.turn()
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, model=replace(spec.model, model_id="nobody/knows")))
    world.observations["uid-chat"] = seen(5.0, 2)
    world.turn()
    observed = world.status("chat").observed
    assert observed is not None
    assert 5.0 == observed.requests_per_second


def test_without_a_valid_plan_nothing_is_given_up() -> None:
    """Nothing could replace what is given up, so a broken spec takes down no replica."""
    world = serving_world(2)
    before = world.status("chat").assignments
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, model=replace(spec.model, model_id="nobody/knows")))
    world.turn(3)
    assert world.status("chat").assignments == before
    assert world.condition("chat", "Planned")[:2] == ("False", "ModelUnknown")
    world.edit("chat", spec)
    world.turn()
    assert world.condition("chat", "Planned")[0] == "True"
    assert world.status("chat").assignments == before


@pytest.mark.parametrize(("later", "count"), [(5.0, 1), (15.0, 2)])
def test_what_was_placed_together_fails_together_until_the_wait_is_over(later: float, count: int) -> None:
    """Of two replicas that were placed at once the second counts as a failure of its own after the first back-off."""
    told = Explanation(Reason.EngineFailed, "")
    loss = Loss(Assignment(0, "r", ("b-0",), 8, 0.0), told, counts=True)
    first = failed_again(None, [loss], "r", 1000.0)
    assert first == Failure("r", 1, 1000.0, told)
    second = failed_again(first, [replace(loss, assignment=replace(loss.assignment, replica=1))], "r", 1000.0 + later)
    assert second is not None
    assert second.count == count


def test_who_was_placed_since_the_last_failure_counts_though_others_still_wait() -> None:
    """It had a turn of its own: a spec that was edited back, or room that was there at once."""
    before = Failure("r", 1, 1000.0, Explanation(Reason.EngineFailed, ""))
    later = Loss(Assignment(1, "r", ("b-0",), 8, 1002.0), Explanation(Reason.EngineFailed, ""), counts=True)
    found = failed_again(before, [later], "r", 1005.0)
    assert found is not None
    assert (2, 1005.0) == (found.count, found.last)


def test_a_clock_that_is_set_back_makes_nobody_wait_longer_than_the_whole_time() -> None:
    failure = Failure("r", 3, 1000.0, Explanation(Reason.EngineFailed, ""))
    assert wait_seconds(failure) == remaining_seconds(failure, 400.0)
