"""Engines that had answered and do so no more, though their processes live (ADR 0123)."""

from __future__ import annotations

from dataclasses import replace

from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from weft.decide.replicas.health import UNRESPONSIVE_SECONDS
from weft.domain.reasons import Reason

STEP = 20.0


def serving(replicas: int, nodes: int) -> World:
    """Replicas of four GPUs, two a node."""
    world = World.of([board(f"b-{index}") for index in range(nodes)], pool("chat", pool_spec(4, external(replicas))))
    world.turn(6)
    assert world.serving("chat") == replicas
    return world


def hang(world: World, *replicas: int) -> None:
    """They are not ready from now on."""
    for name, pod in world.pods.items():
        if pod.identity is not None and pod.identity.replica in replicas:
            world.pods[name] = replace(pod, ready=False, unready=pod.unready or world.now)


def lasts(world: World, seconds: float, *replicas: int) -> list[str]:
    """What is told of engines that hang meanwhile."""
    told = []
    for _ in range(round(seconds / STEP)):
        hang(world, *replicas)
        world.turn(1, STEP)
        events = world.decision("chat").events
        told += [event.message for event in events if event.reason is Reason.EngineUnresponsive]
    return told


def ids(world: World) -> set[int]:
    return {each.replica for each in world.status("chat").assignments}


def test_an_engine_that_hangs_is_replaced_on_another_node() -> None:
    world = serving(2, 2)
    before = world.pods["chat-0-0"].node
    assert lasts(world, UNRESPONSIVE_SECONDS - 2 * STEP, 0) == []
    assert ids(world) == {0, 1}
    (told,) = lasts(world, 3 * STEP, 0)
    assert "replica 0: chat-0-0 runs, but has not been ready for 300 s: its engine hangs" in told
    assert ids(world) == {1, 2}
    world.turn(6)
    assert world.serving("chat") == 2
    assert world.pods["chat-2-0"].node != before


def test_one_that_is_ready_again_in_time_stays() -> None:
    world = serving(2, 2)
    lasts(world, UNRESPONSIVE_SECONDS - 2 * STEP, 0)
    for name, pod in world.pods.items():
        world.pods[name] = replace(pod, ready=True, unready=None)
    world.turn(20, STEP)
    assert ids(world) == {0, 1}


def test_a_lone_replica_is_replaced_too() -> None:
    world = serving(1, 1)
    lasts(world, UNRESPONSIVE_SECONDS + 2 * STEP, 0)
    world.turn(6)
    assert ids(world) == {1}
    assert world.serving("chat") == 1


def test_where_all_hang_one_is_tried_first_and_the_others_follow_once_it_serves() -> None:
    world = serving(3, 4)
    lasts(world, UNRESPONSIVE_SECONDS + STEP, 0, 1, 2)
    assert ids(world) == {1, 2, 3}
    lasts(world, 10 * STEP, 1, 2)
    assert ids(world) == {3, 4, 5}
    assert world.serving("chat") == 3


def test_where_that_one_does_not_serve_the_others_wait_for_what_stopped_them_all() -> None:
    world = serving(3, 4)
    for _ in range(round(UNRESPONSIVE_SECONDS / STEP) + 20):
        hang(world, 0, 1, 2)
        world.turn(1, STEP)
        world.pods = {name: replace(pod, ready=False) for name, pod in world.pods.items()}
    assert ids(world) == {1, 2, 3}


def test_on_a_node_that_does_not_answer_an_engine_is_not_said_to_hang() -> None:
    world = serving(1, 1)
    world.nodes = [replace(node, ready=False) for node in world.nodes]
    assert lasts(world, UNRESPONSIVE_SECONDS + 2 * STEP, 0) == []


def test_a_start_that_never_ends_keeps_no_engine_hanging() -> None:
    """Pods of a second replica are refused for ever, and the only one that answered hangs: it hung for hours."""
    world = serving(1, 2)
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, scaling=external(2)))

    def refused() -> None:
        for name in [name for name, pod in world.pods.items() if pod.identity and pod.identity.replica == 1]:
            del world.pods[name]

    told: list[str] = []
    for _ in range(180):
        told += lasts(world, STEP, 0)
        refused()
    assert "replica 0: chat-0-0 runs, but has not been ready for 300 s" in told[0]
    assert 0 not in ids(world)
