"""Quotas that pools share: what fits is desired, the rest is named; by priority, then in rounds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.limited import GPUS, PODS, desired, limited, paired
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from tests.scaling.cases import seen
from weft.domain.quotas import QuotaRecord, QuotaScope
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.spec import RolloutSpec

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord


def said(world: World, name: str) -> tuple[str, str]:
    scale = world.status(name).scale
    assert scale is not None
    return scale.reason.value, scale.message


def of_class(record: PoolRecord, name: str, priority: int) -> PoolRecord:
    assert record.spec is not None
    spec = replace(record.spec, pod=replace(record.spec.pod, priority_class=name))
    return replace(record, spec=spec, priority=priority)


def three(name: str, priority: int = 0) -> PoolRecord:
    return pool(name, pool_spec(8, ScalingSpec(min_replicas=3)), priority)


def test_what_the_quota_pays_for_is_desired_and_the_quota_is_named() -> None:
    world = limited(6, {GPUS: 20}, three("chat"))
    world.turn(4)
    assert (2, 2) == (desired(world, "chat")[0], world.serving("chat"))
    status, reason, message = world.condition("chat", "Placed")
    assert ("False", "BudgetExhausted") == (status, reason)
    assert "ResourceQuota gpus (requests.nvidia.com/gpu: 20) leaves room for 2 replicas of 8 GPUs" in message
    assert "raise it by 4, or free as much, for one more" in message


def test_a_quota_that_was_lowered_below_its_use_is_to_be_raised_by_all_that_is_missing() -> None:
    world = limited(6, {GPUS: 20}, three("chat"))
    world.turn(4)
    (quota,) = world.quotas
    world.quotas = (replace(quota, hard=((GPUS, 10),)),)
    world.turn(4)
    assert "(requests.nvidia.com/gpu: 10)" in world.condition("chat", "Placed")[2]
    assert "raise it by 14, or free as much, for one more" in world.condition("chat", "Placed")[2]


def test_demand_that_the_quota_refuses_is_told_with_the_count() -> None:
    world = limited(6, {GPUS: 16}, pool("chat", pool_spec(8, ScalingSpec(max_replicas=4))))
    world.turn(4)
    plan = world.status("chat").plan
    assert plan is not None
    world.observations["uid-chat"] = seen(3.5 * plan.prediction.capacity, 1)
    world.turn()
    assert ((2,), "BudgetExhausted") == (desired(world, "chat"), said(world, "chat")[0])
    written = world.status("chat").scale
    world.observations["uid-chat"] = seen(3.3 * plan.prediction.capacity, 1)
    world.turn()
    assert written == world.status("chat").scale


def test_a_quota_that_rises_is_used_and_one_that_falls_takes_nothing_away() -> None:
    world = limited(6, {GPUS: 16}, three("chat"))
    world.turn(4)
    (quota,) = world.quotas
    world.quotas = (replace(quota, hard=((GPUS, 24),)),)
    world.turn(4)
    assert (3, 3) == (desired(world, "chat")[0], world.serving("chat"))
    world.quotas = (replace(quota, hard=((GPUS, 8),)),)
    world.turn(4)
    assert (3, 3) == (desired(world, "chat")[0], world.serving("chat"))


def test_nothing_is_asked_for_where_nothing_is_left() -> None:
    world = limited(6, {GPUS: 8}, three("chat"), used={GPUS: 8})
    world.turn(4)
    assert {} == world.pods
    assert ("False", "BudgetExhausted") == world.condition("chat", "Placed")[:2]


def test_others_that_use_the_quota_leave_less() -> None:
    world = limited(6, {GPUS: 32}, three("chat"), used={GPUS: 9})
    world.turn(3)
    assert (2,) == desired(world, "chat")


def test_the_number_of_pods_is_a_budget_too() -> None:
    world = limited(6, {PODS: 5, GPUS: 800}, three("chat"), used={PODS: 4})
    world.turn(3)
    assert (1,) == desired(world, "chat")
    assert "(pods: 5) leaves room for 1 replica of 8 GPUs" in world.condition("chat", "Placed")[2]


def test_a_count_of_its_owner_is_cut_and_the_quota_is_named() -> None:
    world = limited(6, {GPUS: 16}, pool("chat", pool_spec(8, external(4))))
    world.turn(3)
    assert (2,) == desired(world, "chat")
    status, reason, message = world.condition("chat", "Placed")
    assert ("False", "BudgetExhausted") == (status, reason)
    assert "ResourceQuota gpus" in message


@pytest.mark.parametrize(
    ("scope", "replicas"),
    [
        (QuotaScope("PriorityClass", "In", ("batch", "online")), 1),
        (QuotaScope("PriorityClass", "In", ("batch",)), 3),
        (QuotaScope("PriorityClass", "NotIn", ("online",)), 3),
        (QuotaScope("PriorityClass"), 1),
        (QuotaScope("PriorityClass", "DoesNotExist"), 3),
        (QuotaScope("Terminating"), 3),
        (QuotaScope("NotTerminating"), 1),
        (QuotaScope("BestEffort"), 1),
        (QuotaScope("NotBestEffort"), 3),
        (QuotaScope("CrossNamespacePodAffinity"), 3),
    ],
)
def test_a_quota_counts_the_pods_of_its_scope_alone(scope: QuotaScope, replicas: int) -> None:
    world = limited(6, {GPUS: 8}, of_class(three("chat"), "online", 0))
    world.quotas = tuple(replace(quota, scopes=(scope,)) for quota in world.quotas)
    world.turn(2)
    assert (replicas,) == desired(world, "chat")


def test_a_pod_that_asks_for_memory_is_not_best_effort() -> None:
    record = three("chat")
    assert record.spec is not None
    sized = replace(record.spec, engine=replace(record.spec.engine, resources=(("memory", "64Gi"),)))
    world = limited(6, {GPUS: 8}, replace(record, spec=sized))
    world.quotas = tuple(replace(quota, scopes=(QuotaScope("NotBestEffort"),)) for quota in world.quotas)
    world.turn(2)
    assert (1,) == desired(world, "chat")


def test_quotas_of_other_namespaces_and_devices_do_not_matter() -> None:
    world = limited(6, {"requests.amd.com/gpu": 0}, three("chat"))
    world.quotas = (*world.quotas, QuotaRecord("else", "none", ((GPUS, 0),)))
    world.turn(2)
    assert (3,) == desired(world, "chat")


def test_the_higher_priority_gets_all_of_its_own_first() -> None:
    world = limited(8, {GPUS: 32}, three("low"), three("high", priority=100))
    world.turn(3)
    assert (3, 1) == desired(world, "high", "low")


def test_within_one_priority_replicas_go_round() -> None:
    world = limited(8, {GPUS: 32}, three("a"), three("b"))
    world.turn(3)
    assert (2, 2) == desired(world, "a", "b")


def test_who_wants_more_gets_more_in_proportion() -> None:
    world = limited(12, {GPUS: 48}, pool("a", pool_spec(8, external(6))), pool("b", pool_spec(8, external(3))))
    world.turn(3)
    assert (4, 2) == desired(world, "a", "b")


def test_gpus_of_the_fabric_go_round_as_well() -> None:
    """Without any quota: four boards for two pools that want four replicas each."""
    world = World.of(
        [board(f"b-{i}") for i in range(4)], pool("a", pool_spec(8, external(4))), pool("b", pool_spec(8, external(4)))
    )
    world.turn(3)
    assert [2, 2] == [len(world.status(name).assignments) for name in ("a", "b")]


def test_of_those_who_have_equally_little_small_replicas_come_first() -> None:
    """One GPU adds more of what is wanted where replicas are small."""
    world = limited(8, {GPUS: 4}, pool("big", pool_spec(4, external(2))), pool("small", pool_spec(1, external(2))))
    world.turn(3)
    assert (0, 2) == desired(world, "big", "small")


@pytest.mark.parametrize(("gpus", "expected"), [(8, (0, 0)), (16, (1, 1)), (24, (2, 1)), (32, (3, 1)), (48, (4, 2))])
def test_a_pair_is_filled_in_the_ratio_that_it_wants(gpus: int, expected: tuple[int, int]) -> None:
    """4 : 2 are wanted. Half a pair is not paid for."""
    world = paired(8, gpus, 4, 2)
    world.turn(4)
    assert expected == desired(world, "pair-prefill", "pair-decode")


def test_a_replacement_waits_until_the_quota_has_room_for_it() -> None:
    """The count stays: what leaves gives back what it used."""
    world = limited(6, {GPUS: 24}, three("chat"))
    world.turn(4, seconds=30)
    victim = next(iter(world.pods))
    world.pods[victim] = replace(world.pods[victim], terminating=True, ready=False)
    world.now += 5
    world.decide()
    assert (3,) == desired(world, "chat")
    assert 2 == len(world.status("chat").assignments)
    assert "has no room for another replica" in world.condition("chat", "Placed")[2]
    world._follow()
    world.turn(4)
    assert 3 == world.serving("chat")


def test_room_of_an_engine_that_ended_is_its_successors_while_the_pod_is_still_there() -> None:
    """No quota counts a pod that has ended: nothing will be given back, and what is free is not for a lower pool."""
    chat, low = pool("chat", pool_spec(8, external(1)), priority=5), pool("low", pool_spec(8, external(2)))
    world = limited(6, {GPUS: 16}, chat, low)
    world.turn(6)
    world.end("chat-0-0")
    for _ in range(30):
        world.turn()
        assert (1, 1) == desired(world, "chat", "low")
    assert (1, 1) == (world.serving("chat"), world.serving("low"))


def test_a_surge_that_the_quota_refuses_is_not_begun() -> None:
    world = limited(6, {GPUS: 8}, pool("chat", pool_spec(8, external(1))))
    world.turn(4)
    spec = pool_spec(8, external(1))
    changed = replace(spec, engine=replace(spec.engine, args=("--seed=7",)))
    world.edit("chat", changed)
    world.turn(2)
    assert 1 == len(world.pods)
    assert ("False", "BudgetExhausted") == world.condition("chat", "Placed")[:2]
    world.edit("chat", replace(changed, rollout=RolloutSpec(max_surge=0, max_unavailable=1)))
    world.turn(6)
    assert ("True", "AllPlaced") == world.condition("chat", "Placed")[:2]


def test_a_promise_without_pods_is_taken_back_when_the_quota_was_faster() -> None:
    """The quota fell between the decision and the first pod: half a minute later the count is what fits."""
    world = limited(6, {GPUS: 24}, three("chat"))
    world.decide()
    assert 3 == len(world.status("chat").assignments)
    (quota,) = world.quotas
    world.quotas = (replace(quota, hard=((GPUS, 8),)),)
    world.now += 29
    world.decide()
    assert 3 == len(world.status("chat").assignments), "their pods may be on their way"
    world.now += 2
    world.decide()
    assert (1, 1) == (desired(world, "chat")[0], len(world.status("chat").assignments))


def test_a_second_pass_changes_nothing() -> None:
    world = limited(5, {GPUS: 40}, three("a"), three("b", priority=7), pool("c", pool_spec(4, external(5))))
    world.turn(6)
    before = world.pools
    world.decide()
    assert before == world.pools


def test_of_two_quotas_that_are_used_up_the_first_by_name_is_told() -> None:
    """Whatever the order in which they are listed."""
    for names in (("a", "b"), ("b", "a")):
        world = limited(6, {GPUS: 8}, three("chat"))
        world.quotas = tuple(replace(world.quotas[0], name=name) for name in names)
        world.turn(3)
        assert "ResourceQuota a " in world.condition("chat", "Placed")[2]
