"""What traffic needs weighs more than `maxUnavailable`: a rollout surges or waits first, then takes it and says so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decide.loaded import STEP, loaded, loaded_split
from tests.decide.world import external
from tests.fabric.cluster import board
from weft.decide.rollouts.rollout import limits_of
from weft.decide.rollouts.weighing import PATIENCE_SECONDS
from weft.domain.cluster import ContainerFailure, PodPhase
from weft.domain.reasons import Reason
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.spec import RolloutSpec, RolloutStrategy

AUTO = ScalingSpec(min_replicas=3, max_replicas=3)
EITHER = RolloutSpec(max_surge=1, max_unavailable=1)
IN_PLACE = RolloutSpec(max_surge=0, max_unavailable=1)
PATIENCE = int(PATIENCE_SECONDS / STEP)  # passes


@pytest.mark.parametrize("scaling", [AUTO, external(3)], ids=["Auto", "External"])
def test_where_traffic_needs_all_of_them_a_successor_comes_first(scaling: ScalingSpec) -> None:
    here = loaded(scaling, 4, EITHER, demand=3.0)
    here.change()
    assert {"chat": 3} == here.roll(PATIENCE)
    assert here.is_through()
    assert Reason.RolloutBelowDemand not in here.told


@pytest.mark.parametrize("scaling", [AUTO, external(3)], ids=["Auto", "External"])
def test_where_traffic_needs_fewer_the_limits_of_the_spec_hold(scaling: ScalingSpec) -> None:
    here = loaded(scaling, 3, EITHER, demand=1.0)
    here.change()
    assert {"chat": 2} == here.roll(PATIENCE // 2)
    assert here.is_through()
    assert [] == [each for each in here.told if each in {Reason.RolloutWaits, Reason.RolloutBelowDemand}]


def test_without_room_it_waits_and_says_so_then_does_what_the_spec_allows_and_says_that() -> None:
    here = loaded(external(3), 3, EITHER, demand=3.0)
    here.change()
    here.turn(PATIENCE)
    assert (3, 3) == (here.outdated("chat"), here.world.serving("chat"))
    assert [Reason.RolloutWaits] == here.told
    status, reason, message = here.world.condition("chat", "Placed")
    assert ("False", "NoSlot") == (status, reason)
    assert "the rollout takes away no replica that traffic needs, and no successor found a place" in message
    assert {"chat": 2} == here.roll(PATIENCE)
    assert here.is_through()
    assert [Reason.RolloutBelowDemand] * 3 == here.told[1:]
    assert (
        "leaves before its successor serves, as spec.rollout.maxUnavailable allows. Traffic needs it, but"
        in here.messages[-1]
    )


def test_it_has_waited_once_and_for_all_of_the_rollout() -> None:
    here = loaded(external(4), 4, IN_PLACE, demand=4.0)
    here.change()
    here.turn(PATIENCE + 1)
    assert "spec.rollout.maxSurge allows no successor first" in here.messages[-1]
    here.roll(PATIENCE // 2)
    assert here.is_through()
    assert here.world.memory["uid-chat"].waits is None
    here.change("3")
    here.turn(PATIENCE // 2)
    assert 4 == here.outdated("chat"), "the next rollout waits anew"


def test_traffic_that_falls_while_it_waits_lets_it_go_on_at_once() -> None:
    here = loaded(external(3), 3, EITHER, demand=3.0)
    here.change()
    here.turn(PATIENCE // 3)
    assert 3 == here.outdated("chat")
    here.demand["chat"] = 1.0
    assert {"chat": 2} == here.roll(PATIENCE // 2)
    assert here.is_through()
    assert Reason.RolloutBelowDemand not in here.told


def test_room_that_comes_while_it_waits_is_used_before_anybody_leaves() -> None:
    here = loaded(external(3), 3, EITHER, demand=3.0)
    here.change()
    here.turn(PATIENCE // 2)
    here.world.nodes.append(board("b-9"))
    assert {"chat": 3} == here.roll(PATIENCE)
    assert here.is_through()


def test_traffic_that_rises_during_a_rollout_keeps_who_still_serves() -> None:
    here = loaded(external(4), 4, IN_PLACE, demand=2.0)
    here.change()
    here.turn(4)
    assert here.outdated("chat") == 3
    here.demand["chat"] = 4.0
    here.turn(6)
    assert (3, 4) == (here.outdated("chat"), here.world.serving("chat"))


def test_demand_above_capacity_for_ever_delays_an_urgent_rollout_and_does_not_stop_it() -> None:
    """A pool that is short already loses nobody while it waits, and is rolled all the same."""
    here = loaded(AUTO, 3, EITHER, demand=9.0)
    here.change()
    here.turn(PATIENCE - 1)
    assert 3 == here.world.serving("chat")
    here.roll(PATIENCE)
    assert here.is_through()


def test_of_a_pool_whose_traffic_nobody_measures_the_count_that_weft_decided_stands_for_it() -> None:
    """That of a person says nothing of traffic."""
    for scaling, left in ((AUTO, 3), (external(3), 2)):
        here = loaded(scaling, 3, EITHER, demand=0.0)
        here.demand.clear()
        here.world.memory.clear()
        here.world.observations.clear()
        spec = here.world.pools["chat"].spec
        assert spec is not None
        here.world.edit("chat", replace(spec, engine=replace(spec.engine, env=(("VERSION", "2"),))))
        here.turn(2)
        assert left == here.world.serving("chat")


@pytest.mark.parametrize(
    "failure",
    [
        ContainerFailure("Error", "RuntimeError: no", 1),
        ContainerFailure("Error", "", 137, unanswered_seconds=600.0),
    ],
    ids=["it ends", "it never answers"],
)
def test_a_revision_that_does_not_start_takes_nobody_down_however_long_it_fails(failure: ContainerFailure) -> None:
    here = loaded(external(3), 4, EITHER, demand=3.0)
    here.world.engines_start = False
    healthy = {name for name, pod in here.world.pods.items() if pod.ready}
    here.change("broken")
    for _ in range(3 * PATIENCE):
        running = [name for name, pod in here.world.pods.items() if pod.phase is PodPhase.Running]
        for name in [name for name in running if name not in healthy]:
            here.world.end(name, failure)
        here.turn()
        for name in healthy & here.world.pods.keys():
            here.world.pods[name] = replace(here.world.pods[name], ready=True)
        assert 3 == here.world.serving("chat")


def test_a_scheduler_that_binds_no_successor_does_not_hold_a_rollout_for_ever() -> None:
    """There is room for one by Weft's count, and something else that it needs is lacking there."""
    here = loaded(external(2), 3, EITHER, demand=2.0)
    here.world.scheduler_works = False
    here.change()
    here.turn(3 * PATIENCE)
    assert 1 == here.world.serving("chat")
    assert Reason.RolloutBelowDemand in here.told


