"""`Recreate` keeps its places while its pods end, whoever else waits for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.test_rollouts import change, outdated
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from weft.domain.reasons import Reason
from weft.domain.spec import RolloutSpec, RolloutStrategy

RECREATE = RolloutSpec(strategy=RolloutStrategy.Recreate)


def full(priority: int = 0) -> World:
    """Four boards, of which `chat` has three; `other`, of a higher priority or not, has one and wants three."""
    world = World.of(
        [board(f"b-{index}") for index in range(4)], pool("chat", pool_spec(8, external(3), rollout=RECREATE))
    )
    world.turn(6)
    world.pools["other"] = pool("other", pool_spec(8, external(3)), priority=priority)
    world.turn(8)
    assert (3, 1) == (world.serving("chat"), world.serving("other"))
    return world


def recreated(world: World, slow_turns: int = 12) -> None:
    """Until the new revision serves; the last of the earlier pods ends late."""
    change(world)
    slow = "chat-2-0"
    held = world.pods[slow]
    for turn in range(60):
        if turn < slow_turns:
            world.pods[slow] = replace(held, terminating=turn > 0, ready=turn == 0)
        world.turn()
        if turn > slow_turns and outdated(world) == 0 and world.serving("chat") == 3:
            return


@pytest.mark.parametrize("priority", [0, 5])
@pytest.mark.parametrize("slow_turns", [0, 1, 12])
def test_nobody_gets_what_earlier_replicas_leave_but_their_successors(priority: int, slow_turns: int) -> None:
    world = full(priority)
    recreated(world, slow_turns)
    assert (3, 1) == (world.serving("chat"), world.serving("other"))
    assert 0 == outdated(world)
    assert Reason.NoSlot.value == world.condition("other", "Placed")[1]


def test_a_pool_that_shrinks_as_it_is_recreated_leaves_the_rest_to_others() -> None:
    world = full()
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, scaling=external(1)))
    recreated(world)
    world.turn(8)
    assert (1, 3) == (world.serving("chat"), world.serving("other"))


def test_a_new_operator_in_the_middle_of_it_keeps_the_places_too() -> None:
    world = full()
    change(world)
    world.turn(1)
    world.memory = {}
    held = world.pods["chat-2-0"]
    for _ in range(6):
        world.pods[held.name] = replace(held, terminating=True, ready=False)
        world.turn()
    world.turn(12)
    assert (3, 1) == (world.serving("chat"), world.serving("other"))
