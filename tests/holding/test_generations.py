"""A split rolls as generations that never meet: nobody is asked who is not there, and enough serve all the time."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.holding.cluster import boards
from tests.holding.pairs import GRACE_SECONDS, HALVES, Pair, split_body

if TYPE_CHECKING:
    from collections.abc import Callable

TURNS = 250


def serving(prefill: int, decode: int, nodes: int, **more: object) -> Pair:
    """A split that serves as it was declared."""
    world = Pair.on(boards(nodes), split_body(prefill, decode, **more))
    world.turn(12)
    assert [len(world.engines(half, next(iter(world.pairs())))) for half in HALVES] == [prefill, decode]
    assert world.routers().total() == 2
    return world


def newer(world: Pair) -> None:
    """The user changes an argument that both halves get."""
    world.split["spec"] = {**world.split["spec"], "engine": {"name": "VLLM", "args": ["--max-num-seqs=64"]}}
    world.split["metadata"]["generation"] += 1


def roll(world: Pair, check: Callable[[], None]) -> None:
    """Until the split rests, with a look after every turn."""
    quiet = 0
    for _ in range(TURNS):
        before = world.writes
        world.turn()
        check()
        quiet = quiet + 1 if world.writes == before and not (world.going or world.tries) else 0
        if quiet > world.ending_turns:
            return
    raise AssertionError(world.describe())


@pytest.mark.parametrize("counts", [(1, 1), (1, 3), (3, 1), (2, 3), (4, 4)])
def test_a_pair_rolls_without_a_moment_in_which_less_serves(counts: tuple[int, int]) -> None:
    world = serving(*counts, nodes=4)
    (old,) = world.pairs()
    newer(world)
    least: list[float] = []
    roll(world, lambda: least.append(world.capacity()))
    (new,) = world.pairs()
    assert new != old
    assert min(least) >= 1.0
    assert [len(world.engines(half, new)) for half in HALVES] == list(counts)
    assert world.routers() == {new: 2}


@pytest.mark.parametrize("counts", [(1, 1), (1, 3), (2, 3)])
def test_no_request_is_sent_where_half_a_pair_is_missing(counts: tuple[int, int]) -> None:
    """S6, for routers that take new requests and for those that finish their streams."""
    world = serving(*counts, nodes=4)
    newer(world)

    def look() -> None:
        assert world.routers().total() > 0
        assert all(world.is_pair(pair) for pair in world.routers())
        ending = {name.split("-")[-2] for name in world.going}
        assert all(world.is_pair(pair) for pair in ending), "a router that finishes its streams lost a half"

    roll(world, look)


def test_requests_go_over_as_replicas_do() -> None:
    """As the Service spreads them evenly over routers, each generation has as many as its part of what serves."""
    world = serving(4, 4, nodes=4)
    (old,) = world.pairs()
    newer(world)
    parts: list[tuple[float, float]] = []

    def look() -> None:
        found, total = world.routers(), world.capacity()
        engines = min(len(world.engines(half, old)) / 4 for half in HALVES)
        parts.append((found[old] / found.total(), engines / total))

    roll(world, look)
    assert [part for part, _ in parts] == sorted((part for part, _ in parts), reverse=True)
    assert len({part for part, _ in parts}) >= 4
    # a turn behind: routers follow what answered when the split was last looked at
    assert all(later[0] <= before[1] + 0.15 for before, later in pairwise(parts))


def test_an_edit_of_one_half_rolls_both() -> None:
    """What only one of them was told may be what their KV depends on."""
    world = serving(1, 2, nodes=4, engine={"name": "VLLM"})
    (old,) = world.pairs()
    side = world.split["spec"]["decode"]
    world.split["spec"]["decode"] = {**side, "engine": {"args": ["--max-num-seqs=64"]}}
    world.split["metadata"]["generation"] += 1
    roll(world, lambda: None)
    (new,) = world.pairs()
    assert new != old


def crash_all_but(pairs: set[str], world: Pair) -> None:
    """Engines of every other generation end."""
    for pair in world.pairs() - pairs:
        for name in [name for half in HALVES for name in world.engines(half, pair)]:
            world.cluster.crash(name)


def test_a_broken_generation_leaves_the_one_before_as_it_is() -> None:
    """Its engines end at once: the old pair serves on, whole; and the way back is one edit."""
    world = serving(2, 2, nodes=4)
    (old,) = world.pairs()
    before, spec = {half: world.engines(half, old) for half in HALVES}, world.split["spec"]
    newer(world)
    for _ in range(40):
        world.turn()
        crash_all_but({old}, world)
        assert {half: world.engines(half, old) for half in HALVES} == before
        assert set(world.routers()) == {old}
    world.split["spec"] = spec
    world.split["metadata"]["generation"] += 1
    roll(world, lambda: None)
    assert {half: world.engines(half, old) for half in HALVES} == before
    assert world.pairs() == {old}


@pytest.mark.parametrize("half", HALVES)
def test_a_pair_that_misses_a_probe_stays_while_the_next_generation_is_broken(half: str) -> None:
    """Nobody could make it anew: its spec is gone."""
    world = serving(1, 1, nodes=4)
    (old,) = world.pairs()
    (engine,) = world.engines(half, old)
    newer(world)
    for step in range(30):
        world.turn()
        crash_all_but({old}, world)
        if step in (9, 11):
            world.cluster.stumble(engine, ready=step == 11)
    assert world.is_pair(old)
    assert world.routers() == {old: 2}


def test_the_front_of_an_earlier_pair_outlives_a_moment_in_which_one_of_its_halves_does_not_answer() -> None:
    """While a pause keeps the pair: routers made anew would serve later than the engine that answers again."""
    world = serving(1, 1, nodes=4, rollout={"paused": True})
    (old,) = world.pairs()
    newer(world)
    world.turn(5)
    born, (engine,) = world.born, world.engines("prefill", old)
    world.cluster.stumble(engine)
    world.turn(2)
    world.cluster.stumble(engine, ready=True)
    world.turn()
    assert world.is_pair(old)
    assert world.routers() == {old: 2}
    assert (world.born, world.going.total()) == (born, 0)


def test_without_room_for_a_second_generation_recreate_stops_the_first_one() -> None:
    """One node with two GPUs, and none to spare."""
    world = serving(1, 1, nodes=1, rollout={"strategy": "Recreate"})
    world.cluster.occupy("b-0", 6)
    (old,) = world.pairs()
    newer(world)
    roll(world, lambda: None)
    (new,) = world.pairs()
    assert new != old
    assert world.routers() == {new: 2}


def test_a_router_on_a_dead_node_keeps_the_pair_before_it_for_its_grace_period_and_no_longer() -> None:
    """Until then it may have streams; nobody takes it from the API, and the pair would hold its GPUs for ever."""
    world = serving(2, 2, nodes=4)
    (old,) = world.pairs()
    router = world.wedge_a_router("b-3")
    newer(world)
    while "deletionTimestamp" not in world.cluster.pods[router]["metadata"]:
        world.turn()
    over = world.cluster.now + GRACE_SECONDS
    while world.cluster.now < over:
        assert world.is_pair(old)
        world.turn(1, 30.0)
    world.turn(5, 30.0)
    assert router in world.cluster.pods
    assert old not in world.pairs()
    assert all(world.is_pair(pair) for pair in world.routers())


@pytest.mark.parametrize("lives", [3, 5, 7])
def test_an_operator_that_dies_again_and_again_rolls_a_pair_all_the_same(lives: int) -> None:
    """L5 between any two writes: each process gets so many of them."""
    world = serving(1, 2, nodes=4)
    newer(world)
    outlived = []
    for _ in range(TURNS):
        outlived.append(world.outlives_a_turn(lives))
        assert all(world.is_pair(pair) for pair in world.routers())
        assert world.capacity() >= 1.0
    (new,) = world.pairs()
    assert not all(outlived)
    assert world.routers() == {new: 2}
