"""What is short for a moment, or for a fault, is no reason to start every replica anew in another shape (ADR 0093)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.kinds import STEP, Growing, boards, grown, open_spec
from tests.decide.test_outgrown import FEW, HOUR, MANY, PATIENCE, slower
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.spec import ModelSpec

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord


def changed_node(node: NodeRecord, trouble: str) -> NodeRecord:
    """One with something amiss that may be over soon."""
    if trouble == "silent":
        return replace(node, ready=False)
    if trouble == "cordoned":
        return replace(node, cordoned=True)
    return replace(node, allocatable=((node.allocatable[0][0], 3),))


@pytest.mark.parametrize("trouble", ["silent", "cordoned", "without some of its GPUs"])
def test_a_node_of_its_kind_that_does_not_work_has_an_hour(trouble: str) -> None:
    """A second board of H100 would be room enough."""
    nodes = [*boards("h100", 1), *boards("a100", 6), changed_node(boards("h100", 2)[1], trouble)]
    growing = slower(nodes=nodes)
    growing.turn(HOUR - 420.0)
    assert "H100" == growing.kind()
    growing.turn(600.0)
    assert "A100" == growing.kind()


def test_a_delay_of_more_than_that_hour_counts_beside_such_a_node_too() -> None:
    late = ScalingSpec(max_replicas=100, headroom=0.0, scale_down_delay_seconds=2 * HOUR)
    nodes = [*boards("h100", 1), *boards("a100", 6), changed_node(boards("h100", 2)[1], "cordoned")]
    growing = slower(open_spec(FEW, late), nodes)
    growing.turn(1.5 * HOUR)
    assert "H100" == growing.kind()
    growing.turn(HOUR)
    assert "A100" == growing.kind()


def test_what_had_a_place_within_the_hour_is_for_whoever_mends_that() -> None:
    """One of two boards is gone, and eight of thirteen replicas with it: they were there, and nothing grew."""
    growing = grown([*boards("h100", 2), *boards("a100", 6)], open_spec(FEW), FEW, MANY)
    assert 15 == growing.served() // 24
    growing.world.nodes = [node for node in growing.world.nodes if node.name != "h100-1"]
    growing.world.pods = {name: pod for name, pod in growing.world.pods.items() if pod.node != "h100-1"}
    growing.turn(HOUR - 600.0)
    assert "NoSlot" == growing.world.condition("chat", "Placed")[1]
    assert "H100" == growing.kind()
    growing.turn(1200.0)
    assert "A100" == growing.kind()


def test_nodes_that_come_within_ten_minutes_are_taken() -> None:
    growing = slower()
    growing.turn(PATIENCE - 320.0)
    growing.world.nodes += boards("h100", 2)[1:]
    growing.turn(HOUR)
    assert ["H100 BF16 TP1"] == [shape for _, shape in growing.shapes]
    assert "AllPlaced" == growing.world.condition("chat", "Placed")[1]


def test_no_pool_is_short_before_all_that_have_a_place_serve() -> None:
    """What is wanted while replicas start is also what has piled up meanwhile."""
    growing = Growing(slower().world, {"chat": MANY})
    world = growing.world
    slow = next(name for name, pod in world.pods.items() if pod.ready)
    for _ in range(round(2 * PATIENCE / STEP)):
        growing.look()
        world.pods[slow] = replace(world.pods[slow], ready=False)
        world.turn(1, STEP)
        world.pods[slow] = replace(world.pods[slow], ready=False)
    assert "H100" == growing.kind()
    growing.turn(PATIENCE + 60.0)
    assert "A100" == growing.kind()


def test_nothing_is_wanted_while_nobody_tells() -> None:
    growing = slower()
    growing.turn(PATIENCE - 330.0)
    growing.world.observations.clear()
    growing.world.turn(120, STEP)
    assert "H100" == growing.kind()
    growing.turn(120.0)
    assert "H100" == growing.kind()
    growing.turn(PATIENCE)
    assert "A100" == growing.kind()


def test_a_new_process_counts_from_its_first_look() -> None:
    growing = slower()
    growing.turn(PATIENCE - 320.0)
    growing.world.memory = {}
    growing.turn(PATIENCE - 60.0)
    assert "H100" == growing.kind()
    growing.turn(120.0)
    assert "A100" == growing.kind()


def test_a_spec_that_could_not_be_followed_meanwhile_starts_the_time_anew() -> None:
    growing = slower()
    growing.turn(PATIENCE - 320.0)
    growing.world.edit("chat", replace(open_spec(FEW), model=ModelSpec("nobody/knows")))
    growing.world.turn(2, STEP)
    growing.world.edit("chat", open_spec(FEW))
    growing.turn(PATIENCE - 60.0)
    assert "H100" == growing.kind()
    growing.turn(120.0)
    assert "A100" == growing.kind()


def test_the_pass_comes_when_the_patience_is_over_and_a_second_one_changes_nothing() -> None:
    growing = slower()
    growing.turn(PATIENCE - 320.0)
    growing.look()
    world = growing.world
    wait = world.decide().wake_after_seconds
    while "H100" == growing.kind():
        assert wait is not None
        world.now += min(wait, 60.0)
        growing.look()
        wait = world.decide().wake_after_seconds
    first = world.last
    assert first is not None
    second = world.decide()
    assert second == replace(first, pools=tuple(replace(each, events=()) for each in first.pools))


def test_who_finds_a_place_in_its_kind_in_the_very_pass_takes_it() -> None:
    growing = slower()
    growing.turn(PATIENCE - 320.0)
    growing.world.nodes += boards("h100", 2)[1:]
    growing.world.now += 60.0
    growing.look()
    growing.world.decide()
    assert "H100" == growing.kind()
    assert "h100-1" in {name for nodes in growing.world.nodes_of("chat") for name in nodes}
