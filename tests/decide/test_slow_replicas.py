"""A replica that is much slower than its siblings is named, and replaced first and drained after, one at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decide.slow import PATIENCE, STEP, assert_a_second_pass_says_the_same, run, serving, spec_of, tell
from weft.domain.reasons import Reason
from weft.domain.spec import RolloutStrategy

if TYPE_CHECKING:
    from tests.decide.world import World
    from weft.domain.pool_memory import Outliers

SLOW = {2: 2.0}
SAID = "has been slower than its siblings for 3 min, at no higher load"


def outliers(world: World) -> Outliers | None:
    known = world.memory.get("uid-chat")
    return known.outliers if known is not None else None


def placed(world: World) -> str:
    return world.condition("chat", "Placed")[2]


def ids(world: World) -> list[int]:
    return [each.replica for each in world.status("chat").assignments]


def test_it_is_replaced_first_and_drained_after() -> None:
    world = serving()
    run(world, SLOW, PATIENCE - 1)
    assert ids(world) == [0, 1, 2, 3]
    assert "slower" not in placed(world)
    run(world, SLOW, 1)
    assert ids(world) == [0, 1, 2, 3, 4]
    assert f"replica 2 is replaced, as it {SAID}" in placed(world)
    assert [event.reason for event in world.decision("chat").events] == [Reason.SlowerThanSiblings]
    for _ in range(10):
        run(world, SLOW, 1)
        assert world.serving("chat") >= 4
    assert ids(world) == [0, 1, 3, 4]
    assert "slower" not in placed(world)


@pytest.mark.parametrize("boards", [4, 6], ids=["no room", "room"])
def test_a_second_pass_at_the_same_time_says_the_same(boards: int) -> None:
    """L1 and L3, before it is named, when its successor is placed or has no room, and while that starts."""
    world = serving(4, boards)
    for _ in range(PATIENCE + 3):
        tell(world, SLOW)
        world.now += STEP
        assert_a_second_pass_says_the_same(world)
        world.turn(1, 0.0)


def test_the_next_one_waits_for_an_hour() -> None:
    """Of eight, two are slow: not more than a quarter."""
    world = serving(8, 12)
    both = {2: 2.0, 5: 2.5}
    run(world, both, PATIENCE + 10)
    assert ids(world) == [0, 1, 3, 4, 5, 6, 7, 8]
    assert placed(world).endswith(f"replica 5 {SAID}, and stays: at most one is replaced in an hour")
    before = world.status("chat").assignments, placed(world)
    run(world, both, 300)
    assert (world.status("chat").assignments, placed(world)) == before
    run(world, both, 60)
    assert ids(world) == [0, 1, 3, 4, 6, 7, 8, 9]


def test_without_room_it_stays_and_is_named() -> None:
    world = serving(4, 4)
    run(world, SLOW, PATIENCE)
    assert [event.message for event in world.decision("chat").events] == [f"replica 2 {SAID}"]
    run(world, SLOW, 5)
    assert world.condition("chat", "Placed")[:2] == ("True", "AllPlaced")
    assert placed(world).endswith(f"replica 2 {SAID}, and stays: nothing has room for its successor")
    assert all(each.kind != "CapacityRequested" for each in world.decision("chat").conditions)
    assert world.decision("chat").events == ()


@pytest.mark.parametrize(
    ("rollout", "why"),
    [
        ({"max_surge": 0, "max_unavailable": 2}, "spec.rollout.maxSurge allows no replacement first"),
        ({"paused": True}, "spec.rollout.paused is set"),
        ({"strategy": RolloutStrategy.Recreate}, "spec.rollout.strategy Recreate starts no replacement first"),
    ],
)
def test_a_spec_that_lets_nothing_come_first_keeps_it(rollout: dict[str, object], why: str) -> None:
    world = serving(spec=spec_of(4, **rollout))
    run(world, SLOW, PATIENCE + 5)
    assert ids(world) == [0, 1, 2, 3]
    assert placed(world).endswith(f"replica 2 {SAID}, and stays: {why}")


def test_it_leaves_after_its_successor_serves_whatever_may_be_unavailable() -> None:
    """S1, and more: who could stay takes nothing from those that are desired."""
    world = serving(spec=spec_of(4, max_unavailable=2))
    for _ in range(PATIENCE + 10):
        run(world, SLOW, 1)
        assert world.serving("chat") >= 4
    assert 2 not in ids(world)


def test_its_successor_goes_to_another_node_where_there_is_one() -> None:
    """Two replicas of four GPUs share a board: what slows one may slow whoever comes beside it."""
    spec = spec_of(4)
    world = serving(4, 4, replace(spec, shape=replace(spec.shape, tensor_parallel=4)))
    old = world.nodes_of("chat")[2]
    run(world, SLOW, PATIENCE + 10)
    assert 2 not in ids(world)
    assert world.nodes_of("chat")[-1] != old


def test_a_pool_that_grows_meanwhile_keeps_it() -> None:
    """It is called off by itself: the replica stays, and may go after an hour."""
    world = serving(4, 5)
    run(world, SLOW, PATIENCE)
    assert len(ids(world)) == 5
    world.edit("chat", spec_of(5))
    run(world, SLOW, 10)
    assert ids(world) == [0, 1, 2, 3, 4]
    assert placed(world).endswith("at most one is replaced in an hour")


def test_a_successor_that_is_lost_calls_it_off() -> None:
    world = serving()
    run(world, SLOW, PATIENCE)
    world.nodes = [node for node in world.nodes if (node.name,) != world.nodes_of("chat")[-1]]
    run(world, SLOW, 10)
    assert ids(world) == [0, 1, 2, 3]


def test_after_a_restart_it_is_seen_anew() -> None:
    """L5: memory is gone, and with it what was under way; no more than is desired stays."""
    world = serving()
    run(world, SLOW, PATIENCE)
    world.memory = {}
    for _ in range(PATIENCE - 1):
        run(world, SLOW, 1)
        assert world.serving("chat") >= 4
    assert len(ids(world)) == 4


def test_one_that_gets_as_fast_again_is_named_no_more() -> None:
    world = serving(4, 4)
    run(world, SLOW, PATIENCE)
    run(world, {2: 1.3}, 5)
    assert f"replica 2 {SAID}" in placed(world)
    run(world, {2: 1.1}, 1)
    assert "slower" not in placed(world)
    assert outliers(world) is None


def test_its_figures_are_no_part_of_what_is_learnt() -> None:
    """The factor of steps that a pool learns with a slow replica is that of the others."""
    learnt = []
    for slow in ({}, SLOW):
        world = serving(4, 4)
        run(world, slow, PATIENCE)
        world.memory["uid-chat"] = replace(world.memory["uid-chat"], calibration=None)
        run(world, slow, 60)
        known = world.memory["uid-chat"].calibration
        assert known is not None
        assert known.factors.points > 0
        learnt.append(known.factors)
    assert learnt[0].prefill == pytest.approx(learnt[1].prefill, rel=1e-12)  # a sum in another order
    assert replace(learnt[0], prefill=1.0) == replace(learnt[1], prefill=1.0)


SILENT = {"silent one": frozenset({0}), "silent all": frozenset(range(9))}
sights = st.tuples(st.just("seen"), st.integers(6, 24))
misses = st.tuples(st.sampled_from([*SILENT, "stale", "gone", "late"]), st.integers(1, 3))
looks = st.lists(st.tuples(sights, misses), min_size=1, max_size=3)


def look(world: World, slow: dict[int, float], kind: str) -> float:
    """Metrics of one pass; the seconds until it."""
    tell(world, slow, SILENT.get(kind, frozenset()))
    if kind == "stale":
        world.observations["uid-chat"] = replace(world.observations["uid-chat"], age_seconds=300.0)
    if kind == "gone":
        world.observations = {}
    return 70.0 if kind == "late" else STEP


@settings(max_examples=25)
@given(looks=looks, factors=st.permutations([1.0, 1.0, 1.4, 2.0, 1.0]) | st.permutations([1.0, 1.0, 1.0, 2.0, 4.0]))
def test_one_at_a_time_and_after_three_minutes_of_unbroken_sight_alone(
    looks: list[tuple[tuple[str, int], tuple[str, int]]], factors: list[float]
) -> None:
    """Whatever scrapes miss, and when: one successor comes where one of five is slow, and none where two are."""
    world = serving(5, 8)
    slow, since, due, begun = dict(enumerate(factors)), None, False, 0
    for kind in (kind for both in looks for kind, times in both for _ in range(times)):
        before, seconds = ids(world), look(world, slow, kind)
        whole, now = kind in {"seen", "late"}, world.now + seconds
        since = None if not whole else now if since is None or kind == "late" else since
        due = due or (since is not None and now - since >= 180.0 and 4.0 not in factors)
        world.turn(1, seconds)
        begun += len(set(ids(world)) - set(before))
        assert begun == due
        assert world.serving("chat") >= 5
        assert len(ids(world)) <= 6


@given(factor=st.floats(1.0, 50.0), spread=st.lists(st.floats(1.0, 1.1), min_size=4, max_size=4))
@settings(max_examples=10)
def test_none_where_all_got_slow_together(factor: float, spread: list[float]) -> None:
    world = serving()
    run(world, {replica: factor * times for replica, times in enumerate(spread)}, PATIENCE + 5)
    assert ids(world) == [0, 1, 2, 3]
    assert "slower" not in placed(world)
