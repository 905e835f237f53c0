"""A revision of which a quota pays no replica, or that no queue takes, replaces nobody: what serves goes on serving."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.limited import GPUS, counted_late, desired, join, limited
from tests.decide.test_kueue import KUEUE
from tests.decide.world import World, external, of_kueue, pool, pool_spec
from tests.fabric.cluster import board
from weft.domain.queueing import QueueRecord
from weft.domain.quotas import QuotaScope
from weft.domain.spec import RolloutSpec, RolloutStrategy
from weft.domain.workload import Role

if TYPE_CHECKING:
    from tests.decide.limited import Limited
    from weft.domain.spec import PoolSpec

IN_PLACE = RolloutSpec(max_surge=0, max_unavailable=1)
ALL_AT_ONCE = RolloutSpec(max_surge=0, max_unavailable=1.0)
ONE_MORE = RolloutSpec(max_surge=1, max_unavailable=1)
RECREATE = RolloutSpec(strategy=RolloutStrategy.Recreate)


def other(spec: PoolSpec) -> PoolSpec:
    """The next revision, in the same shape."""
    return replace(spec, engine=replace(spec.engine, env=(("VERSION", "2"),)))


def serves_two(gpus: int, used: int, rollout: RolloutSpec) -> Limited:
    """Two replicas of one GPU each, and what others use of the quota."""
    world = limited(3, {GPUS: gpus}, pool("chat", pool_spec(1, external(2), rollout=rollout)), used={GPUS: used})
    world.turn(6)
    assert world.serving("chat") == 2
    return world


@pytest.mark.parametrize("rollout", [IN_PLACE, ALL_AT_ONCE, RECREATE])
def test_what_serves_stays_where_the_quota_pays_for_none_of_the_new_revision(rollout: RolloutSpec) -> None:
    world = serves_two(12, 10, rollout)
    world.edit("chat", pool_spec(8, external(2), rollout=rollout))
    world.turn(20)
    assert (2, 2) == (world.serving("chat"), desired(world, "chat")[0])
    status, reason, message = world.condition("chat", "Placed")
    assert ("False", "BudgetExhausted") == (status, reason)
    assert (
        "ResourceQuota gpus (requests.nvidia.com/gpu: 12) has no room for another replica; raise it by up to 8"
        in message
    )


@pytest.mark.parametrize("rollout", [IN_PLACE, ALL_AT_ONCE, RECREATE])
def test_it_rolls_once_the_quota_pays(rollout: RolloutSpec) -> None:
    world = serves_two(12, 10, rollout)
    world.edit("chat", pool_spec(8, external(2), rollout=rollout))
    world.turn(6)
    (quota,) = world.quotas
    world.quotas = (replace(quota, hard=((GPUS, 26),)),)
    world.turn(20)
    assert (2, 16) == (world.serving("chat"), world.used(GPUS))


@pytest.mark.parametrize("rollout", [IN_PLACE, RECREATE])
def test_it_rolls_where_what_the_earlier_ones_leave_is_enough(rollout: RolloutSpec) -> None:
    """All four GPUs of the quota are its own: two of the new revision take the place of four."""
    world = limited(1, {GPUS: 4}, pool("chat", pool_spec(1, external(4), rollout=rollout)))
    world.turn(6)
    world.edit("chat", pool_spec(2, external(4), rollout=rollout))
    world.turn(30)
    assert (2, 4) == (world.serving("chat"), world.used(GPUS))


def test_what_serves_stays_where_others_took_what_was_to_pay_for_the_successor() -> None:
    """It is assigned, and its pods are refused from then on."""
    world = serves_two(12, 0, IN_PLACE)
    world.edit("chat", pool_spec(8, external(2), rollout=IN_PLACE))
    world.turn()
    assert [1, 1, 8] == [each.gpus_per_pod for each in world.status("chat").assignments]
    for name in [name for name in world.pods if name.startswith("chat-2-")]:
        del world.pods[name]
    (quota,) = world.quotas
    world.quotas = (replace(quota, used=((GPUS, 10),)),)
    for _ in range(20):
        world.now += 5
        world.decide()
        assert 2 == world.serving("chat")
    assert "BudgetExhausted" == world.condition("chat", "Placed")[1]


def test_what_serves_stays_where_another_pool_gets_what_its_successor_would_need() -> None:
    """In the very pass. Four GPUs pay for a successor of four once the one of two is gone, or for the other pool."""
    world = limited(2, {GPUS: 4}, pool("chat", pool_spec(2, external(1), rollout=IN_PLACE)))
    world.turn(6)
    world.edit("chat", pool_spec(4, external(1), rollout=IN_PLACE))
    world.pools["moe"] = pool("moe", pool_spec(2, external(1)))
    world.turn(20)
    assert (1, 1) == (world.serving("chat"), world.serving("moe"))
    assert "BudgetExhausted" == world.condition("chat", "Placed")[1]


def test_what_serves_stays_where_the_quota_of_its_next_class_pays_none() -> None:
    """What the earlier ones leave is in the quota of their own class."""
    spec = pool_spec(1, external(2), rollout=IN_PLACE)
    world = limited(1, {GPUS: 0}, pool("chat", spec), used={GPUS: -2})  # as it counts neither of the two
    (quota,) = world.quotas
    world.quotas = (replace(quota, scopes=(QuotaScope("PriorityClass", "In", ("batch",)),)),)
    world.turn(6)
    world.edit("chat", replace(spec, pod=replace(spec.pod, priority_class="batch")))
    world.turn(20)
    assert 2 == world.serving("chat")
    assert "ResourceQuota gpus (requests.nvidia.com/gpu: 0) has no room" in world.condition("chat", "Placed")[2]


def test_a_split_stays_whole_where_one_half_cannot_be_paid() -> None:
    world = limited(3, {GPUS: 8})
    join(world, "pair", external(1), external(1), tp=1)
    for half, role in (("pair-prefill", Role.Prefill), ("pair-decode", Role.Decode)):
        world.edit(half, pool_spec(1, external(1), role=role, rollout=IN_PLACE))
    world.turn(8)
    world.edit("pair-decode", pool_spec(8, external(1), role=Role.Decode, rollout=IN_PLACE))
    world.turn(20)
    assert (1, 1) == (world.serving("pair-prefill"), world.serving("pair-decode"))


def in_a_queue(rollout: RolloutSpec) -> World:
    """Three replicas that Kueue admitted, on three of nine nodes."""
    boards = [board(f"b-{i}") for i in range(9)]
    world = World.of(boards, pool("chat", of_kueue(pool_spec(8, external(3), rollout=rollout))))
    world.queueing = KUEUE
    world.admitted |= {("chat", i): (f"b-{i}",) for i in range(3)}
    world.turn(8, 30)
    assert world.serving("chat") == 3
    return world


@pytest.mark.parametrize("rollout", [IN_PLACE, ALL_AT_ONCE, ONE_MORE, RECREATE])
def test_what_serves_stays_where_the_new_revision_names_a_queue_that_is_not_there(rollout: RolloutSpec) -> None:
    """Once it is there, it takes the successors."""
    world = in_a_queue(rollout)
    world.edit("chat", of_kueue(pool_spec(8, external(3), rollout=rollout), "llmm"))
    world.turn(10, 30)
    assert (3, 3) == (world.serving("chat"), desired(world, "chat")[0])
    assert ("False", "QueueMissing") == world.condition("chat", "Placed")[:2]
    assert "LocalQueue llmm" in world.condition("chat", "Placed")[2]
    assert world.queueing is not None
    world.queueing = replace(world.queueing, queues=(*KUEUE.queues, QueueRecord("team", "llmm")))
    world.admitted |= {("chat", i): (f"b-{i}",) for i in range(3, 9)}
    world.turn(80, 30)
    assert 3 == world.serving("chat")
    assert {world.status("chat").revision} == {each.revision for each in world.status("chat").assignments}


def test_what_serves_stays_where_kueue_is_gone_in_the_middle_of_a_rollout() -> None:
    """One of three is replaced, and the successor of the next one is on the way."""
    world = in_a_queue(IN_PLACE)
    world.edit("chat", of_kueue(other(pool_spec(8, external(3), rollout=IN_PLACE))))
    world.admitted |= {("chat", 3): ("b-3",), ("chat", 4): ("b-4",)}
    world.turn(8, 20)
    assert [0, 3, 4] == [each.replica for each in world.status("chat").assignments]
    world.queueing = replace(KUEUE, installed=False, queues=())
    world.turn(20, 30)
    assert (3, "SchedulerMissing") == (world.serving("chat"), world.condition("chat", "Placed")[1])


@pytest.mark.parametrize("rollout", [IN_PLACE, ONE_MORE])
@pytest.mark.parametrize("gpus", [0, 2, 4])
def test_what_serves_stays_where_the_quota_is_lowered_in_the_middle_of_a_rollout(
    rollout: RolloutSpec, gpus: int
) -> None:
    """What one leaves would pay for no successor; once the quota is raised again, the rollout goes on."""
    world = counted_late(1, 6, pool("chat", pool_spec(1, external(6), rollout=rollout)))
    world.drain_seconds, world.late_seconds = 10.0, 0.0
    world.turn(6)
    world.edit("chat", other(world.pools["chat"].spec or pool_spec(1, external(6))))
    world.turn(9)
    assert 5 == world.serving("chat")
    (quota,) = world.quotas
    world.quotas = (replace(quota, hard=((GPUS, gpus),)),)
    for _ in range(60):
        world.turn()
        assert 5 == world.serving("chat")
    status, reason, message = world.condition("chat", "Placed")
    assert ("False", "BudgetExhausted") == (status, reason)
    assert f"raise it by up to {6 - gpus}, or free as much" in message
    assert "Recreate" not in message
    world.quotas = (quota,)
    world.turn(120)
    assert 6 == world.serving("chat")
    assert {world.status("chat").revision} == {each.revision for each in world.status("chat").assignments}
