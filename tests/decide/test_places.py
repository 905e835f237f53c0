"""What others may evict at once follows what had a place within the last hour, whatever is desired."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decide.slow import assert_a_second_pass_says_the_same
from tests.decide.test_drains import cordon, silence
from tests.decide.test_kueue import KUEUE
from tests.decide.test_splits import half, split_world
from tests.decide.world import World, external, of_kueue, pool, pool_spec
from tests.fabric.cluster import board, rack
from weft.decide.telling.placed_lately import REMEMBERED_SECONDS, most_placed, places_after
from weft.domain.spec import RolloutSpec, RolloutStrategy
from weft.domain.status import PoolStatus
from weft.domain.workload import Role
from weft.render import render_disruption_budget

HOUR = REMEMBERED_SECONDS


def crowded(boards: int = 3, desired: int = 5, rollout: RolloutSpec | None = None) -> World:
    """A pool of a board for each replica, which wants more of them than there are."""
    world = World.of([board(f"b-{at}") for at in range(boards)])
    world.pools["chat"] = pool("chat", pool_spec(8, external(desired), rollout=rollout))
    world.turn(8)
    assert world.serving("chat") == min(boards, desired)
    return world


def kept(world: World, name: str = "chat") -> int:
    """`minAvailable` of its PodDisruptionBudget."""
    found: int = render_disruption_budget(world.pools[name])["spec"]["minAvailable"]
    return found


def allowed(world: World, name: str = "chat") -> int:
    """Pods that the API server lets others evict now: those that are ready and that nobody deletes, less those kept."""
    uid = world.pools[name].key.uid
    ours = [pod for pod in world.pods.values() if pod.identity is not None and pod.identity.pool_uid == uid]
    return max(0, sum(pod.ready and not pod.terminating for pod in ours) - kept(world, name))


def evict(world: World, node: str) -> None:
    """What a node drain does once the budget lets it."""
    (name,) = [pod.name for pod in world.pods.values() if pod.node == node and not pod.terminating]
    world.pods[name] = replace(world.pods[name], terminating=True, ready=False)


def uncordon(world: World) -> None:
    world.nodes = [replace(node, cordoned=False) for node in world.nodes]


def edited(world: World, replicas: int) -> None:
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, scaling=external(replicas)))


def test_with_room_for_all_nothing_is_told_and_all_but_one_are_kept() -> None:
    world = crowded(boards=5, desired=4)
    assert (world.status("chat").placed_replicas, kept(world), allowed(world)) == (None, 3, 1)


def test_without_room_for_all_nodes_are_drained_one_after_the_other() -> None:
    """Also where no replica finds another place meanwhile: the next one goes once the one before is back."""
    world = crowded()
    for node in ("b-0", "b-1", "b-2"):
        assert (world.status("chat").placed_replicas, allowed(world)) == (3, 1)
        cordon(world, node)
        evict(world, node)
        for _ in range(100):
            assert allowed(world) == 0
            world.turn(1, 15.0)
        assert world.serving("chat") == 2
        uncordon(world)
        world.turn(100)
        assert world.serving("chat") == 3


def test_a_node_that_never_comes_back_is_forgotten_after_an_hour() -> None:
    world = crowded(boards=4)
    world.turn(60, 60.0)
    cordon(world, "b-0")
    evict(world, "b-0")
    world.turn()
    lost = world.now
    while world.now < lost + HOUR - 60:
        world.turn(1, 60.0)
        assert (kept(world), allowed(world)) == (3, 0)
    world.turn(1, 60.0)
    assert (world.status("chat").placed_replicas, kept(world), allowed(world)) == (3, 2, 1)
    assert_a_second_pass_says_the_same(world)


def test_the_last_of_several_that_should_serve_is_never_evicted() -> None:
    world = crowded(boards=1, desired=2)
    world.turn(70, 60.0)
    assert (world.status("chat").placed_replicas, kept(world), allowed(world)) == (1, 1, 0)


def test_a_lone_replica_may_always_go() -> None:
    """Before it has a place as well as after: a node drain is never blocked for ever."""
    world = crowded(boards=1, desired=1)
    assert (kept(world), allowed(world)) == (0, 1)
    cordon(world, "b-0")
    evict(world, "b-0")
    world.turn(5)
    assert (world.serving("chat"), kept(world)) == (0, 0)


def test_replicas_that_wait_in_a_queue_have_no_place() -> None:
    """Each is handed over at once, and Kueue's quota lets three of ten in: those can be drained."""
    world = World.of([board(f"b-{at}") for at in range(4)])
    world.pools["chat"] = pool("chat", of_kueue(pool_spec(8, external(10))))
    world.queueing = KUEUE
    for replica in range(3):
        world.admitted["chat", replica] = (f"b-{replica}",)
    world.turn(6, 30.0)
    assert (len(world.status("chat").assignments), world.serving("chat")) == (10, 3)
    assert (world.status("chat").placed_replicas, kept(world), allowed(world)) == (3, 2, 1)
    assert_a_second_pass_says_the_same(world)


def test_while_more_start_all_that_have_a_place_count() -> None:
    world = crowded(boards=4, desired=2)
    world.scheduler_works = False
    edited(world, 4)
    world.turn(8)
    assert (len(world.nodes_of("chat")), world.serving("chat"), kept(world), allowed(world)) == (4, 2, 3, 0)


