"""A rollout to replicas of more GPUs: an earlier one counts as the part of a new one that its GPUs are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.limited import GPUS, desired, join, limited
from tests.decide.world import external, pool, pool_spec
from tests.fabric.cluster import board
from tests.placement.cases import free_map
from tests.scaling.cases import seen
from weft.decide.rollouts.rollout import arriving, leaving, serving
from weft.decide.rollouts.weighing import PATIENCE_SECONDS
from weft.domain.reasons import Reason
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.spec import RolloutSpec, RolloutStrategy
from weft.domain.status import Assignment
from weft.domain.workload import Role
from weft.placement import Departure
from weft.render.budget import pods_kept

if TYPE_CHECKING:
    from tests.decide.limited import Limited
    from weft.domain.cluster import PodRecord
    from weft.domain.spec import PoolSpec

SURGE, IN_PLACE = RolloutSpec(), RolloutSpec(max_surge=0, max_unavailable=1)
RECREATE = RolloutSpec(strategy=RolloutStrategy.Recreate)
EIGHT, TWO = external(8), external(2)


def serves(world: Limited, name: str = "chat") -> int:
    """GPUs whose engines answer."""
    pods: list[PodRecord] = [pod for pod in world.pods.values() if pod.ready and not pod.terminating]
    return sum(count for pod in pods if pod.name.startswith(f"{name}-") for _, count in pod.requests)


def eight_of_one(rollout: RolloutSpec, boards: int = 4) -> Limited:
    world = limited(boards, {GPUS: 500}, pool("chat", pool_spec(1, EIGHT, rollout=rollout)))
    world.turn(8)
    assert serves(world) == 8
    return world


@pytest.mark.parametrize(("rollout", "least"), [(SURGE, 8), (IN_PLACE, 4), (RECREATE, 0)])
def test_no_more_of_what_serves_leaves_than_the_limits_say(rollout: RolloutSpec, least: int) -> None:
    world = eight_of_one(rollout)
    world.edit("chat", pool_spec(4, TWO, rollout=rollout))
    seen = []
    for _ in range(20):
        world.turn()
        seen.append(serves(world))
    assert (least, 8) == (min(seen), seen[-1])
    assert [4, 4] == [each.gpus_per_pod for each in world.status("chat").assignments]


def test_a_budget_that_pays_for_fewer_of_the_new_shape_takes_none_before_they_serve() -> None:
    """Two of four GPUs are all that maxGPUs allows, where eight of one served."""
    world = eight_of_one(SURGE)
    world.edit("chat", pool_spec(4, replace(EIGHT, max_gpus=8), rollout=SURGE))
    seen = []
    for _ in range(20):
        world.turn()
        seen.append(serves(world))
    assert (8, (2,)) == (min(seen), desired(world, "chat"))
    assert world.used(GPUS) == 8


@pytest.mark.parametrize("rollout", [SURGE, IN_PLACE, RECREATE])
def test_what_serves_stays_where_the_budget_pays_for_none_of_the_new_shape(rollout: RolloutSpec) -> None:
    """A node that is drained meanwhile gets no successor that nobody pays for."""
    spec = pool_spec(1, replace(TWO, max_gpus=2), rollout=rollout)
    world = limited(4, {GPUS: 500}, pool("chat", spec))
    world.turn(6)
    world.edit("chat", pool_spec(4, replace(TWO, max_gpus=2), rollout=rollout))
    world.turn(12)
    assert (2, (2,), 2) == (serves(world), desired(world, "chat"), world.used(GPUS))
    status, reason, message = world.condition("chat", "Placed")
    assert ("False", "BudgetExhausted") == (status, reason)
    assert "maxGPUs 2 allows 0 replicas of 4 GPUs: raise it to at least 4" in message
    world.nodes = [replace(each, cordoned=True) for each in world.nodes[:1]] + list(world.nodes[1:])
    world.turn(6)
    assert world.used(GPUS) <= 2
    world.edit("chat", pool_spec(4, replace(TWO, max_gpus=8), rollout=rollout))
    world.turn(20)
    assert (8, (2,)) == (serves(world), desired(world, "chat"))


@pytest.mark.parametrize("scaling", [TWO, ScalingSpec(min_replicas=2, max_replicas=5)], ids=["External", "Auto"])
def test_what_stays_is_what_is_told(scaling: ScalingSpec) -> None:
    """Not that none is wanted, as whoever follows `recommendedReplicas` would end what serves; and no event of it."""
    world = limited(4, {GPUS: 500}, pool("chat", pool_spec(1, replace(scaling, max_gpus=2))))
    world.turn(6)
    stepped = world.memory["uid-chat"].stepped
    world.edit("chat", pool_spec(4, replace(scaling, max_gpus=2)))
    for shape_is_new in (True, False, False):
        world.turn()
        decision, told = world.decision("chat"), world.status("chat").scale
        assert (2, 2) == (decision.status.desired_replicas, decision.recommended)
        assert told is not None
        assert (Reason.BudgetExhausted, "held at 2 replicas") == (told.reason, told.message.partition(":")[0])
        assert [Reason.ShapeChosen] * shape_is_new == [each.reason for each in decision.events]
        assert stepped == world.memory["uid-chat"].stepped
    world.edit("chat", pool_spec(4, replace(scaling, max_gpus=1)))
    world.turn()
    news = [each.message for each in world.decision("chat").events if each.reason is Reason.ScaleDown]
    assert world.decision("chat").recommended == 1
    assert ["2 -> 1 replicas: more than that exceed maxGPUs or maxReplicas"] * (scaling is not TWO) == news


def test_what_stays_is_no_more_than_max_replicas() -> None:
    """As of anything else that runs: who lowers it wants fewer, also while none of the new shape can come."""
    world = limited(4, {GPUS: 500}, pool("chat", pool_spec(1, ScalingSpec(min_replicas=2, max_replicas=5, max_gpus=2))))
    world.turn(6)
    assert (2,) == desired(world, "chat")
    world.edit("chat", pool_spec(4, ScalingSpec(min_replicas=1, max_replicas=1, max_gpus=2)))
    world.turn(2)
    assert ((1,), 1) == (desired(world, "chat"), world.decision("chat").recommended)


def test_of_a_half_that_waits_for_the_other_what_stays_is_recommended() -> None:
    """Also where the count is somebody's: fewer of the larger ones would do, of which none may come."""
    world = limited(6, {GPUS: 500})
    join(world, "pair", external(4), replace(TWO, max_gpus=2), tp=1)
    world.turn(10)
    plan = world.status("pair-prefill").plan
    assert plan is not None
    rate = 3.3 * plan.prediction.capacity
    world.edit("pair-prefill", pool_spec(4, external(4), role=Role.Prefill))
    world.edit("pair-decode", pool_spec(4, replace(TWO, max_gpus=2), role=Role.Decode))
    for _ in range(40):
        world.observations = {f"uid-pair-{half}": seen(rate, 4) for half in ("prefill", "decode")}
        world.turn(1, 30.0)
    assert (4, 4) == (serves(world, "pair-prefill"), world.decision("pair-prefill").recommended)


