"""A split that is edited again while it rolls: more than two generations, of which both halves let go in one order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.holding.pairs import HALVES
from tests.holding.test_generations import TURNS, crash_all_but, newer, roll, serving

if TYPE_CHECKING:
    from tests.holding.pairs import Pair


def edited_again(world: Pair, sequences: int) -> None:
    """The user changes the argument that both halves get once more, before the last change is through."""
    world.split["spec"] = {**world.split["spec"], "engine": {"name": "VLLM", "args": [f"--max-num-seqs={sequences}"]}}
    world.split["metadata"]["generation"] += 1


def labelled(world: Pair, half: str) -> None:
    """The user changes what only surrounds the engines of one half: it rolls within its generation."""
    side = world.split["spec"][half]
    world.split["spec"] = {**world.split["spec"], half: {**side, "pod": {"labels": {"team": "x"}}}}
    world.split["metadata"]["generation"] += 1


def least_of_a_roll(world: Pair) -> float:
    """The least part that served until one generation was left, as large as it was declared."""
    least: list[float] = []
    roll(world, lambda: least.append(world.capacity()))
    (new,) = world.pairs()
    wanted = [world.split["spec"][half]["scaling"]["minReplicas"] for half in HALVES]
    assert wanted == [len(world.engines(half, new)) for half in HALVES]
    assert world.routers() == {new: 2}
    return min(least)


@pytest.mark.parametrize("turns", [4, 5, 6, 7, 8])
@pytest.mark.parametrize("counts", [(1, 4), (4, 1), (2, 3)])
def test_a_third_generation_comes_before_a_half_of_an_earlier_one_leaves(counts: tuple[int, int], turns: int) -> None:
    """The single replica of a half has to stay for two generations; the third one's comes beyond the surge."""
    world = serving(*counts, nodes=4)
    newer(world)
    world.turn(turns)
    edited_again(world, 32)
    assert least_of_a_roll(world) >= 1.0


def test_edits_that_come_faster_than_a_roll_takes_leave_enough_and_the_last_one_is_reached() -> None:
    world = serving(2, 4, nodes=4)
    least: list[float] = []
    for sequences in (64, 32, 16, 8):
        edited_again(world, sequences)
        for _ in range(5):
            world.turn()
            least.append(world.capacity())
    assert min(least) >= 1.0
    assert least_of_a_roll(world) >= 1.0
    assert all("--max-num-seqs=8" in json.dumps(pod) for half in HALVES for pod in world.pods_of(f"duo-{half}"))


@pytest.mark.parametrize("turns", [4, 7])
@pytest.mark.parametrize("half", HALVES)
def test_a_half_that_is_edited_alone_in_mid_roll_keeps_what_the_other_half_has_counterparts_for(
    half: str, turns: int
) -> None:
    world = serving(3, 3, nodes=4)
    newer(world)
    world.turn(turns)
    labelled(world, half)
    assert least_of_a_roll(world) >= 1.0


def half_each(world: Pair) -> set[str]:
    """A rollout goes on until two generations serve half each; gives both."""
    newer(world)
    for _ in range(TURNS):
        world.turn()
        if [world.part(pair) >= 0.5 for pair in world.pairs()] == [True, True]:
            return world.pairs()
    raise AssertionError(world.describe())


def test_two_generations_that_serve_are_reached_while_the_engines_of_a_third_crash_for_ever() -> None:
    """Its front would leave the Service a choice of one of them."""
    world = serving(4, 4, nodes=4, rollout={"minReadySeconds": 0})
    two = half_each(world)
    edited_again(world, 32)
    world.turn(2)  # routers are a turn behind what answers
    for _ in range(20):
        crash_all_but(two, world)
        assert set(world.routers()) == two
        assert world.within_reach() >= 1.0
        world.turn(1, 30.0)


def test_the_front_of_a_third_generation_comes_with_its_engines_and_gets_its_share() -> None:
    world = serving(4, 4, nodes=4, rollout={"minReadySeconds": 0})
    two = half_each(world)
    edited_again(world, 32)
    chosen: list[frozenset[str]] = []
    roll(world, lambda: chosen.append(frozenset(world.routers())))
    (third,) = world.pairs()
    began = next(turn for turn, pairs in enumerate(chosen) if third in pairs)
    assert {*chosen[:began]} == {frozenset(two)}
    assert all(third in pairs for pairs in chosen[began:])
    assert two & chosen[began]
    assert world.routers() == {third: 2}


@pytest.mark.parametrize("seconds", [0, 30])
@pytest.mark.parametrize("turns", [5, 9, 11])
def test_no_router_is_chosen_whose_generation_left_before_the_third_one_answers(turns: int, seconds: int) -> None:
    world = serving(4, 4, nodes=4, rollout={"minReadySeconds": seconds})
    newer(world)
    world.turn(turns)
    edited_again(world, 32)
    for _ in range(TURNS // 10):
        world.turn()
        assert all(world.is_pair(pair) for pair in world.routers())
