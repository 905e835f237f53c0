"""A changed spec replaces running replicas within the rollout's limits, and never waits for broken ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from tests.placement.cases import free_map
from weft.decide.rollouts.rollout import leaving, limits_of
from weft.domain.cluster import ContainerFailure, PodPhase
from weft.domain.spec import RolloutSpec, RolloutStrategy
from weft.domain.status import Assignment
from weft.placement import Departure


def rolling_world(replicas: int, boards: int, rollout: RolloutSpec) -> World:
    world = World.of(
        [board(f"b-{i}") for i in range(boards)], pool("chat", pool_spec(8, external(replicas), rollout=rollout))
    )
    world.turn(6)
    assert world.serving("chat") == replicas
    return world


def change(world: World, value: str = "2") -> None:
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, engine=replace(spec.engine, env=(("VERSION", value),))))


def outdated(world: World) -> int:
    status = world.status("chat")
    return sum(each.revision != status.revision for each in status.assignments)


def roll(world: World, turns: int = 60) -> tuple[int, int]:
    """(Fewest serving, most assigned) until the rollout is through."""
    fewest, most = 99, 0
    for _ in range(turns):
        world.turn()
        fewest = min(fewest, world.serving("chat"))
        most = max(most, len(world.status("chat").assignments))
        if outdated(world) == 0 and world.serving("chat") == world.status("chat").desired_replicas:
            break
    return fewest, most


def test_a_surge_rollout_keeps_every_replica_serving() -> None:
    world = rolling_world(3, 4, RolloutSpec(max_surge=1, max_unavailable=0))
    change(world)
    assert roll(world) == (3, 4)
    assert outdated(world) == 0


def test_several_replicas_may_surge_at_once() -> None:
    world = rolling_world(4, 6, RolloutSpec(max_surge=0.5, max_unavailable=0))
    change(world)
    assert roll(world) == (4, 6)


def test_a_pool_that_shrinks_keeps_who_serves_where_the_rest_has_no_other_half() -> None:
    """S1: the newest goes first, but not if those that are left are ready and get no requests."""
    free, rollout = free_map([board("b-0")]), RolloutSpec(max_surge=1, max_unavailable=0)
    older, newer = (Departure(Assignment(i, "r", ("b-0",), 1, 0.0), ready=True, outdated=False) for i in (0, 1))
    assert (newer,) == leaving([older, newer], 1, rollout, free)
    assert () == leaving([replace(older, alone=True), newer], 1, rollout, free)


def test_in_place_replacement_uses_no_more_gpus_than_before() -> None:
    world = rolling_world(3, 3, RolloutSpec(max_surge=0, max_unavailable=1))
    change(world)
    fewest, most = roll(world)
    assert (fewest, most) == (2, 3)
    assert outdated(world) == 0


def test_a_full_fabric_without_leave_to_be_unavailable_says_so_and_changes_nothing() -> None:
    world = rolling_world(2, 2, RolloutSpec(max_surge=1, max_unavailable=0))
    change(world)
    world.turn(10)
    assert (outdated(world), world.serving("chat")) == (2, 2)
    status, reason, message = world.condition("chat", "Placed")
    assert (status, reason) == ("False", "NoSlot")
    assert "the rollout finds no room" in message
    assert "set spec.rollout.maxUnavailable above 0" in message
    world.nodes.append(board("b-9"))
    roll(world)
    assert outdated(world) == 0


def test_recreate_never_runs_two_revisions_at_once() -> None:
    world = rolling_world(2, 4, RolloutSpec(strategy=RolloutStrategy.Recreate))
    change(world)
    for _ in range(12):
        world.turn()
        revisions = {pod.identity.revision for pod in world.pods.values() if pod.identity}
        assert len(revisions) <= 1
    assert (outdated(world), world.serving("chat")) == (0, 2)


def test_a_paused_rollout_replaces_nothing_but_still_scales() -> None:
    world = rolling_world(2, 4, RolloutSpec(paused=True))
    change(world)
    world.turn(10)
    assert (outdated(world), world.serving("chat")) == (2, 2)
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, scaling=external(3)))
    world.turn(5)
    assert (outdated(world), world.serving("chat")) == (2, 3)


@pytest.mark.parametrize("frozen", [False, True], ids=["paused", "paused and frozen"])
def test_a_pause_keeps_no_place_for_a_replica_that_was_never_made(*, frozen: bool) -> None:
    """The spec changed before its pods were created: nobody makes pods of the earlier revision any more."""
    world = rolling_world(1, 4, RolloutSpec(paused=True))
    spec = world.pools["chat"].spec
    assert spec is not None
    scaling = replace(external(2), freeze_until=world.now + 3600.0 if frozen else None)
    world.edit("chat", replace(spec, scaling=scaling))
    world.decide()
    kept, unmade = world.status("chat").assignments
    change(world)
    world.decide()
    now = world.status("chat")
    assert [each.replica for each in now.assignments] == [kept.replica, unmade.replica + 1]
    assert [each.revision == now.revision for each in now.assignments] == [False, True]


def test_a_broken_revision_is_replaced_without_waiting_for_it() -> None:
    """A change that cannot start is followed by one that can: the broken replicas go first, the old ones stay."""
    world = rolling_world(3, 4, RolloutSpec(max_surge=1, max_unavailable=0))
    world.engines_start = False
    healthy = {name for name, pod in world.pods.items() if pod.ready}
    change(world, "broken")
    for _ in range(10):
        for name in [name for name, pod in world.pods.items() if pod.phase is PodPhase.Running and name not in healthy]:
            world.end(name, ContainerFailure("Error", "RuntimeError: no", 1))
        world.turn()
        for name in healthy & world.pods.keys():
            world.pods[name] = replace(world.pods[name], ready=True)
        assert world.serving("chat") == 3
    world.engines_start = True
    change(world, "fixed")
    fewest, _ = roll(world)
    assert fewest == 3
    assert outdated(world) == 0


@pytest.mark.parametrize("turns", range(1, 9))
@pytest.mark.parametrize(
    ("rollout", "fewest", "most"),
    [
        (RolloutSpec(max_surge=1, max_unavailable=0), 3, 4),
        (RolloutSpec(max_surge=2, max_unavailable=1), 2, 5),
        (RolloutSpec(max_surge=0, max_unavailable=1), 2, 3),
    ],
)
def test_a_rollout_during_a_rollout_keeps_its_limits_and_ends_in_the_last_revision(
    turns: int, rollout: RolloutSpec, fewest: int, most: int
) -> None:
    """Whatever serves counts, of the first revision and of the second, which is replaced as well."""
    world = rolling_world(3, 5, rollout)
    change(world, "2")
    for _ in range(turns):
        world.turn()
        assert world.serving("chat") >= fewest
    change(world, "3")
    least, largest = roll(world)
    assert least >= fewest
    assert largest <= most
    assert (outdated(world), world.serving("chat")) == (0, 3)
    world.turn(6)  # the last ones end
    assert {pod.identity.revision for pod in world.pods.values() if pod.identity} == {world.status("chat").revision}


@pytest.mark.parametrize("turns", range(1, 7))
def test_a_rollout_that_is_taken_back_keeps_who_still_runs_as_before(turns: int) -> None:
    world = rolling_world(3, 5, RolloutSpec(max_surge=1, max_unavailable=0))
    before = world.pools["chat"].spec
    assert before is not None
    change(world, "2")
    world.turn(turns)
    kept = {each.replica for each in world.status("chat").assignments if each.revision != world.status("chat").revision}
    assert kept
    world.edit("chat", before)
    assert roll(world)[0] == 3
    assert kept <= {each.replica for each in world.status("chat").assignments}


def test_a_revision_that_does_not_become_ready_takes_no_serving_replica_down() -> None:
    world = rolling_world(3, 5, RolloutSpec(max_surge=1, max_unavailable=0))
    ready = set(world.pods)
    world.engines_start = False
    change(world)
    for _ in range(20):
        world.turn()
        for name in ready & world.pods.keys():
            world.pods[name] = replace(world.pods[name], ready=True)
    assert outdated(world) == 3
    assert len(world.status("chat").assignments) == 4


def test_scaling_down_during_a_rollout_takes_the_outdated_first() -> None:
    world = rolling_world(4, 5, RolloutSpec(max_surge=1, max_unavailable=0))
    change(world)
    world.turn(4)
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, scaling=external(2)))
    current = {
        each.replica for each in world.status("chat").assignments if each.revision == world.status("chat").revision
    }
    assert current
    world.turn(2)
    assert current <= {each.replica for each in world.status("chat").assignments}
    fewest, _ = roll(world)
    assert fewest >= 2
    assert outdated(world) == 0


def test_a_change_there_and_back_ends_like_no_change() -> None:
    world = rolling_world(2, 3, RolloutSpec(max_surge=1, max_unavailable=0))
    spec, before = world.pools["chat"].spec, world.nodes_of("chat")
    assert spec is not None
    change(world)
    world.turn()
    world.edit("chat", spec)
    world.turn(8)
    assert world.nodes_of("chat") == before
    assert world.serving("chat") == 2


def test_scaling_in_removes_replicas_that_are_not_ready_first() -> None:
    world = rolling_world(3, 3, RolloutSpec())
    first = world.status("chat").assignments[0]
    world.engines_start = False
    name = f"chat-{first.replica}-0"
    for pod in list(world.pods.values()):
        world.pods[pod.name] = replace(pod, ready=pod.name != name)
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, scaling=external(2)))
    world.turn()
    assert first not in world.status("chat").assignments


@pytest.mark.parametrize(
    ("surge", "unavailable", "desired", "expected"),
    [
        (1, 0, 3, (1, 0)),
        (0.25, 0.25, 4, (1, 1)),
        (0.25, 0.25, 3, (1, 0)),
        (0, 0, 3, (0, 1)),
        (0.0, 0.2, 3, (0, 1)),
        (2, 9, 3, (2, 3)),
    ],
)
def test_limits_round_as_deployments_do(
    surge: float, unavailable: float, desired: int, expected: tuple[int, int]
) -> None:
    """Surge up, unavailable down, and never both zero."""
    limits = limits_of(RolloutSpec(max_surge=surge, max_unavailable=unavailable), desired)
    assert (limits.surge, limits.unavailable) == expected
