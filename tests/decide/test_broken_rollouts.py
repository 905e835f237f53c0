"""Rollouts whose new revision fails once it has served, and replicas that cease to answer while a rollout goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.limited import GPUS, limited
from tests.decide.test_drains import cordon
from tests.decide.test_hanging import hang
from tests.decide.test_rollouts import change, rolling_world
from tests.decide.world import external, pool, pool_spec
from tests.fabric.cluster import busy
from weft.decide.replicas.health import Loss
from weft.decide.rollouts.backoff import GOOD_SECONDS, failed_again
from weft.domain.cluster import ContainerFailure
from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import RolloutSpec, RolloutStrategy
from weft.domain.status import Assignment, Failure

if TYPE_CHECKING:
    from tests.decide.world import World

ENDS = ContainerFailure("Error", "RuntimeError: CUDA error: an illegal memory access was encountered", exit_code=1)
SERVES_SECONDS = 10.0
STEP = 5.0
RECREATE = RolloutSpec(strategy=RolloutStrategy.Recreate)


def old_ones(world: World) -> int:
    """Replicas of an earlier revision that are still assigned."""
    status = world.status("chat")
    return sum(each.revision != status.revision for each in status.assignments)


def starts(world: World, seconds: float) -> list[str]:
    """Engines of the new revision load their models, and answer nobody; gives their pods."""
    new: list[str] = []
    for _ in range(round(seconds / STEP)):
        world.turn(1, STEP)
        revision = world.status("chat").revision
        new = [name for name, pod in world.pods.items() if pod.identity and pod.identity.revision == revision]
        for name in new:
            world.pods[name] = replace(world.pods[name], ready=False)
    return new


def lasts(world: World, seconds: float) -> int:
    """New engines end a moment after each is ready; gives how few replicas served at any time."""
    ready: dict[str, float] = {}
    fewest = world.serving("chat")
    for _ in range(round(seconds / STEP)):
        world.turn(1, STEP)
        for pod in list(world.pods.values()):
            is_new = pod.identity and pod.identity.revision == world.status("chat").revision
            if is_new and pod.ready and world.now - ready.setdefault(pod.name, world.now) >= SERVES_SECONDS:
                world.end(pod.name, ENDS)
        fewest = min(fewest, world.serving("chat"))
    return fewest


@pytest.mark.parametrize("rollout", [RolloutSpec(), RolloutSpec(max_surge=0, max_unavailable=1)])
def test_replicas_that_serve_stay_while_engines_of_the_new_revision_end_after_they_were_ready(
    rollout: RolloutSpec,
) -> None:
    """Only those go that had gone before the first one ended; the message says who stays and until when."""
    world = rolling_world(4, 6, rollout)
    change(world)
    lasts(world, 60.0)
    stay = old_ones(world)
    assert stay >= 2
    assert lasts(world, 3600.0) >= stay
    assert old_ones(world) == stay
    told = (
        "replicas of the earlier revision stay, as engines of the new one ended by themselves, until one of these has"
    )
    assert told in world.condition("chat", "Placed")[2]


def test_the_rollout_goes_on_once_a_replica_of_the_new_revision_has_served_for_long() -> None:
    world = rolling_world(4, 6, RolloutSpec())
    change(world)
    lasts(world, 60.0)
    stay = old_ones(world)
    world.turn(round(GOOD_SECONDS / STEP / 2), STEP)
    assert old_ones(world) == stay
    world.turn(round(GOOD_SECONDS / STEP), STEP)
    assert (old_ones(world), world.serving("chat")) == (0, 4)


def test_a_revision_that_fails_and_is_taken_back_goes_first() -> None:
    world = rolling_world(4, 6, RolloutSpec())
    change(world)
    lasts(world, 60.0)
    stay = old_ones(world)
    change(world, "")
    for _ in range(60):
        world.turn()
        assert world.serving("chat") >= stay
    assert (old_ones(world), world.serving("chat")) == (0, 4)


def test_replicas_that_do_not_answer_for_a_moment_stay_while_nobody_else_serves() -> None:
    """The new revision never starts; the old one misses one probe and would be gone for good."""
    world = rolling_world(3, 6, RolloutSpec())
    change(world)
    starts(world, 20.0)
    hang(world, 0, 1, 2)
    starts(world, STEP)
    assert old_ones(world) == 3
    for name, pod in world.pods.items():
        if pod.unready is not None:
            world.pods[name] = replace(pod, ready=True, unready=None)
    starts(world, 20.0)
    assert (old_ones(world), world.serving("chat")) == (3, 3)


def test_one_that_does_not_answer_goes_first_where_enough_others_serve() -> None:
    world = rolling_world(3, 3, RolloutSpec(max_surge=0, max_unavailable=1))
    change(world)
    hang(world, 1)
    world.turn()
    assert {0, 2} == {each.replica for each in world.status("chat").assignments if each.nodes} - {3}


@pytest.mark.parametrize("paused", [False, True], ids=["nothing to roll", "paused"])
def test_nodes_that_are_drained_make_no_rollout_of_recreate(*, paused: bool) -> None:
    """It says how a new revision replaces replicas, and there is none, or none that may come."""
    world = rolling_world(3, 6, replace(RECREATE, paused=paused))
    if paused:
        change(world)
        world.turn(3)
    cordon(world, *(nodes[0] for nodes in world.nodes_of("chat")))
    for _ in range(40):
        world.turn()
        assert world.serving("chat") >= 3
    assert paused or {"b-3", "b-4", "b-5"} == {nodes[0] for nodes in world.nodes_of("chat")}


@pytest.mark.parametrize("rollout", [RECREATE, RolloutSpec(max_surge=0, max_unavailable=1.0), RolloutSpec()])
@pytest.mark.parametrize("asked", [("memory", "9000Gi"), ("rdma/ib", "1")], ids=["memory", "devices"])
def test_nobody_leaves_for_a_revision_that_no_node_could_ever_hold(
    asked: tuple[str, str], rollout: RolloutSpec
) -> None:
    """What nodes lack is told, and no way to give up what serves for it."""
    world = rolling_world(3, 4, rollout)
    world.nodes = [replace(node, offers=(("cpu", 192.0), ("memory", 2e12))) for node in world.nodes]
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, engine=replace(spec.engine, resources=(asked,))))
    world.turn(30)
    assert (old_ones(world), world.serving("chat")) == (3, 3)
    told = world.condition("chat", "Placed")[2]
    assert asked[0] in told
    assert "set spec.rollout" not in told
    world.edit("chat", replace(spec, engine=replace(spec.engine, resources=(("memory", "64Gi"),))))
    world.turn(30)
    assert (old_ones(world), world.serving("chat")) == (0, 3)


def test_old_replicas_that_serve_forgive_no_failure_of_the_new_revision() -> None:
    """Each attempt takes longer to fail than what a replica has to serve for, and the wait grows all the same."""
    world = rolling_world(2, 6, RolloutSpec())
    change(world)
    for attempt in range(1, 4):
        (name,) = starts(world, 600.0 + GOOD_SECONDS)
        world.end(name, ENDS)
        world.turn(1, STEP)
        failure = world.status("chat").failure
        assert failure is not None
        assert failure.count == attempt
        world.turn(20, STEP)


def test_failures_of_attempts_that_start_slowly_are_in_a_row() -> None:
    told = Explanation(Reason.EngineFailed, "")
    before = Failure("r", 2, 1000.0, told)
    loss = Loss(Assignment(5, "r", ("b-0",), 8, 1030.0), told, counts=True)
    found = failed_again(before, [loss], "r", 1030.0 + 4 * GOOD_SECONDS)
    assert found is not None
    assert found.count == 3


@pytest.mark.parametrize("surge", [0, 1])
def test_a_pool_that_lacks_places_says_that_its_rollout_waits_for_all_of_them(surge: int) -> None:
    world = rolling_world(3, 3, RolloutSpec(max_surge=surge, max_unavailable=1))
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, scaling=external(4)))
    world.turn(3)
    assert "earlier revision" not in world.condition("chat", "Placed")[2]
    change(world)
    world.turn(60, 20.0)
    assert (old_ones(world), world.serving("chat")) == (3, 3)
    told = "; until then 3 replicas of the earlier revision stay: lower the count, or raise spec.rollout.maxUnavailable"
    assert told in world.condition("chat", "Placed")[2]


def fails_once(world: World) -> None:
    """The first engines of the new revision end while they start; the back-off is over then."""
    change(world)
    for name in starts(world, 20.0):
        world.end(name, ENDS)
    world.turn(1, STEP)
    assert world.status("chat").failure is not None
    world.now += 600.0


def test_recreate_waits_for_no_engine_that_lasts() -> None:
    """It is what users are told to choose where nothing has room for a successor."""
    world = rolling_world(3, 6, RolloutSpec())
    fails_once(world)
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, rollout=RECREATE))
    world.turn(20)
    assert (old_ones(world), world.serving("chat")) == (0, 3)


def test_without_surge_the_next_attempt_has_the_place_of_an_earlier_replica() -> None:
    """While the failure was waited for, the count fell to what was left."""
    world = rolling_world(3, 6, RolloutSpec(max_surge=0, max_unavailable=1))
    fails_once(world)
    assert old_ones(world) == 2
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, scaling=external(2)))
    world.turn(2 + round(2 * GOOD_SECONDS / STEP), STEP)
    assert (old_ones(world), world.serving("chat")) == (0, 2)


def test_on_a_full_cluster_the_next_attempt_has_the_place_of_an_earlier_replica() -> None:
    """Somebody else took the place in which the first one failed."""
    world = rolling_world(3, 4, RolloutSpec())
    fails_once(world)
    (free,) = {node.name for node in world.nodes} - {nodes[0] for nodes in world.nodes_of("chat")}
    world.pods["job"] = busy("job", free, 8)
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, rollout=RolloutSpec(max_surge=1, max_unavailable=1)))
    assert old_ones(world) == 3
    world.turn(3 + round(4 * GOOD_SECONDS / STEP), STEP)
    assert (old_ones(world), world.serving("chat")) == (0, 3)


def test_who_was_given_the_place_of_the_first_that_left_is_given_no_other() -> None:
    """Nothing comes first, the quota is full, and a neighbour wants more: the rollout holds at what it may lack."""
    rollout = RolloutSpec(max_surge=0, max_unavailable=1, min_ready_seconds=30.0)
    world = limited(3, {GPUS: 6}, pool("chat", pool_spec(1, external(4), rollout=rollout)))
    world.turn(6)
    world.pools["other"] = pool("other", pool_spec(1, external(8)))
    world.turn(20)
    assert (4, 2) == (world.serving("chat"), world.serving("other"))
    change(world)
    assert 3 == lasts(world, 3600.0)
    assert 3 == old_ones(world)


def test_no_traffic_is_blamed_where_a_failure_holds_the_rollout() -> None:
    world = rolling_world(4, 6, RolloutSpec(max_surge=1, max_unavailable=1))
    change(world)
    lasts(world, 60.0)
    told: list[Reason] = []
    for _ in range(round(GOOD_SECONDS / STEP / 2)):
        world.turn(1, STEP)
        told += [event.reason for event in world.decision("chat").events]
    assert Reason.RolloutWaits not in told


def test_a_pod_that_never_ends_makes_no_rollout_of_a_cordon() -> None:
    """It is one of the revision before, and no replica is."""
    world = rolling_world(2, 6, RECREATE)
    stuck = world.pods["chat-0-0"]
    change(world)
    world.turn(1)
    for _ in range(30):
        world.pods["chat-0-0"] = replace(stuck, terminating=True, ready=False, gone_by=world.now - 3600.0)
        world.turn()
    assert (old_ones(world), world.serving("chat")) == (0, 2)
    cordon(world, *(nodes[0] for nodes in world.nodes_of("chat")))
    for _ in range(20):
        world.pods["chat-0-0"] = replace(stuck, terminating=True, ready=False, gone_by=world.now - 3600.0)
        world.turn()
        assert world.serving("chat") >= 2
