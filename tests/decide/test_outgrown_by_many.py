"""Where many pools have outgrown their shapes at once, a pass takes no more for each of them than where few have."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from tests.counting import counted
from tests.decide.kinds import board_of, boards, open_spec
from tests.decide.world import World, external, pool
from weft.catalog import load
from weft.decide import decide
from weft.decide.rollouts.weighing import PATIENCE_SECONDS
from weft.domain.spec import PlacementSpec

SMALL, LARGE = 24, 48  # pools


def short_of_places(pools: int, idle: int) -> World:
    """Pools with four L40S each that have wanted six for ten minutes; so many A100 are idle, and five are taken."""
    nodes = [*boards("l40s", pools // 2), board_of("a100", "a100-0", 5 + idle)]
    taken = pool("taken", replace(open_spec(5.0, external(5)), placement=PlacementSpec(accelerators=("A100",))))
    names = [f"p-{index:02}" for index in range(pools)]
    world = World.of(nodes, taken, *(pool(name, open_spec(5.0, external(4))) for name in names))
    world.turn(8, 10.0)
    for name in names:
        world.edit(name, open_spec(5.0, external(6)))
    world.turn(3, 10.0)
    world.turn(8, PATIENCE_SECONDS / 6)
    assert {"L40S"} == {plan.shape.accelerator for name in names if (plan := world.status(name).plan) is not None}
    assert all(world.memory[f"uid-{name}"].short_since is not None for name in names)
    return world


@pytest.mark.parametrize("idle", [0, 3])
def test_work_grows_with_the_pools_that_are_short_and_no_faster(idle: int) -> None:
    """Three A100 are nearly as much as one of them would have to have: each is asked, and none goes."""
    few, many = (
        counted(partial(decide, short_of_places(pools, idle).snapshot(), load()))[1] for pools in (SMALL, LARGE)
    )
    assert many <= 2.1 * few


def test_no_more_wait_for_what_another_one_leaves_than_have_a_place_there() -> None:
    """Of six on three boards one leaves four GPUs: four of the others wait for these, and the fifth goes as well."""
    names = [f"p-{index}" for index in range(6)]
    nodes = [*boards("l40s", 3), *boards("a100", 5)]
    world = World.of(nodes, *(pool(name, open_spec(5.0, external(4))) for name in names))
    world.turn(8, 10.0)
    for name in names:
        world.edit(name, open_spec(5.0, external(6)))
    world.turn(3, 10.0)
    world.turn(60, 10.0)
    plans = [plan for name in names if (plan := world.status(name).plan) is not None]
    assert ["A100", "A100", *["L40S"] * 4] == sorted(plan.shape.accelerator for plan in plans)
    world.turn(24, 10.0)
    assert [6] * 6 == [world.serving(name) for name in names]
