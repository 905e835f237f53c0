"""Moves that are made: within a budget, for whoever has no place otherwise, each replica served for all the time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.limited import CountedLate
from tests.decide.world import World, expert_spec, external, pool, pool_spec
from tests.fabric.cluster import board, busy, rack
from weft.domain.moves import HOUR_SECONDS, MoveBudget, Relocation
from weft.domain.reasons import Reason
from weft.domain.spec import RolloutSpec, RolloutStrategy

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord

IN_USE = 6


def halves(budget: int = 4, rollout: RolloutSpec | None = None) -> World:
    """`first` on b-0 and `second` on b-1, each beside four free GPUs; `large` needs a whole board."""
    first, second = (pool(name, pool_spec(4, rollout=rollout)) for name in ("first", "second"))
    world = World.of([board("b-0")], first)
    world.turn(4)
    world.pools["second"] = second
    world.pods["job"] = busy("job", "b-0", 4)
    world.nodes.append(board("b-1"))
    world.turn(IN_USE)
    del world.pods["job"]
    world.pools["large"] = pool("large", pool_spec(8))
    world.budget = MoveBudget(per_hour=budget)
    return world


def test_a_replica_moves_and_the_one_without_a_place_gets_it() -> None:
    """The successor is placed in the pass that decides; who waits says for whom, who moves says why."""
    world = halves()
    world.turn()
    assert [("b-0",), ("b-1",)] == world.nodes_of("first")
    waits = "0 of 1 replicas placed; waits for replica 0 of team/first to move away"
    assert ("False", "MovesUnderWay", waits) == world.condition("large", "Placed")
    assert [Reason.MakesRoom] == [event.reason for event in world.decision("first").events]
    told = world.condition("first", "Placed")[2]
    assert told.endswith("replica 0 is replaced, as it makes room for pool team/large")
    world.turn(12)
    assert [[("b-1",)], [("b-1",)], [("b-0",)]] == [world.nodes_of(name) for name in ("first", "second", "large")]
    assert 1 == world.serving("large")


def test_the_pool_that_moves_never_serves_less() -> None:
    """Whatever maxUnavailable allows: a move is for the sake of others."""
    world = halves(rollout=RolloutSpec(max_unavailable=1))
    for _ in range(14):
        world.turn()
        assert 1 <= world.serving("first")
        assert 1 == world.serving("second")
    assert 1 == world.serving("large")


def test_a_second_pass_says_the_same() -> None:
    """What is decided at once is all that the move needs."""
    world = halves()
    for _ in range(12):
        world.turn()
        before = [each.status for each in world.decide().pools]
        assert before == [each.status for each in world.decide().pools]


@pytest.mark.parametrize(
    "rollout",
    [RolloutSpec(paused=True), RolloutSpec(max_surge=0, max_unavailable=1), RolloutSpec(RolloutStrategy.Recreate)],
)
def test_a_pool_that_may_not_have_a_successor_first_is_left_alone(rollout: RolloutSpec) -> None:
    """Pauses, and rollouts without surge, keep replicas where they are."""
    world = halves(rollout=rollout)
    world.turn(IN_USE)
    assert [[("b-0",)], [("b-1",)]] == [world.nodes_of(name) for name in ("first", "second")]
    assert "would make room" not in world.condition("large", "Placed")[2]


def test_a_frozen_pool_is_left_alone_and_moves_once_it_is_not() -> None:
    """Whoever is on call sees the replicas that stood when they froze it."""
    world = halves()
    first, second = world.pools["first"], world.pools["second"]
    assert first.spec is not None
    assert second.spec is not None
    frozen = replace(external(1), freeze_until=world.now + 3600.0)
    world.pools["first"] = replace(first, spec=replace(first.spec, scaling=frozen))
    world.pools["second"] = replace(second, spec=replace(second.spec, rollout=RolloutSpec(paused=True)))
    world.turn(IN_USE)
    assert [[("b-0",)], [("b-1",)]] == [world.nodes_of(name) for name in ("first", "second")]
    world.now += 3600.0
    world.turn(14)
    assert [[("b-1",)], [("b-0",)]] == [world.nodes_of(name) for name in ("first", "large")]


def test_the_budget_of_an_hour_is_kept_over_restarts() -> None:
    """Moves of the last hour count, whoever made them; after it the next one begins."""
    world = halves(budget=1)
    second = world.pools["second"]
    moved = (Relocation(7, world.now, "team/gone"),)
    world.pools["second"] = replace(second, status=replace(second.status, moves=moved))
    world.turn(IN_USE)
    assert [("b-0",)] == world.nodes_of("first")
    assert world.condition("large", "Placed")[2].endswith(", but at most 1 may begin in an hour")
    world.now += HOUR_SECONDS
    world.turn(14)
    assert 1 == world.serving("large")


def test_moves_that_help_nobody_any_more_are_called_off() -> None:
    """The replica stays where it is, and the successor that did not serve yet leaves."""
    world = halves()
    world.turn(2)
    assert 2 == len(world.nodes_of("first"))
    del world.pools["large"]
    world.turn(IN_USE)
    assert [("b-0",)] == world.nodes_of("first")
    assert 1 == world.serving("first")


def test_another_place_that_opens_meanwhile_is_taken() -> None:
    """A new board is better than waiting."""
    world = halves()
    world.turn()
    world.nodes.append(board("b-9"))
    world.turn(IN_USE)
    assert [("b-9",)] == world.nodes_of("large")
    assert [("b-0",)] == world.nodes_of("first")


def test_nobody_takes_the_hole_that_is_being_opened() -> None:
    """Neither an older pool that grows nor one of higher priority, though four GPUs are free on each board."""
    world = halves()
    world.turn()
    spec = pool_spec(4, external(2))
    world.pools["first"] = replace(world.pools["first"], priority=9)
    world.pools["greedy"] = pool("greedy", spec, priority=5)
    world.turn(14)
    assert 1 == world.serving("large")
    assert [] == world.nodes_of("greedy")


def full_board(*pools: PoolRecord, small: int = 0) -> World:
    """Replicas of four GPUs fill b-0 and so many small boards; each that leaves takes half a minute."""
    world = CountedLate.of([board("b-0"), *(board(f"s-{index}", gpus=4) for index in range(small))], *pools)
    world.turn(IN_USE)
    return world


def make_large_wait(world: World) -> None:
    """It needs b-0 whole; four GPUs are free on each of two other boards."""
    for index in (1, 2):
        world.pods[f"job-{index}"] = busy(f"job-{index}", f"b-{index}", 4)
        world.nodes.append(board(f"b-{index}"))
    world.pools["large"] = pool("large", pool_spec(8))
    world.budget = MoveBudget(per_hour=4)


@pytest.mark.parametrize("staying", [0, 1])
def test_of_two_replicas_of_one_pool_the_second_finds_its_place_kept_while_the_first_moves(staying: int) -> None:
    """Its pool has no surge for both at once, and a pool that comes meanwhile would like to be there."""
    world = full_board(pool("first", pool_spec(4, external(2 + staying))), small=staying)
    make_large_wait(world)
    world.turn()
    assert 3 + staying == len(world.nodes_of("first"))
    world.pools["greedy"] = replace(pool("greedy", pool_spec(4), priority=5), preempts=False)
    for _ in range(30):
        world.turn()
        assert 2 + staying <= world.serving("first")
        assert [] == world.nodes_of("greedy")
        assert "NoSlot" != world.condition("large", "Placed")[1]
    assert [("b-1",), ("b-2",)] == sorted(world.nodes_of("first"))[:2]
    assert 1 == world.serving("large")


def test_replicas_of_two_pools_that_move_for_one_have_successors_of_their_own() -> None:
    """Whatever their numbers are: one has been replaced once before."""
    world = full_board(pool("first", pool_spec(4)), pool("second", pool_spec(4)))
    world.end("second-0-0")
    world.turn(2 * IN_USE)
    assert [1] == [each.replica for each in world.status("second").assignments]
    assert [("b-0",)] == world.nodes_of("first") == world.nodes_of("second")
    make_large_wait(world)
    for _ in range(20):
        world.turn()
        assert "NoSlot" != world.condition("large", "Placed")[1]
    assert [("b-1",), ("b-2",)] == sorted((*world.nodes_of("first"), *world.nodes_of("second")))
    assert 1 == world.serving("large")


def test_several_small_replicas_leave_a_rack_one_after_the_other() -> None:
    """Within the surge of their own pool, until a group of 32 GPUs has eight whole trays."""
    world = World.of(rack("a.1", 9), pool("small", pool_spec(4, external(2), "GB200")))
    world.turn(IN_USE)
    world.nodes += rack("b.1", 9)
    world.pods |= {f"job-{index}": busy(f"job-{index}", f"b.1-t{index}", 4) for index in range(6)}
    world.pools["wide"] = pool("wide", expert_spec(1, 32))
    world.budget = MoveBudget(per_hour=2)
    for _ in range(30):
        world.turn()
        assert 2 <= world.serving("small")
    assert 1 == world.serving("wide")
    assert 1 == sum(nodes[0].startswith("b.1") for nodes in world.nodes_of("small"))


def test_a_larger_repacking_than_the_budget_of_one_pass_is_only_told() -> None:
    """Half of the moves would help nobody."""
    world = halves()
    world.budget = MoveBudget(per_hour=4, per_decision=0)
    world.turn(IN_USE)
    assert [("b-0",)] == world.nodes_of("first")
    assert world.condition("large", "Placed")[2].endswith("(4 GPUs move), but at most 0 may begin at once")