@pytest.mark.parametrize("wanted", [0, 1])
def test_fewer_of_what_the_budget_pays_for_may_be_wanted(wanted: int) -> None:
    world = limited(4, {GPUS: 500}, pool("chat", pool_spec(1, replace(TWO, max_gpus=2))))
    world.turn(6)
    world.edit("chat", pool_spec(4, replace(external(wanted), max_gpus=2)))
    world.turn(8)
    assert (wanted, (wanted,)) == (serves(world), desired(world, "chat"))


def test_a_budget_below_what_runs_takes_it_all_the_same() -> None:
    """Nothing of an earlier shape is there that it would pay for."""
    world = limited(4, {GPUS: 500}, pool("chat", pool_spec(4, TWO)))
    world.turn(6)
    world.edit("chat", pool_spec(4, replace(TWO, max_gpus=2)))
    world.turn(6)
    assert 0 == world.used(GPUS)


def test_where_nothing_is_free_what_serves_stays_and_that_is_told() -> None:
    world = eight_of_one(SURGE, boards=1)
    world.edit("chat", pool_spec(4, TWO, rollout=SURGE))
    world.turn(12)
    assert serves(world) == 8
    assert ("False", "NoSlot") == world.condition("chat", "Placed")[:2]


def test_smaller_ones_that_come_count_one_by_one() -> None:
    world = limited(4, {GPUS: 500}, pool("chat", pool_spec(4, TWO, rollout=SURGE)))
    world.turn(8)
    world.edit("chat", pool_spec(1, EIGHT, rollout=SURGE))
    seen = []
    for _ in range(30):
        world.turn()
        seen.append(serves(world))
    assert (8, 8) == (min(seen), seen[-1])


