"""A node that did not take or start a replica comes last for the next one, for an hour and whoever decides by then."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decide.test_kueue import KUEUE
from tests.decide.world import World, expert_spec, external, of_kueue, pool, pool_spec
from tests.fabric.cluster import board, busy, rack
from weft.decide.replicas.health import AssignedReplica, Loss, Surroundings, a_pod_has_ended
from weft.decide.rollouts.avoidance import avoided_after
from weft.domain.cluster import ContainerFailure, PodPhase, PodRecord
from weft.domain.reasons import Explanation, Reason
from weft.domain.status import MOST_AVOIDED, Assignment, Avoided

BROKEN_RUNTIME = ContainerFailure("RunContainerError", "nvidia-container-cli: initialization error: nvml error", None)
CRASH = ContainerFailure("Error", "RuntimeError: CUDA error: uncorrectable ECC error encountered", 1)
HOUR = 3600.0


def on_a_bad_node(world: World, turns: int, bad: str = "b-0", failure: ContainerFailure = BROKEN_RUNTIME) -> None:
    """Time goes on, and every engine on one node ends as soon as its pod is there."""
    for _ in range(turns):
        world.turn()
        for pod in list(world.pods.values()):
            if pod.identity is not None and pod.node == bad and pod.phase is PodPhase.Running:
                world.end(pod.name, failure)


def tighter_on_the_bad_one(replicas: int = 1, boards: int = 2) -> World:
    """Replicas of four GPUs, of which the first fits best on `b-0`: half of that board is taken."""
    nodes = [board(f"b-{index}") for index in range(boards)]
    return World.of(nodes, pool("chat", pool_spec(4, external(replicas))), pods=[busy("job", "b-0", 4)])


def avoided(world: World) -> list[tuple[str, Reason]]:
    return [(each.node, each.reason) for each in world.status("chat").avoided]


def test_a_replica_that_did_not_start_goes_elsewhere_next_though_the_node_fits_best() -> None:
    world = tighter_on_the_bad_one()
    on_a_bad_node(world, 5)
    assert avoided(world) == [("b-0", Reason.EngineFailed)]
    told = world.condition("chat", "Placed")
    assert told[1] == "BackingOff"
    assert told[2].endswith("; other nodes than b-0 come first")
    on_a_bad_node(world, 8)
    assert world.nodes_of("chat") == [("b-1",)]
    assert world.serving("chat") == 1


def test_one_bad_node_costs_the_pool_one_short_wait() -> None:
    """Three replicas, one of them on the bad node: a minute later all serve, after one failure."""
    world = tighter_on_the_bad_one(replicas=3, boards=3)
    on_a_bad_node(world, 12)
    assert world.serving("chat") == 3
    failure = world.status("chat").failure
    assert failure is not None
    assert failure.count == 1


def test_a_new_process_avoids_the_same_nodes() -> None:
    """L5: what is avoided is in the status."""
    world = tighter_on_the_bad_one()
    on_a_bad_node(world, 5)
    world.memory = {}
    on_a_bad_node(world, 8)
    assert world.nodes_of("chat") == [("b-1",)]


def test_a_node_is_taken_where_nothing_else_has_room() -> None:
    world = tighter_on_the_bad_one(boards=1)
    on_a_bad_node(world, 5)
    assert avoided(world) == [("b-0", Reason.EngineFailed)]
    world.turn(8)
    assert world.nodes_of("chat") == [("b-0",)]
    assert world.serving("chat") == 1


@pytest.mark.parametrize(("seconds", "node"), [(HOUR / 2, "b-1"), (HOUR, "b-0")])
def test_after_an_hour_the_node_is_one_like_any_other(seconds: float, node: str) -> None:
    world = tighter_on_the_bad_one()
    on_a_bad_node(world, 13)
    assert world.nodes_of("chat") == [("b-1",)]
    world.now += seconds
    for name in [name for name, pod in world.pods.items() if pod.identity is not None]:
        del world.pods[name]
    world.turn()
    assert world.nodes_of("chat") == [(node,)]


def test_nothing_is_told_of_nodes_that_another_scheduler_picks() -> None:
    """Kueue knows nothing of them, so that they come neither last nor first."""
    world = World.of([board("b-0"), board("b-1")], pool("chat", of_kueue(pool_spec(4, external(1)))))
    world.queueing = KUEUE
    world.admitted["chat", 0] = ("b-0",)
    on_a_bad_node(world, 5)
    _, reason, told = world.condition("chat", "Placed")
    assert reason == "BackingOff"
    assert "come first" not in told
    assert avoided(world) == []


def test_an_engine_that_served_for_long_says_nothing_of_its_node() -> None:
    world = tighter_on_the_bad_one()
    world.turn(5)
    assert world.nodes_of("chat") == [("b-0",)]
    world.now += HOUR
    world.turn()
    world.end("chat-0-0", CRASH)
    world.turn()
    assert avoided(world) == []
    world.turn(8)
    assert world.nodes_of("chat") == [("b-0",)]


@pytest.mark.parametrize(("start_seconds", "suspects"), [(200.0, ("b-0",)), (50.0, ())])
def test_how_long_a_replica_has_to_serve_is_counted_from_when_it_should_have_started(
    start_seconds: float, suspects: tuple[str, ...]
) -> None:
    """One that ended after 700 s served for eleven minutes, or has hardly loaded a large model."""
    pod = PodRecord("team", "chat-0-0", "uid", PodPhase.Failed, "b-0", (), failure=CRASH)
    around = Surroundings(700.0, {}, {}, lambda _, text: Explanation(Reason.EngineFailed, text), start_seconds)
    loss = a_pod_has_ended(AssignedReplica(Assignment(0, "r", ("b-0",), 8, 0.0), (pod,)), around)
    assert loss is not None
    assert loss.suspects == suspects


def test_of_a_replica_of_several_pods_the_node_of_the_one_that_tells_is_avoided() -> None:
    world = World.of(rack("a.1", 5), pool("chat", expert_spec(1, 16)))
    world.turn(5)
    (nodes,) = world.nodes_of("chat")
    world.end("chat-0-2", CRASH)
    world.turn()
    assert avoided(world) == [(nodes[2], Reason.EngineFailed)]
    world.turn(8)
    (again,) = world.nodes_of("chat")
    assert nodes[2] not in again
    assert set(again) > set(nodes) - {nodes[2]}


def test_a_node_that_the_scheduler_refuses_is_avoided_too() -> None:
    world = tighter_on_the_bad_one()
    world.scheduler_works = False
    world.turn(16)
    assert avoided(world) == [("b-0", Reason.SchedulingTimedOut)]
    world.memory, world.scheduler_works = {}, True
    world.turn(8)
    assert world.nodes_of("chat") == [("b-1",)]


def test_what_is_avoided_stays_through_a_spec_that_cannot_be_planned() -> None:
    world = tighter_on_the_bad_one()
    on_a_bad_node(world, 5)
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, model=replace(spec.model, model_id="nobody/knows")))
    world.turn()
    assert avoided(world) == [("b-0", Reason.EngineFailed)]


def test_a_second_pass_of_the_same_moment_says_the_same() -> None:
    world = tighter_on_the_bad_one()
    on_a_bad_node(world, 4)
    for _ in range(4):
        first = world.decide()
        assert world.decide() == replace(first, pools=tuple(replace(each, events=()) for each in first.pools))
        on_a_bad_node(world, 1)


LOSSES = st.lists(
    st.builds(
        Loss,
        st.just(Assignment(0, "r", (), 8, 0.0)),
        st.builds(Explanation, st.sampled_from([Reason.EngineFailed, Reason.SchedulingTimedOut]), st.just("")),
        st.booleans(),
        st.lists(st.integers(0, 99).map("b-{}".format), max_size=40).map(tuple),
    ),
    max_size=4,
)


def test_the_latest_are_known_where_the_clock_was_set_back_and_too_many_are_avoided() -> None:
    many = tuple(Avoided(f"b-{index}", 1_000_000.0, Reason.EngineFailed) for index in range(MOST_AVOIDED))
    loss = Loss(Assignment(0, "r", (), 8, 0.0), Explanation(Reason.EngineFailed, ""), counts=True, suspects=("new",))
    known = avoided_after(many, [loss], 1_000_000.0 - HOUR)
    assert Avoided("new", 1_000_000.0 - HOUR, Reason.EngineFailed) in known
    assert len(known) == MOST_AVOIDED
    assert avoided_after(known, [], 1_000_000.0 + 1) == ()


def test_a_replica_of_more_nodes_than_are_remembered_crowds_out_all_others() -> None:
    """None of which a negative number of places would leave."""
    known = tuple(Avoided(f"a-{index}", 1_000_000.0, Reason.EngineFailed) for index in range(10))
    wide = tuple(f"b-{index}" for index in range(MOST_AVOIDED + 5))
    loss = Loss(Assignment(0, "r", (), 8, 0.0), Explanation(Reason.SchedulingTimedOut, ""), counts=True, suspects=wide)
    found = avoided_after(known, [loss], 1_000_001.0)
    assert len(found) == MOST_AVOIDED
    assert {each.node for each in found} <= set(wide)


@given(passes=st.lists(st.tuples(LOSSES, st.sampled_from([0.0, 5.0, 600.0, HOUR, -HOUR])), max_size=8))
def test_each_node_is_avoided_once_for_an_hour_at_most_and_not_too_many_are(
    passes: list[tuple[list[Loss], float]],
) -> None:
    known: tuple[Avoided, ...] = ()
    now = 1_000_000.0
    for losses, seconds in passes:
        now += seconds
        known = avoided_after(known, losses, now)
        suspects = {node for loss in losses for node in loss.suspects}
        names = [each.node for each in known]
        assert len(names) == len(set(names)) <= MOST_AVOIDED
        assert len(suspects & set(names)) == min(len(suspects), MOST_AVOIDED)
        assert all(abs(now - each.since) < HOUR for each in known)
        assert avoided_after(known, [], now) == known
