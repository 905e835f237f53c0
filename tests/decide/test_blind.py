"""Waits that end in taking something away are counted until pods and nodes were last known to be true (ADR 0129)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.limited import GPUS, limited
from tests.decide.test_outgrown import PATIENCE, slower
from tests.decide.test_rollouts import change, outdated, rolling_world
from tests.decide.test_trials import TRIAL, ready_at
from tests.decide.test_vanished import HALVES, hide, places, split_on_a100
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from weft.decide.replicas.health import UNRESPONSIVE_SECONDS
from weft.decide.replicas.vanished import VANISHED_SECONDS
from weft.domain.cluster import PodPhase
from weft.domain.snapshot import Snapshot
from weft.domain.spec import RolloutSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.decide.kinds import Growing

START_TIMEOUT = 600.0


def one() -> World:
    rollout = RolloutSpec(max_surge=0, max_unavailable=1, start_timeout_seconds=START_TIMEOUT)
    world = World.of([board("b-0"), board("b-1")], pool("chat", pool_spec(8, external(1), rollout=rollout)))
    world.turn(6)
    assert 1 == world.serving("chat")
    return world


def silent(world: World) -> None:
    world.nodes = [replace(node, ready=node.name != "b-0") for node in world.nodes]


def unscheduled(world: World) -> None:
    became(world, node=None, phase=PodPhase.Pending, ready=False)


def preparing(world: World) -> None:
    became(world, phase=PodPhase.Pending, ready=False)


def hanging(world: World) -> None:
    became(world, ready=False, unready=world.now)


def became(world: World, **changes: object) -> None:
    """The pod of the replica is seen so, and was released just now."""
    (pod,) = world.pods.values()
    world.pods[pod.name] = replace(pod, **{"released": world.now, **changes})  # type: ignore[arg-type]


def ids(world: World) -> list[int]:
    return [each.replica for each in world.status("chat").assignments]


@pytest.mark.parametrize(
    ("happens", "seconds"),
    [(silent, 30.0), (unscheduled, 60.0), (preparing, START_TIMEOUT), (hanging, UNRESPONSIVE_SECONDS)],
)
def test_who_hears_nothing_gives_nobody_up_and_who_hears_of_it_does_at_once(
    happens: Callable[[World], None], seconds: float
) -> None:
    world = one()
    happens(world)
    world.decide()
    for _ in range(10):
        world.now += seconds
        world.blind_seconds += seconds
        world.decide()
        assert 0 in ids(world)
    world.blind_seconds = 0.0
    world.decide()
    assert 0 not in ids(world)


def test_a_wait_goes_on_for_as_long_as_nothing_was_heard_of_its_end() -> None:
    """A watch that tells of all until five seconds ago is nearly as good as one that tells of everything."""
    world = one()
    silent(world)
    world.decide()
    world.blind_seconds = 5.0
    for seconds, left in ((30.0, True), (4.0, True), (1.0, False)):
        world.now += seconds
        world.decide()
        assert left is (0 in ids(world))


def test_a_trial_ends_when_it_is_heard_that_it_was_passed() -> None:
    world = rolling_world(1, 3, RolloutSpec(min_ready_seconds=TRIAL))
    change(world)
    ready_at(world)
    world.now += TRIAL
    world.blind_seconds = 0.5
    assert 1.0 == world.decide().wake_after_seconds, "half a second of it is not heard yet, and looking costs, too"
    assert 1 == outdated(world)
    world.blind_seconds = 0.0
    world.decide()
    assert 0 == outdated(world)


def test_the_shape_of_gpus_out_of_sight_is_kept() -> None:
    world = split_on_a100()
    before = [world.status(name).assignments for name in HALVES]
    hide(world)
    world.decide()
    world.now += 2.0 * VANISHED_SECONDS
    world.blind_seconds = 2.0 * VANISHED_SECONDS
    world.decide()
    assert before == [world.status(name).assignments for name in HALVES]
    world.blind_seconds = 0.0
    world.turn(6, 20.0)
    assert {"b"} == places(world)


def test_a_pool_that_is_short_stays_in_its_shape() -> None:
    """Whether places came meanwhile nobody has told."""
    growing: Growing = slower()
    growing.world.blind_seconds = 2.0 * PATIENCE
    growing.turn(PATIENCE)
    assert "H100" == growing.kind()
    growing.world.blind_seconds = 0.0
    growing.turn(60.0)
    assert "A100" == growing.kind()


def test_a_replica_whose_pods_are_not_seen_yet_keeps_what_its_quota_promised() -> None:
    world = limited(3, {GPUS: 16}, pool("chat", pool_spec(8, external(2))))
    world.decide()
    assert [0, 1] == ids(world)
    world.quotas = tuple(replace(quota, hard=((GPUS, 8),)) for quota in world.quotas)
    world.now += 60.0
    world.blind_seconds = 60.0
    world.decide()
    assert [0, 1] == ids(world)
    world.blind_seconds = 0.0
    world.decide()
    assert [0] == ids(world)


def test_a_snapshot_is_of_now_unless_it_says_otherwise() -> None:
    snapshot = Snapshot(100.0, (), (), (), ())
    assert 100.0 == snapshot.heard
    assert 60.0 == replace(snapshot, blind_seconds=40.0).heard
    assert 100.0 == replace(snapshot, blind_seconds=-1.0).heard