def test_a_half_of_a_split_keeps_what_serves() -> None:
    world = limited(6, {GPUS: 500})
    join(world, "pair", external(4), external(4), tp=1)
    world.turn(10)
    before = serves(world, "pair-decode")
    world.edit("pair-decode", pool_spec(4, external(1), role=Role.Decode, rollout=SURGE))
    seen = []
    for _ in range(30):
        world.turn()
        seen.append(serves(world, "pair-decode"))
    assert (4, 4, 4) == (before, min(seen), seen[-1])


def of(replica: int, share: float, *, outdated: bool) -> Departure:
    assignment = Assignment(replica, "a" if outdated else "b", ("n",), 1, 0.0)
    return Departure(assignment, ready=True, outdated=outdated, share=share)


def test_no_more_of_the_smaller_ones_may_be_evicted_than_of_larger_ones() -> None:
    """Two of four are wanted, of which one may go: of eight of one that is one too, until the new ones are there."""
    world = eight_of_one(SURGE, boards=1)
    assert 7 == pods_kept(world.pools["chat"])
    world.edit("chat", pool_spec(4, TWO))
    world.turn(12)
    assert (8, (2,)) == (serves(world), desired(world, "chat"))
    assert 7 == pods_kept(world.pools["chat"])
    world.nodes += [board("more")]
    world.turn(20)
    assert [4, 4] == [each.gpus_per_pod for each in world.status("chat").assignments]
    assert 1 == pods_kept(world.pools["chat"])


def test_thirds_add_up() -> None:
    """Three thirds are one, whatever floating point makes of their sum; and of what is spare only whole ones go."""
    thirds = [of(number, 1 / 3, outdated=True) for number in range(6)]
    assert serving(thirds) == pytest.approx(2.0)
    free, one = free_map([board("n")]), of(9, 1.0, outdated=False)
    assert 1 == arriving(thirds, 2, SURGE)
    assert () == leaving(thirds, 2, SURGE, free)
    assert 3 == len(leaving([*thirds, one], 2, SURGE, free))
    assert 2 == len(leaving([*thirds[1:], one], 2, SURGE, free))


def test_a_whole_one_comes_in_the_room_of_a_part_where_nobody_could_make_more() -> None:
    """One that does not serve leaves at once, and the next pass has room enough."""
    thirds = [of(number, 1 / 3, outdated=True) for number in range(8)]
    assert 1 == arriving(thirds, 2, SURGE)
    assert 0 == arriving([replace(thirds[0], ready=False), *thirds[1:]], 2, SURGE)


def of_gpus(gpus: int, scaling: ScalingSpec, rollout: RolloutSpec) -> PoolSpec:
    """Of any number of GPUs, as stages of a pipeline."""
    spec = pool_spec(1, scaling, rollout=rollout)
    return replace(spec, shape=replace(spec.shape, pipeline_parallel=gpus))