def test_recreate_takes_all_at_once_whatever_traffic_needs() -> None:
    here = loaded(external(2), 4, RolloutSpec(strategy=RolloutStrategy.Recreate), demand=2.0)
    here.change()
    here.turn(2)
    assert 0 == here.world.serving("chat")


def test_a_node_that_is_drained_is_left_as_a_rollout_leaves_it() -> None:
    here = loaded(external(3), 4, EITHER, demand=3.0)
    here.world.nodes = [replace(each, cordoned=each.name == "b-0") for each in here.world.nodes]
    for _ in range(12):
        here.turn()
        assert 3 <= here.world.serving("chat")
    assert "b-0" not in {node for nodes in here.world.nodes_of("chat") for node in nodes}


@pytest.mark.parametrize("room", [2, 1, 0], ids=["for a pair", "for half a pair", "for nobody"])
def test_both_halves_of_a_split_keep_what_traffic_needs_and_end_their_roll(room: int) -> None:
    here = loaded_split((2, 3), 5 + room, EITHER, demand=(2.0, 3.0))
    here.change()
    for _ in range(PATIENCE - 2):
        here.turn()
        assert here.world.serving("pd-prefill") >= 2
        assert here.world.serving("pd-decode") >= 3
    assert here.is_through() is (room == 2)
    here.roll(2 * PATIENCE)
    assert here.is_through()
    assert (Reason.RolloutBelowDemand in here.told) is (room < 2)


def test_a_half_that_may_not_let_one_go_holds_the_other() -> None:
    """A decode replica of the new generation would find no prefill replica, and serve nobody."""
    here = loaded_split((2, 3), 5, IN_PLACE, demand=(2.0, 1.0))
    here.change()
    here.turn(PATIENCE // 2)
    assert (2, 3) == (here.world.serving("pd-prefill"), here.world.serving("pd-decode"))
    here.roll(2 * PATIENCE)
    assert here.is_through()


def test_what_one_half_needs_is_no_matter_of_a_node_that_the_other_leaves() -> None:
    """No generations roll, so that a successor finds its counterparts."""
    here = loaded_split((2, 3), 6, IN_PLACE, demand=(2.0, 1.0))
    node = here.world.nodes_of("pd-decode")[0][0]
    here.world.nodes = [replace(each, cordoned=each.name == node) for each in here.world.nodes]
    here.turn(2)
    assert (2, 2) == (here.world.serving("pd-prefill"), here.world.serving("pd-decode"))
    here.turn(4)
    assert (2, 3) == (here.world.serving("pd-prefill"), here.world.serving("pd-decode"))


limits = st.one_of(st.integers(0, 2), st.sampled_from([0.25, 0.5, 1.0]))
phases = st.lists(st.tuples(st.floats(0.0, 6.0), st.integers(13, 20)), min_size=1, max_size=4)


@pytest.mark.timeout(240)  # a rollout that waits is a hundred passes
@settings(max_examples=20, deadline=None)
@given(count=st.integers(1, 4), room=st.integers(0, 2), surge=limits, unavailable=limits, demands=phases)
def test_a_rollout_takes_no_pool_below_its_traffic_unless_it_says_so_and_always_ends(
    count: int, room: int, surge: float, unavailable: float, demands: list[tuple[float, int]]
) -> None:
    """What served before and what two minutes of traffic needed: the lesser of them goes on serving."""
    here = loaded(
        external(count),
        count + room,
        RolloutSpec(max_surge=surge, max_unavailable=unavailable),
        demand=demands[0][0],
        settled=16,
    )
    lately = [demands[0][0]] * 13
    here.change()
    for demand, turns in (*demands, (demands[-1][0], PATIENCE + 20 * count)):
        here.demand["chat"] = demand
        for _ in range(turns):
            lately = [*lately[1:], demand]
            before = here.world.serving("chat")
            here.look()
            here.world.now += STEP
            here.world.decide()
            events = {event.reason for event in here.world.decision("chat").events}
            needed = min(int(min(lately)), count)
            assert here.world.serving("chat") >= min(needed, before) or Reason.RolloutBelowDemand in events
            here.world._follow()
    found = limits_of(RolloutSpec(max_surge=surge, max_unavailable=unavailable), count)
    assert here.is_through() or (room == 0 and found.unavailable == 0), "only a spec that lets nobody leave may wait on"