def test_growth_that_finds_no_room_keeps_as_many_as_before() -> None:
    world = crowded(boards=2, desired=2)
    assert (kept(world), allowed(world)) == (1, 1)
    edited(world, 6)
    world.turn(10)
    assert (world.status("chat").placed_replicas, kept(world), allowed(world)) == (2, 1, 1)


def test_room_that_is_added_counts_at_once() -> None:
    world = crowded(boards=2, desired=4)
    world.nodes += [board("b-8"), board("b-9")]
    world.turn()
    assert (world.status("chat").placed_replicas, kept(world), allowed(world)) == (None, 3, 0)
    world.turn(5)
    assert allowed(world) == 1


def test_fewer_that_are_desired_count_at_once() -> None:
    world = crowded(boards=4, desired=6)
    edited(world, 3)
    world.turn(10)
    assert (world.status("chat").placed_replicas, kept(world), allowed(world)) == (None, 2, 1)


@pytest.mark.parametrize("strategy", RolloutStrategy)
def test_a_rollout_lets_nobody_evict_more(strategy: RolloutStrategy) -> None:
    """With room for one more, and where all leave before the first one comes."""
    world = crowded(boards=4, desired=3, rollout=RolloutSpec(strategy=strategy))
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, pod=replace(spec.pod, annotations=(("a", "b"),))))
    for _ in range(40):
        world.turn()
        assert (world.status("chat").placed_replicas, kept(world)) == (None, 2)
    assert world.serving("chat") == 3


def test_a_node_that_does_not_answer_lets_nobody_evict_another_replica() -> None:
    """Its pods are not ready, and later it has none: neither is a reason to count fewer within an hour."""
    world = crowded(boards=3, desired=4)
    silence(world, "b-1")
    world.pods = {name: replace(pod, ready=pod.ready and pod.node != "b-1") for name, pod in world.pods.items()}
    for _ in range(60):
        world.turn(1, 30.0)
        world.pods = {name: replace(pod, ready=pod.ready and pod.node != "b-1") for name, pod in world.pods.items()}
        assert (kept(world), allowed(world)) == (2, 0)


def test_a_new_process_counts_no_fewer_than_the_one_before_it() -> None:
    world = crowded()
    cordon(world, "b-0")
    evict(world, "b-0")
    world.turn(4)
    for _ in range(3):
        world.memory.clear()
        world.turn(20, 60.0)
        assert (world.status("chat").placed_replicas, allowed(world)) == (3, 0)
    world.turn(60, 60.0)
    assert (world.status("chat").placed_replicas, allowed(world)) == (2, 1)


def test_a_status_of_an_older_release_counts_what_is_desired_for_an_hour() -> None:
    world = crowded()
    record = world.pools["chat"]
    world.pools["chat"] = replace(record, status=replace(record.status, placed_replicas=None))
    world.memory.clear()
    world.turn(50, 60.0)
    assert (world.status("chat").placed_replicas, kept(world)) == (None, 4)
    world.turn(11, 60.0)
    assert (world.status("chat").placed_replicas, kept(world)) == (3, 2)


def test_all_pods_of_a_replica_count() -> None:
    """Replicas over two trays: of three that are desired two have a place, and one pod of the four may go."""
    world = World.of(rack("r0.0", 4), pool("chat", pool_spec(8, external(3), accelerator="GB200")))
    world.turn(8)
    assert world.serving("chat") == 2
    assert (world.status("chat").placed_replicas, kept(world), allowed(world)) == (2, 3, 1)


def test_each_half_of_a_split_counts_its_own() -> None:
    world = split_world(half(Role.Prefill, 8, external(2)), half(Role.Decode, 8, external(4)), boards=4)
    world.turn(8)
    placed = {name: len(world.nodes_of(name)) for name in ("pd-prefill", "pd-decode")}
    assert sum(placed.values()) == 4
    for name, replicas in placed.items():
        desired = world.status(name).desired_replicas
        assert world.status(name).placed_replicas == (None if replicas == desired else replicas)
        assert kept(world, name) == min(desired, max(2, replicas)) - 1


def test_nothing_is_written_while_nothing_changes() -> None:
    """The memory stays the very same, and so does the status, within an hour and after it."""
    world = crowded()
    for _ in range(10):
        before = world.memory["uid-chat"].places, world.status("chat")
        world.turn(1, 600.0)
        assert world.memory["uid-chat"].places is before[0]
        assert world.status("chat") == before[1]


PASSES = st.lists(st.tuples(st.floats(1.0, 1500.0), st.integers(0, 6), st.integers(0, 8)), min_size=1, max_size=30)


@given(PASSES, st.integers(0, 6), st.integers(0, 8))
def test_it_is_the_most_of_the_last_hour(passes: list[tuple[float, int, int]], first: int, desired_before: int) -> None:
    """Never fewer than have a place now, nor than had one at any time within an hour; else exactly the most of it."""
    now, status = 1e6, PoolStatus(desired_replicas=desired_before)
    places, began, history = places_after(None, first, now), now, [(now, first)]
    for seconds, placed, desired in passes:
        history[-1] = (now + seconds, history[-1][1])  # it had so many until now
        now += seconds
        places = places_after(places, placed, now)
        history.append((now, placed))
        most = max(replicas for until, replicas in history if now - until < HOUR)
        told = most_placed(places, status, desired, now)
        counted = desired if told is None else told
        known = status.desired_replicas if status.placed_replicas is None else status.placed_replicas
        assert counted == min(desired, most if now - began >= HOUR else max(most, known))
        assert len(places.ended) <= 6
        status = replace(status, desired_replicas=desired, placed_replicas=told)
