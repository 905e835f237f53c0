"""A node goes in minutes: the last replica that serves stays in its front as long as the notice allows (ADR 0058)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decide.loaded import loaded
from tests.decide.test_splits import half, split_world
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board, busy, taint
from weft.decide.rollouts.lasting import keep_the_last
from weft.decide.rollouts.rollout import arriving, leaving, serving
from weft.domain.fabric import Fabric
from weft.domain.reasons import Explanation, Reason
from weft.domain.snapshot import PoolObservation
from weft.domain.spec import RolloutSpec, RolloutStrategy
from weft.domain.status import Assignment
from weft.domain.workload import Role
from weft.engines import MARGIN_SECONDS, still_chosen_seconds
from weft.placement import Departure, FreeMap

SPOT = taint("aws-node-termination-handler/spot-itn")
AWS_SECONDS = 120.0
USUAL_SECONDS = 1.0 + 200 * 0.05  # of the requests below: 200 tokens
IN_PLACE = RolloutSpec(max_surge=0, max_unavailable=1)
IN_ELEVEN_SECONDS = PoolObservation(expected=1, answered=1, age_seconds=1.0, ttft_mean=1.0, tpot_mean=0.05)


def give_notice(world: World, *names: str, ago: float = 0.0, dated: bool = True) -> None:
    """As AWS does: the API server dates it."""
    tainted = world.now - ago if dated else None
    world.nodes = [
        replace(node, taints=(SPOT,), tainted=tainted) if node.name in names else node for node in world.nodes
    ]


def fill_another_board(world: World) -> None:
    """A node of the kind that stays, without room."""
    world.nodes.append(board("x-0"))
    world.pods["job"] = busy("job", "x-0", 8)


def one(boards: int = 1, rollout: RolloutSpec | None = None) -> World:
    """A pool of one replica, on b-0; its requests take eleven seconds."""
    nodes = [board(f"b-{index}") for index in range(boards)]
    world = World.of(nodes, pool("chat", pool_spec(8, external(1), rollout=rollout)))
    world.turn(6)
    assert 1 == world.serving("chat")
    world.observations["uid-chat"] = IN_ELEVEN_SECONDS
    fill_another_board(world)
    return world


def until(role: Role = Role.Aggregated, usual: float = USUAL_SECONDS) -> float:
    """Seconds after the notice at which it leaves."""
    return AWS_SECONDS - still_chosen_seconds(role) - MARGIN_SECONDS - usual


def told(world: World, name: str = "chat") -> list[Reason]:
    return [event.reason for event in world.decision(name).events]


@pytest.mark.parametrize("rollout", [None, IN_PLACE, RolloutSpec(paused=True)], ids=["surge", "in place", "paused"])
def test_it_serves_until_its_successor_does_which_is_ordered_in_the_same_pass(rollout: RolloutSpec | None) -> None:
    world = one(2, rollout)
    give_notice(world, "b-0")
    world.turn()
    assert [("b-0",), ("b-1",)] == world.nodes_of("chat")
    (event,) = world.decision("chat").events
    assert Reason.NodeReclaimed is event.reason
    assert "replica 0 serves on until another does, or its node leaves only enough time" in event.message
    assert "replica 0 serves on" in world.condition("chat", "Placed")[2]
    for _ in range(8):
        world.turn()
        assert world.serving("chat") >= 1
        assert [] == told(world)
    assert [("b-1",)] == world.nodes_of("chat")


def test_without_a_successor_it_leaves_when_requests_just_have_the_time_to_be_over() -> None:
    """It says so, and that capacity is missing at once."""
    world = one()
    give_notice(world, "b-0")
    world.turn(1, until() - 1)
    assert [("b-0",)] == world.nodes_of("chat")
    assert world.last is not None
    assert 1.0 == pytest.approx(world.last.wake_after_seconds)
    assert world.decision("chat").request is not None
    message = world.condition("chat", "Placed")[2]
    assert "but nothing has room for its replacement" in message
    assert "replica 0 serves on" in message
    world.turn(1, 1.0)
    assert [] == world.nodes_of("chat")
    assert [Reason.LastOneLeaves] == told(world)


def test_where_all_nodes_of_the_kind_go_at_once_the_pool_keeps_its_plan_and_leaves_in_time() -> None:
    """It could use such nodes again, and says how many are missing."""
    world = World.of([board("b-0")], pool("chat", pool_spec(8, external(1))))
    world.turn(6)
    world.observations["uid-chat"] = IN_ELEVEN_SECONDS
    give_notice(world, "b-0")
    world.turn(1, until() - 1)
    assert [("b-0",)] == world.nodes_of("chat")
    assert "True" == world.condition("chat", "Planned")[0]
    assert world.decision("chat").request is not None
    world.turn(1, 1.0)
    assert [] == world.nodes_of("chat")


def test_requests_take_what_is_predicted_while_nobody_measures_and_never_more_than_they_may() -> None:
    world = one()
    world.observations.clear()
    plan = world.status("chat").plan
    assert plan is not None
    usual = plan.prediction.ttft.mean + 200 * plan.prediction.tpot.mean
    give_notice(world, "b-0")
    world.turn(1, until(usual=usual) - 1)
    assert [("b-0",)] == world.nodes_of("chat")
    world.turn(1, 1.1)
    assert [] == world.nodes_of("chat")
    world = one(1, RolloutSpec(drain_timeout_seconds=3.0))
    give_notice(world, "b-0")
    world.turn(1, until(usual=3.0) - 1)
    assert [("b-0",)] == world.nodes_of("chat")


def test_where_most_requests_would_be_cut_or_nobody_dates_the_notice_it_leaves_at_once() -> None:
    world = one()
    world.observations["uid-chat"] = replace(IN_ELEVEN_SECONDS, tpot_mean=1.0)
    give_notice(world, "b-0")
    world.turn(1, 1.0)
    assert [] == world.nodes_of("chat")
    world = one()
    give_notice(world, "b-0", dated=False)
    world.turn(1, 1.0)
    assert ([], [Reason.LastOneLeaves]) == (world.nodes_of("chat"), told(world))


def test_a_restart_of_the_operator_changes_nothing() -> None:
    """The API server knows since when the node goes."""
    world = one()
    give_notice(world, "b-0")
    world.turn(1, 40.0)
    world.memory.clear()
    world.turn(1, until() - 41.0)
    assert [("b-0",)] == world.nodes_of("chat")
    world.turn(1, 2.0)
    assert [] == world.nodes_of("chat")


def test_where_another_one_serves_it_leaves_at_once() -> None:
    here = loaded(external(2), 3, RolloutSpec(), demand=2.0)
    give_notice(here.world, "b-0")
    here.turn()
    assert ("b-0",) not in here.world.nodes_of("chat")
    assert Reason.LastOneLeaves not in here.told


@pytest.mark.parametrize(("demand", "last"), [(1.0, [("b-1",)]), (2.0, [("b-0",), ("b-1",)])])
def test_of_several_that_all_go_as_many_stay_as_traffic_needs_those_that_go_last(
    demand: float, last: list[tuple[str]]
) -> None:
    here = loaded(external(2), 2, RolloutSpec(), demand=demand)
    fill_another_board(here.world)
    give_notice(here.world, "b-0", ago=30.0)
    give_notice(here.world, "b-1")
    here.turn()
    assert last == here.world.nodes_of("chat")
    here.world.now += AWS_SECONDS - 10.0
    here.turn()
    assert [] == here.world.nodes_of("chat")


def test_the_successor_of_one_that_stays_has_the_first_turn_as_if_it_were_gone() -> None:
    """A pool that has nothing else comes before one of its priority that lacks its second replica."""
    here = loaded(external(1), 1, RolloutSpec(), demand=1.0)
    world = here.world
    world.pools["a-more"] = pool("a-more", pool_spec(8, external(2)))
    world.nodes.append(board("b-8"))
    world.turn(6)
    assert 1 == world.serving("a-more")
    give_notice(world, "b-0")
    world.nodes.append(board("b-9"))
    world.turn()
    assert [("b-0",), ("b-9",)] == world.nodes_of("chat")


def test_where_all_go_each_successor_that_serves_lets_one_of_them_leave() -> None:
    """The first one does not take the traffic of all."""
    here = loaded(external(3), 3, RolloutSpec(), demand=3.0)
    world = here.world
    fill_another_board(world)
    world.nodes.append(board("b-8"))
    give_notice(world, "b-0", "b-1", "b-2")
    served = []
    for _ in range(6):
        here.turn()
        served.append(world.serving("chat"))
    assert ("b-8",) in world.nodes_of("chat")
    assert 3 == len(world.nodes_of("chat"))
    assert min(served) >= 3


@pytest.mark.parametrize(("role", "name"), [(Role.Prefill, "pd-prefill"), (Role.Decode, "pd-decode")])
def test_the_last_of_either_half_of_a_split_stays_as_well(role: Role, name: str) -> None:
    """A decode replica is asked half a minute longer, for the prompts that are under way; prefill answers one token."""
    world = split_world(half(Role.Prefill, 8), half(Role.Decode, 8), 2)
    fill_another_board(world)
    world.turn(6)
    assert (1, 1) == (world.serving("pd-prefill"), world.serving("pd-decode"))
    world.observations[f"uid-{name}"] = IN_ELEVEN_SECONDS
    (nodes,) = world.nodes_of(name)
    give_notice(world, *nodes)
    end = until(role, usual=1.0 if role is Role.Prefill else USUAL_SECONDS)
    world.turn(1, end - 1)
    assert [nodes] == world.nodes_of(name)
    world.turn(1, 2.0)
    assert [] == world.nodes_of(name)
    others = {"pd-prefill", "pd-decode"} - {name}
    assert all(world.serving(other) == 1 for other in others)


def test_recreate_takes_it_at_once_where_it_replaces_a_revision_and_else_not() -> None:
    world = one(2, RolloutSpec(strategy=RolloutStrategy.Recreate))
    give_notice(world, "b-0")
    world.turn()
    assert [("b-0",), ("b-1",)] == world.nodes_of("chat")
    world = one(2, RolloutSpec(strategy=RolloutStrategy.Recreate))
    known = world.pools["chat"]
    assert known.spec is not None
    world.pools["chat"] = replace(
        known, spec=replace(known.spec, engine=replace(known.spec.engine, args=("--seed=7",)))
    )
    give_notice(world, "b-0")
    world.turn()
    assert ("b-0",) not in world.nodes_of("chat")


GOES = Explanation(Reason.NodeReclaimed, "node goes")
BEFORE, NOTICED, SINCE = 0.0, 50.0, 60.0


@st.composite
def departures(draw: st.DrawFn) -> list[Departure]:
    """Replicas of one pool: ready or not, on nodes that go in minutes or stay."""
    found = []
    for number in range(draw(st.integers(1, 6))):
        urgent, seconds = draw(st.booleans()), draw(st.sampled_from([0.0, 5.0, 50.0, 90.0]))
        assignment = Assignment(number, "r", (f"n-{number}",), 8, draw(st.sampled_from([BEFORE, SINCE])))
        ready, outdated, alone = draw(st.booleans()), draw(st.booleans()), draw(st.integers(0, 5)) == 0
        going = (GOES, (), alone, True, seconds) if urgent else (None, (), alone)
        found.append(Departure(assignment, ready, outdated, *going))
    return found


@given(departures(), st.integers(0, 6), st.integers(0, 2), st.integers(0, 2))
def test_those_whose_nodes_go_stay_only_where_nobody_else_served_before_and_as_long_as_they_can(
    replicas: list[Departure], enough: int, surge: int, unavailable: int
) -> None:
    rollout = RolloutSpec(max_surge=surge, max_unavailable=unavailable)
    marked, free = keep_the_last(replicas, enough, NOTICED), FreeMap.of(Fabric(()))
    gone = {each.assignment.replica for each in leaving(marked, enough, rollout, free)}
    able = [each for each in replicas if each.urgent and each.ready and not each.alone and each.serves_seconds > 0]
    stay = [each for each in marked if each.urgent and each.ready and each.assignment.replica not in gone]
    taken_over = any(
        each.ready and not each.alone and not each.urgent and each.assignment.since < NOTICED for each in replicas
    )
    expected = 0 if taken_over else min(max(0, enough - serving(replicas)), len(able))
    assert expected == len(stay)
    let_go = [each.serves_seconds for each in able if each.assignment.replica in gone]
    assert min((each.serves_seconds for each in stay), default=90.0) >= max(let_go, default=0.0) or not expected
    others = [each for each in marked if each.assignment.replica not in gone and not each.urgent]
    left = [each for each in marked if each.assignment.replica not in gone]
    assert arriving(others, enough, rollout) == arriving(left, enough, rollout), "whoever stays keeps nobody away"
