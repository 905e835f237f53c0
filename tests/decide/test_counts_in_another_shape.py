"""A pool that changes its shape wants as many replicas of the new one as serve what the earlier ones did (ADR 0121)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.test_shapes_that_share_a_queue import LARGE, LARGE_SHAPE, SMALL, of_shape, turn
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from tests.scaling.cases import seen
from weft.decide.counting.worth import share_beside
from weft.decide.plans.left_shapes import shape_left
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.status import Assignment, LeftShape

AUTO = ScalingSpec(max_replicas=20, headroom=0.0)
RATE = 150.0  # requests/s: six of one GPU, three of four


def under_load(scaling: ScalingSpec) -> World:
    """Replicas of one GPU for ten minutes, as many as are wanted."""
    world = World.of([board(f"b-{index}") for index in range(8)], pool("chat", pool_spec(1, scaling)))
    world.turn(4)
    go_on(world, 60)
    return world


def go_on(world: World, turns: int) -> list[tuple[int, int, int]]:
    """(replicas that are wanted, GPUs of all pods, GPUs whose engines answer) after each turn of ten seconds."""
    found = []
    for _ in range(turns):
        world.observations = {"uid-chat": seen(RATE, world.serving("chat"))}
        world.turn(1, 10.0)
        gpus = [(sum(count for _, count in pod.requests), pod.ready) for pod in world.pods.values()]
        wanted = world.status("chat").desired_replicas
        found.append((wanted, sum(each for each, _ in gpus), sum(each for each, ready in gpus if ready)))
    return found


def test_larger_replicas_come_in_the_number_that_serves_the_same() -> None:
    """Not in that of the small ones, which the window would keep for minutes: 24 GPUs, and 30 on the way."""
    world = under_load(AUTO)
    before = world.status("chat")
    assert before.plan is not None
    world.edit("chat", pool_spec(4, AUTO))
    found = go_on(world, 40)
    plan = world.status("chat").plan
    assert plan is not None
    serves = before.desired_replicas * before.plan.prediction.capacity / plan.prediction.capacity
    assert {wanted for wanted, _, _ in found} == {-int(-serves // 1)}
    assert max(gpus for _, gpus, _ in found) <= 4 * (found[0][0] + 1) + before.desired_replicas
    assert min(ready for _, _, ready in found) >= before.desired_replicas
    assert found[-1][1:] == (4 * found[0][0],) * 2


def test_whoever_scales_is_recommended_as_many_as_serve_the_same() -> None:
    """The count that they wrote stays theirs; the window is in replicas of the new shape at once."""
    world = under_load(external(6))
    six = world.decision("chat").recommended
    world.edit("chat", pool_spec(4, external(6)))
    go_on(world, 1)
    assert (6, 3) == (six, world.decision("chat").recommended)
    assert 6 == world.status("chat").desired_replicas


@pytest.mark.parametrize(("served", "share"), [(1.6, 0.5), (0.6, 0.3), (0.0, 0.5)])
def test_an_earlier_replica_counts_for_the_lesser_of_its_gpus_and_what_it_serves(served: float, share: float) -> None:
    """One GPU of two, and so many requests a second of 2, or nobody knows how many."""
    changing = turn(LARGE, 0, 4, before=SMALL).planned
    changing = replace(changing, before=replace(SMALL, alone=served))
    there = Assignment(0, changing.pool.status.revision, ("n",), 1, 0.0)
    assert share == pytest.approx(share_beside(there, changing))
    left = shape_left(changing, 0.0)
    assert left is not None
    status = replace(changing.pool.status, plan=changing.plan, left_shape=replace(left, revision="old"))
    rolling = replace(changing, pool=replace(changing.pool, status=status))
    assert share == pytest.approx(share_beside(replace(there, revision="old"), rolling))


def test_what_an_earlier_replica_counts_for_outlives_an_edit_of_what_requests_are_like() -> None:
    """Both shapes serve half of what they did."""
    left = LeftShape("small", 0.0, "", revision="old", capacity=0.6)
    rolling = turn(LARGE, 0, 4, before=LARGE).planned
    status = replace(rolling.pool.status, left_shape=left)
    half = replace(rolling.plan, prediction=replace(rolling.plan.prediction, capacity=LARGE.alone / 2))
    edited = replace(rolling, plan=half, pool=replace(rolling.pool, status=status))
    assert str(LARGE_SHAPE) == str(half.shape) == str(of_shape(LARGE).shape)
    found = shape_left(edited, 9.0)
    assert found == replace(left, capacity=0.3)