@pytest.mark.parametrize(("rollout", "least"), [(SURGE, 9), (IN_PLACE, 5), (RECREATE, 0)])
def test_sizes_that_do_not_divide_roll_to_the_end(rollout: RolloutSpec, least: int) -> None:
    """Five of two are three and a third of three: neither a whole one nor none."""
    world = limited(4, {GPUS: 500}, pool("chat", of_gpus(2, external(5), rollout)))
    world.turn(8)
    world.edit("chat", of_gpus(3, external(3), rollout))
    seen = []
    for _ in range(20):
        world.turn()
        seen.append(serves(world))
    assert (least, 9) == (min(seen), seen[-1])
    assert [3, 3, 3] == [each.gpus_per_pod * each.pods for each in world.status("chat").assignments]


def test_what_traffic_needs_does_not_leave_for_the_sake_of_a_part() -> None:
    """In place, two of two thirds: one may leave though less than one of three is left, unless traffic needs that."""
    thirds, free = [of(number, 2 / 3, outdated=True) for number in range(2)], free_map([board("n")])
    assert 1 == len(leaving(thirds, 2, IN_PLACE, free))
    assert () == leaving(thirds, 2, IN_PLACE, free, needed=1)
    assert () == leaving(thirds[:1], 2, IN_PLACE, free)
    assert 1 == arriving(thirds[:1], 2, IN_PLACE)


def test_where_traffic_needs_that_part_it_waits_and_then_goes_on() -> None:
    auto = ScalingSpec(min_replicas=2, max_replicas=2)  # all are needed where nobody measures
    world = limited(1, {GPUS: 500}, pool("chat", of_gpus(2, auto, IN_PLACE)))
    world.turn(8)
    world.edit("chat", of_gpus(3, auto, IN_PLACE))
    world.turn(int(PATIENCE_SECONDS / 5.0))
    assert 4 == serves(world)
    assert "takes away no replica that traffic needs" in world.condition("chat", "Placed")[2]
    world.turn(20)
    assert [3, 3] == [each.gpus_per_pod * each.pods for each in world.status("chat").assignments]


@pytest.mark.parametrize("rollout", [SURGE, IN_PLACE])
def test_a_large_one_that_may_not_leave_yet_holds_no_smaller_one(rollout: RolloutSpec) -> None:
    """A roll that was edited half-way leaves halves and quarters."""
    mixed = [of(8, 0.5, outdated=True), *(of(number, 0.25, outdated=True) for number in range(3))]  # the newest first
    spare = [] if rollout is SURGE else [of(9, 1.0, outdated=False)]
    gone = leaving([*mixed, *spare], 1 if rollout is SURGE else 3, rollout, free_map([board("n")]))
    assert [0.25] == [each.share for each in gone]


def test_a_paused_pool_that_lost_most_of_what_it_had_gets_some_back() -> None:
    """Two of eight that are left are half a replica of four GPUs, and two are wanted."""
    world = eight_of_one(SURGE)
    world.edit("chat", pool_spec(4, TWO, rollout=replace(SURGE, paused=True)))
    world.turn(2)
    for number in range(6):
        world.end(f"chat-{number}-0")
    world.turn(8)
    assert [1, 1, 4] == sorted(each.gpus_per_pod for each in world.status("chat").assignments)


@pytest.mark.parametrize(("turns", "left"), [(1, 4), (4, 3)])
def test_what_surges_does_not_end_all_where_the_next_shape_is_not_paid_for(turns: int, left: int) -> None:
    """Four of one and the first of four exceed maxGPUs for as long as it starts, and then for a moment."""
    world = limited(4, {GPUS: 500}, pool("chat", pool_spec(1, replace(external(6), max_gpus=6))))
    world.turn(8)
    world.edit("chat", pool_spec(4, replace(external(6), max_gpus=6)))
    world.turn(turns)
    assert [1, 1, 1, 1, 4] == [each.gpus_per_pod for each in world.status("chat").assignments]
    world.edit("chat", pool_spec(8, replace(external(6), max_gpus=6)))
    world.turn(6)
    assert (left, (left,)) == (serves(world), desired(world, "chat"))


