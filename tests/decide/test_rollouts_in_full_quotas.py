"""Rollouts in place where a quota is used up: one leaves, and the next one once it is known whether that pays."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, takewhile
from typing import TYPE_CHECKING

import pytest

from tests.decide.limited import PODS, CountedLate, counted_late, desired
from tests.decide.test_drains import cordon
from tests.decide.world import external, pool, pool_spec
from weft.decide.counting.budgets import PROMISED_SECONDS
from weft.domain.scaling_spec import ScalingMode, ScalingSpec
from weft.domain.spec import EngineSpec, PoolSpec, RolloutSpec, RolloutStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator

IN_PLACE = RolloutSpec(max_surge=0, max_unavailable=1)
A_QUARTER = RolloutSpec(max_surge=0, max_unavailable=0.25)
RECREATE = RolloutSpec(strategy=RolloutStrategy.Recreate)


def of_one_gpu(replicas: int, rollout: RolloutSpec = IN_PLACE) -> PoolSpec:
    return pool_spec(1, external(replicas), rollout=rollout)


def edited(spec: PoolSpec) -> PoolSpec:
    """Another revision in the same shape."""
    return replace(spec, engine=EngineSpec(env=(("VERSION", "2"),)))


def full(replicas: int, boards: int = 1, rollout: RolloutSpec = IN_PLACE) -> CountedLate:
    """As many replicas of one GPU as the quota pays for."""
    world = counted_late(boards, replicas, pool("chat", of_one_gpu(replicas, rollout)))
    world.turn(6)
    assert replicas == world.serving("chat")
    return world


def watched(world: CountedLate, turns: int) -> Iterator[tuple[int, int]]:
    """Replicas that serve, and how many are desired, turn by turn."""
    for _ in range(turns):
        world.turn()
        yield world.serving("chat"), desired(world, "chat")[0]


@pytest.mark.parametrize("rollout", [IN_PLACE, A_QUARTER])
def test_what_a_quota_counts_late_lets_no_second_one_go(rollout: RolloutSpec) -> None:
    world = full(4, rollout=rollout)
    world.edit("chat", edited(of_one_gpu(4, rollout)))
    seen = set(watched(world, 60))
    assert {(3, 4), (4, 4)} == seen
    assert {world.status("chat").revision} == {each.revision for each in world.status("chat").assignments}


def test_the_next_ones_wait_until_the_larger_successor_of_the_first_serves() -> None:
    """Eight of one GPU make way for two of four: four leave, and the others once the first of the two serves."""
    world = full(8, boards=4)
    world.edit("chat", pool_spec(4, external(8), rollout=IN_PLACE))
    counts = list(watched(world, 200))
    serving = [each for each, _ in counts]
    assert 5 == max(serving)  # four of the earlier ones, and the first of the others
    assert [4, 5, 1, 2] == [each for each, _ in groupby(serving)]
    assert (2, 2) == counts[-1]
    assert {2} == {count for _, count in counts}


def test_smaller_successors_are_no_more_than_the_pods_that_the_quota_counts() -> None:
    """Two of eight GPUs make way for two of two GPUs each, though what leaves has GPUs for eight."""
    world = counted_late(4, 16, pool("chat", pool_spec(8, external(2), rollout=IN_PLACE)))
    world.quotas = (replace(world.quotas[0], hard=((PODS, 2),)),)
    world.turn(6)
    world.edit("chat", pool_spec(2, external(8), rollout=IN_PLACE))
    counts = list(watched(world, 80))
    assert {2} == {count for _, count in counts}
    assert 2 == counts[-1][0]


def test_half_a_minute_after_the_last_pod_the_count_is_what_the_quota_pays() -> None:
    """Somebody takes the room in the meantime. The pass that tells so comes by itself."""
    world = full(4)
    world.edit("chat", edited(of_one_gpu(4)))
    world.turn(7)
    assert 4 == len(world.pods)
    (quota,) = world.quotas
    world.quotas = (replace(quota, used=tuple((limit, 1) for limit, _ in quota.hard)),)
    world.turn(4)
    assert 3 == len(world.pods)
    left = world.memory["uid-chat"].gave_up_room
    assert left is not None
    assert 4 == desired(world, "chat")[0]
    assert world.decide().wake_after_seconds == pytest.approx(left + PROMISED_SECONDS - world.now)
    world.now = left + PROMISED_SECONDS
    world.decide()
    assert 3 == desired(world, "chat")[0]


def test_nodes_that_are_drained_are_left_one_after_the_other() -> None:
    world = full(16, boards=4)
    cordon(world, "b-0", "b-1")
    assert 15 == min(serving for serving, _ in watched(world, 40))


def test_a_pool_that_is_recreated_keeps_its_count() -> None:
    world = full(4, rollout=RECREATE)
    world.edit("chat", edited(of_one_gpu(4, RECREATE)))
    assert {4} == {count for _, count in watched(world, 30)}
    assert 4 == world.serving("chat")


@pytest.mark.parametrize("rollout", [IN_PLACE, RECREATE])
def test_who_has_what_it_needs_takes_no_room_of_a_successor_whatever_its_priority(rollout: RolloutSpec) -> None:
    world = full(4, rollout=rollout)
    world.pools["high"] = pool("high", pool_spec(1, external(6)), priority=9)
    world.turn(20)
    before = desired(world, "chat", "high")
    assert (3, 1) == before
    world.edit("chat", edited(of_one_gpu(4, rollout)))
    for _ in range(70):
        world.turn()
        assert before == desired(world, "chat", "high")
    assert before == (world.serving("chat"), world.serving("high"))


def test_who_has_fewer_than_it_needs_comes_before_successors() -> None:
    """What leaves for a successor is its room, so that no second one has to go before it serves."""
    world = full(4)
    world.edit("chat", edited(of_one_gpu(4)))
    world.turn(2)
    world.pools["high"] = pool("high", pool_spec(1, external(1)), priority=9)
    before = takewhile(lambda _: world.serving("high") < 1, watched(world, 80))
    assert {3} == {serving for serving, _ in before}
    world.turn(80)
    assert (3, 1) == (world.serving("chat"), world.serving("high"))
    assert {world.status("chat").revision} == {each.revision for each in world.status("chat").assignments}


def test_who_may_take_nothing_from_others_does_not_come_before_successors() -> None:
    """Its PriorityClass never preempts: a replica that leaves for its successor is no room that it waits for."""
    world = full(4)
    world.edit("chat", edited(of_one_gpu(4)))
    world.turn(2)
    world.pools["high"] = replace(pool("high", pool_spec(1, external(1)), priority=9), preempts=False)
    world.turn(80)
    assert (4, 0) == (world.serving("chat"), world.serving("high"))
    assert {world.status("chat").revision} == {each.revision for each in world.status("chat").assignments}


def test_who_may_have_no_more_is_in_no_need_of_what_others_want() -> None:
    """`maxGPUs` pays for one of two that it should have at least: so one in between takes no room of a successor."""
    world = full(4)
    bound = ScalingSpec(ScalingMode.External, replicas=2, min_replicas=2, max_replicas=2, max_gpus=1)
    world.pools["high"] = pool("high", pool_spec(1, bound), priority=9)
    world.turn(20)
    world.pools["middle"] = pool("middle", pool_spec(1, external(6)), priority=5)
    world.turn(20)
    before = desired(world, "chat", "middle", "high")
    assert (2, 1, 1) == before
    world.edit("chat", edited(of_one_gpu(4)))
    for _ in range(70):
        world.turn()
        assert before == desired(world, "chat", "middle", "high")


def test_while_sizes_are_mixed_nothing_is_told_of_how_many_have_room() -> None:
    world = full(8, boards=4)
    world.drain_seconds = world.late_seconds = 0.0
    world.edit("chat", pool_spec(4, external(8), rollout=IN_PLACE))
    told = set()
    for _ in range(200):
        world.turn()
        sizes = {each.gpus_per_pod for each in world.status("chat").assignments}
        told |= {"leaves room for" in world.condition("chat", "Placed")[2]} if 1 in sizes else set()
    assert {False} == told
    assert "leaves room for 2 replicas of 4 GPUs, and more are wanted" in world.condition("chat", "Placed")[2]
