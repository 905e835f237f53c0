"""F16: time may be set back between two decisions, when the API server's clock was."""

from __future__ import annotations

from dataclasses import replace

from tests.decide.limited import GPUS, limited
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from weft.domain.cluster import ContainerFailure
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.spec import RolloutSpec

HOUR = 3600.0
IN_PLACE = RolloutSpec(max_surge=0, max_unavailable=1)


def waiting_world() -> World:
    """One replica serves on a node that has just gone silent, another was released a moment ago and waits.

    A third board has room for whoever is given up.
    """
    boards = [board(f"b-{index}") for index in range(3)]
    world = World.of(boards, pool("chat", pool_spec(8, external(1), rollout=IN_PLACE)))
    world.turn(5)
    world.scheduler_works = False
    world.edit("chat", pool_spec(8, external(2), rollout=IN_PLACE))
    world.turn(4)
    (serving,) = (pod.node for pod in world.pods.values() if pod.ready)
    world.nodes = [replace(node, ready=node.name != serving) for node in world.nodes]
    world.turn()
    return world


def test_a_clock_that_is_set_back_gives_no_replica_up() -> None:
    """Neither a node's silence nor the scheduler's time is over; the silence is counted on from there."""
    world = waiting_world()
    before = world.status("chat").assignments
    assert len(before) == 2
    world.now -= HOUR
    world.turn(3)
    assert world.status("chat").assignments == before
    world.turn(12)
    assert world.status("chat").assignments != before


def test_a_clock_that_is_set_back_makes_nobody_wait_an_hour_for_a_quota_to_be_counted() -> None:
    """Two are needed: half a minute passes after the first has been taken, by whatever clock."""
    world = limited(6, {GPUS: 24}, pool("low", pool_spec(8, external(3))))
    world.turn(5)
    world.pools["high"] = pool("high", pool_spec(8, ScalingSpec(min_replicas=2)), priority=100)
    while not world.serving("high"):
        world.turn()
    world.now -= HOUR
    world.turn(20)
    assert (2, 1) == (world.serving("high"), world.serving("low"))


def test_a_clock_that_is_set_back_by_a_day_makes_no_pool_wait_a_day_after_a_failure() -> None:
    """Its last replica failed a moment ago, and the wait of ten seconds is over after ten, by whatever clock."""
    world = World.of([board("b-0"), board("b-1")], pool("chat", pool_spec(8, external(1))))
    world.turn(5)
    world.end("chat-0-0", ContainerFailure("Error", "out of memory", exit_code=1))
    world.turn()
    assert 0 == world.serving("chat")
    world.now -= 24 * HOUR
    world.turn(8)
    assert 1 == world.serving("chat")