def test_a_budget_that_no_longer_pays_for_what_starts_ends_those_alone() -> None:
    world = limited(4, {GPUS: 500}, pool("chat", pool_spec(1, TWO)))
    world.turn(6)
    world.edit("chat", pool_spec(4, TWO))
    world.turn()
    assert [1, 1, 4, 4] == [each.gpus_per_pod for each in world.status("chat").assignments]
    world.edit("chat", pool_spec(4, replace(TWO, max_gpus=2)))
    world.turn(6)
    assert (2, (2,), 2) == (serves(world), desired(world, "chat"), world.used(GPUS))


def test_a_count_of_larger_ones_takes_nothing_of_what_stays() -> None:
    """Three were wanted in the shape between, and five replicas are there as that rolled in place."""
    world = limited(4, {GPUS: 500}, pool("chat", pool_spec(1, replace(external(7), max_gpus=7), rollout=IN_PLACE)))
    world.turn(8)
    world.edit("chat", pool_spec(2, replace(external(7), max_gpus=7), rollout=IN_PLACE))
    world.turn(2)
    assert [1, 1, 1, 1, 2] == [each.gpus_per_pod for each in world.status("chat").assignments]
    world.edit("chat", pool_spec(8, replace(external(7), max_gpus=7), rollout=IN_PLACE))
    world.turn(6)
    assert (6, (5,)) == (serves(world), desired(world, "chat"))


def stays(rollout: RolloutSpec) -> Limited:
    """Two of one GPU that serve, of a pool that is to have replicas of four and may have two GPUs."""
    world = limited(4, {GPUS: 500}, pool("chat", pool_spec(1, replace(TWO, max_gpus=2), rollout=rollout)))
    world.turn(6)
    world.edit("chat", pool_spec(4, replace(TWO, max_gpus=2), rollout=rollout))
    world.turn(4)
    return world


def test_a_lower_budget_takes_what_it_does_not_pay_for_of_what_stays() -> None:
    world = stays(SURGE)
    world.edit("chat", pool_spec(4, replace(TWO, max_gpus=1)))
    world.turn(4)
    assert (1, (1,)) == (serves(world), desired(world, "chat"))


@pytest.mark.parametrize("rollout", [SURGE, IN_PLACE, RECREATE])
def test_nobody_leaves_a_drained_node_where_nobody_may_come(rollout: RolloutSpec) -> None:
    world = stays(rollout)
    world.nodes = [replace(each, cordoned=True) for each in world.nodes]
    world.turn(6)
    assert 2 == serves(world)


def test_what_is_lost_is_told_with_the_budget_that_pays_for_no_other() -> None:
    world = stays(SURGE)
    world.end("chat-0-0")
    world.turn(6)
    told = "1 of 2 replicas placed; spec.scaling.maxGPUs 2 allows 0 replicas of 4 GPUs: raise it to at least 4"
    assert ("False", "BudgetExhausted", told) == world.condition("chat", "Placed")


def test_a_half_that_waits_for_the_budget_of_the_other_says_so() -> None:
    world = limited(6, {GPUS: 500})
    join(world, "pair", TWO, replace(TWO, max_gpus=2), tp=1)
    world.turn(10)
    world.edit("pair-decode", pool_spec(4, replace(TWO, max_gpus=2), role=Role.Decode))
    world.turn(4)
    world.end(next(name for name in world.pods if name.startswith("pair-prefill")))
    world.turn(6)
    told = "1 of 2 replicas placed; maxGPUs allows no replica of the other half's new shape"
    assert ("False", "BudgetExhausted", told) == world.condition("pair-prefill", "Placed")
