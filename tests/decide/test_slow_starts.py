"""How long a start may take is the user's to say: a pod that hangs on its node is waited for no longer than that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board, busy
from weft.decide.replicas.health import AssignedReplica, Surroundings, a_pod_has_ended
from weft.domain.cluster import ContainerFailure, PodIdentity, PodPhase, PodRecord
from weft.domain.reasons import Reason
from weft.domain.spec import RolloutSpec
from weft.domain.status import Assignment

TEN_MINUTES = 600.0


def on_a_node_that_hangs(limit: float | None, *, unprepared: bool = True) -> World:
    """A replica on the node where it fits best, whose volume the node never mounts, or whose image never comes."""
    spec = replace(pool_spec(4, external(1)), rollout=RolloutSpec(start_timeout_seconds=limit))
    world = World.of([board("b-0"), board("b-1")], pool("chat", spec), pods=[busy("job", "b-0", 4)])
    world.turn(3)
    hang(world, unprepared=unprepared)
    return world


def hang(world: World, *, unprepared: bool = True) -> None:
    for name, pod in world.pods.items():
        if pod.identity is not None and pod.node == "b-0":
            world.pods[name] = replace(pod, phase=PodPhase.Pending, ready=False, unprepared=unprepared)


def waits(world: World, seconds: float) -> None:
    """Time goes on, and the node gets no further."""
    for _ in range(round(seconds / 30)):
        world.turn(seconds=30)
        hang(world)


@pytest.mark.parametrize(
    ("unprepared", "lacks"), [(True, "volumes, devices or network"), (False, "images, or weights that are downloaded")]
)
def test_a_pod_that_hangs_is_replaced_on_another_node(lacks: str, *, unprepared: bool) -> None:
    world = on_a_node_that_hangs(TEN_MINUTES, unprepared=unprepared)
    world.now += TEN_MINUTES
    world.turn()
    failure = world.status("chat").failure
    assert failure is not None
    assert failure.explanation.reason is Reason.StartTimedOut
    told = failure.explanation.message
    assert f"chat-0-0 still waits for {lacks}" in told
    assert "on b-0 after 10 min: kubectl get events -n team --field-selector involvedObject.name=chat-0-0" in told
    assert told.endswith("spec.rollout.startTimeout allows more")
    waits(world, 120)
    assert world.nodes_of("chat") == [("b-1",)]
    assert world.serving("chat") == 1


@pytest.mark.parametrize("limit", [None, 24 * TEN_MINUTES])
def test_it_is_waited_for_as_long_as_the_user_says(limit: float | None) -> None:
    """Unless they say so, nobody knows how slow their registry is."""
    world = on_a_node_that_hangs(limit)
    waits(world, 6 * TEN_MINUTES)
    assert world.nodes_of("chat") == [("b-0",)]
    assert world.status("chat").failure is None


def test_the_end_of_the_wait_comes_by_itself() -> None:
    """Nothing happens on a node that hangs, so that no event wakes anybody."""
    world = on_a_node_that_hangs(TEN_MINUTES)
    world.decide()
    assert world.last is not None
    due = world.last.wake_after_seconds
    assert due is not None
    assert 0.0 < due <= TEN_MINUTES


def test_one_that_serves_is_no_matter_of_its_start() -> None:
    spec = replace(pool_spec(4, external(1)), rollout=RolloutSpec(start_timeout_seconds=60.0))
    world = World.of([board("b-0")], pool("chat", spec))
    world.turn(5)
    world.now += 24 * TEN_MINUTES
    for name, pod in world.pods.items():
        world.pods[name] = replace(pod, ready=False)  # for a moment
    world.decide()
    assert world.nodes_of("chat") == [("b-0",)]


def test_a_node_whose_engine_never_answered_is_avoided_however_long_it_was_given() -> None:
    """One that ended long after it should have been ready had started well, and is not held against its node."""
    assert suspects_of(300.0) == suspects_of(300.0, unanswered_seconds=300.0) == ("n-0",)
    assert suspects_of(7200.0, unanswered_seconds=7200.0) == ("n-0",)
    assert suspects_of(7200.0) == ()


def test_the_pod_that_the_others_waited_for_is_blamed() -> None:
    """The first pod of several answers once all run, so that it is its kubelet that ends it, and its node is sound."""
    lagging = replace(member(1), phase=PodPhase.Pending, released=1000.0)
    loss = a_pod_has_ended(AssignedReplica(TWO, (ended(600.0), lagging)), around(1700.0))
    assert loss is not None
    assert loss.suspects == ("n-1",)
    assert loss.explanation.reason is Reason.StartTimedOut
    assert "chat-1 still waits for images, or weights that are downloaded first on n-1 after 11.7 min" in str(loss)


TWO = Assignment(0, "rev", ("n-0", "n-1"), 8, since=1000.0)


def member(rank: int) -> PodRecord:
    identity = PodIdentity("uid-chat", 0, rank, "rev")
    return PodRecord("team", f"chat-{rank}", f"u-{rank}", PodPhase.Running, f"n-{rank}", (), identity)


def ended(unanswered_seconds: float | None) -> PodRecord:
    failure = ContainerFailure("Error", "", 137, unanswered_seconds=unanswered_seconds)
    return replace(member(0), phase=PodPhase.Failed, failure=failure)


def around(now: float) -> Surroundings:
    return Surroundings(now, {}, {}, lambda pod, text: None, 60.0)  # noqa: ARG005 - a reader's arguments


def suspects_of(after: float, unanswered_seconds: float | None = None) -> tuple[str, ...]:
    """The nodes that are blamed for a replica whose first pod ends `after` so many seconds."""
    loss = a_pod_has_ended(AssignedReplica(TWO, (ended(unanswered_seconds), member(1))), around(1000.0 + after))
    assert loss is not None
    return loss.suspects


STOPPED = "(APIServer pid=1) KeyboardInterrupt: terminated"


def ends(failure: ContainerFailure) -> tuple[Reason, str]:
    world = World.of([board("b-0")], pool("chat", pool_spec(4, external(1))))
    world.turn(4)
    world.end("chat-0-0", failure)
    world.turn()
    told = world.status("chat").failure
    assert told is not None
    return told.explanation.reason, told.explanation.message


def test_an_engine_that_its_kubelet_ended_for_want_of_an_answer_is_called_slow() -> None:
    """Its last words are those of anything that is ended, and lead nobody to the cause."""
    reason, message = ends(ContainerFailure("Error", STOPPED, 1, unanswered_seconds=668.0))
    assert reason is Reason.StartTimedOut
    assert "the engine in pod chat-0-0 did not answer for 11.1 min and was ended" in message
    assert message.endswith("spec.rollout.startTimeout allows more")


def test_what_it_said_itself_comes_before_that() -> None:
    """An engine may hang after a failure."""
    cause = "(EngineCore pid=9) ValueError: No available memory for the cache blocks."
    reason, message = ends(ContainerFailure("Error", cause, 137, unanswered_seconds=668.0))
    assert reason is Reason.EngineFailed
    assert "No available memory" in message
