"""A pool that wants more replicas than its shape has places for goes to a shape that has them (ADR 0093)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.kinds import STEP, Growing, board_of, boards, capacities, grown, open_spec
from tests.decide.limited import GPUS, Limited
from tests.decide.world import World, external, pool
from tests.fabric.cluster import busy
from weft.decide.plans.kept_shapes import SHAPE_STAYS_SECONDS
from weft.domain.quotas import QuotaRecord
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.spec import PlacementSpec, RolloutSpec, RolloutStrategy

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord
    from weft.domain.spec import PoolSpec

HOUR = SHAPE_STAYS_SECONDS
PATIENCE = 600.0
FEW, MANY = 20.0, 300.0  # requests per second: one H100, and thirteen where one board has eight
SLOWER = [*boards("h100", 1), *boards("a100", 6)]  # 24 requests/s for each H100, 8 for each A100
FASTER = [*boards("l40s", 1), *boards("h100", 2)]  # 6 and 24


def slower(spec: PoolSpec | None = None, nodes: list[NodeRecord] | None = None) -> Growing:
    """All of one board of H100 taken, and more wanted for five minutes; six boards of A100 are idle."""
    return grown(nodes or SLOWER, spec or open_spec(FEW), FEW, MANY)


def faster() -> Growing:
    """The same on a board of L40S, with two boards of H100 idle."""
    return grown(FASTER, open_spec(5.0), 5.0, 150.0)


def test_it_waits_while_a_node_may_come_and_then_goes_where_all_have_a_place() -> None:
    growing = slower()
    growing.turn(PATIENCE - 300.0)
    assert "H100" == growing.kind()
    assert "NoSlot" == growing.world.condition("chat", "Placed")[1]
    growing.turn(300.0)
    assert "A100" == growing.kind()
    growing.turn(HOUR - 600.0)
    assert growing.where() == {"a100": growing.world.status("chat").desired_replicas}
    assert ("True", "AllPlaced") == growing.world.condition("chat", "Placed")[:2]


def test_it_waits_no_hour_for_a_node_whose_labels_cannot_be_true() -> None:
    """That is no outage: it lasts until somebody corrects them, and plans do not count on such a node either."""
    other = board_of("h100", "h100-b")
    barred = replace(other, labels=tuple({**dict(other.labels), "nvidia.com/gpu.memory": "1"}.items()))
    growing = slower(nodes=[*SLOWER, barred])
    growing.turn(PATIENCE)
    assert "A100" == growing.kind()


def test_why_it_went_is_told() -> None:
    growing = slower()
    growing.turn(PATIENCE)
    status, reason, message = growing.world.condition("chat", "Planned")
    assert ("True", "Outgrown") == (status, reason)
    lacks = "for 10 min H100 BF16 TP1 had too few places, 8 for the 15 replicas that were wanted then"
    assert f"{lacks}; A100 BF16 TP1 had places for all" == message
    assert "Outgrown" in growing.told


@pytest.mark.parametrize("growing", [slower, faster])
def test_no_less_is_served_on_the_way_than_before(growing: object) -> None:
    """Also where one of the new replicas serves as much as four of the earlier ones, which would leave for it."""
    assert callable(growing)
    found: Growing = growing()
    before, kind = found.served(), found.kind()
    assert found.turn(PATIENCE + 600.0) >= before
    assert kind != found.kind()
    assert len(found.where()) == 1


def test_it_counts_in_replicas_of_the_new_shape_at_once() -> None:
    """Thirty L40S are eight H100: not thirty H100 for as long as a window lasts."""
    found = faster()
    found.turn(PATIENCE)
    assert "H100" == found.kind()
    assert 8 == found.world.status("chat").desired_replicas


def test_a_peak_that_passes_changes_nothing() -> None:
    """Shorter than the patience by a little, though the window keeps the count for five minutes more."""
    growing = slower()
    growing.turn(PATIENCE - 320.0)
    growing.turn(HOUR, FEW)
    assert ["H100 BF16 TP1"] == [shape for _, shape in growing.shapes]


def test_once_load_has_fallen_it_stays_for_an_hour_and_goes_back_without_a_gap() -> None:
    growing = slower()
    growing.turn(PATIENCE)
    left = growing.world.status("chat").left_shape
    assert left is not None
    growing.turn(HOUR - 600.0, FEW)
    assert "A100" == growing.kind()
    assert growing.turn(1200.0) >= FEW
    assert ["H100 BF16 TP1", "A100 BF16 TP1", "H100 BF16 TP1"] == [shape for _, shape in growing.shapes]
    assert growing.shapes[-1][0] - left.at >= HOUR


@pytest.mark.parametrize(("rate", "kind"), [(170.0, "A100"), (120.0, "H100")])
def test_it_goes_back_only_where_a_quarter_more_has_a_place(rate: float, kind: str) -> None:
    """Eight H100 serve 197 requests/s: what fits without a margin would soon be too much again."""
    growing = slower()
    growing.turn(PATIENCE)
    growing.turn(HOUR + 600.0, rate)
    assert kind == growing.kind()


def test_load_that_swings_around_what_has_a_place_changes_the_shape_once() -> None:
    """From 0.7 to 1.3 of what eight H100 serve and back in a little more than two hours."""
    growing = slower()
    growing.step = 30.0
    for minute in range(8 * 60):
        growing.turn(60.0, 8 * capacities()["h100"] * (1.0 + 0.3 * math.sin(math.tau * minute / 132)))
    assert ["H100 BF16 TP1", "A100 BF16 TP1"] == [shape for _, shape in growing.shapes]


def test_more_places_that_serve_less_are_no_reason() -> None:
    """Three boards of A100 are 24 replicas for 186 requests/s, one of H100 eight for 197."""
    growing = slower(nodes=[*boards("h100", 1), *boards("a100", 3)])
    assert 24 * capacities()["a100"] < 8 * capacities()["h100"]
    growing.turn(2 * HOUR)
    assert "H100" == growing.kind()


@pytest.mark.parametrize(("gpus", "kind"), [(29, "H100"), (40, "A100")])
def test_where_no_shape_has_places_for_all_one_is_left_for_clearly_more(gpus: int, kind: str) -> None:
    """29 A100 serve 14 % more than one board of H100, and 40 serve 57 % more."""
    whole, part = divmod(gpus, 8)
    idle = [*boards("a100", whole), *([board_of("a100", "a100-part", part)] if part else [])]
    growing = slower(nodes=[*boards("h100", 1), *idle])
    growing.turn(PATIENCE + 600.0, 500.0)
    assert kind == growing.kind()
    if kind == "A100":
        assert "had places that serve 57% more" in growing.world.condition("chat", "Planned")[2]
        assert gpus == growing.where()["a100"]


HELD = {
    "pinned": replace(open_spec(FEW), placement=PlacementSpec(accelerators=("H100",))),
    "frozen": open_spec(FEW, ScalingSpec(max_replicas=100, headroom=0.0, freeze_until=1_000_505.0 + 5 * HOUR)),
    "paused": open_spec(FEW, rollout=RolloutSpec(paused=True)),
    "recreate": open_spec(FEW, rollout=RolloutSpec(strategy=RolloutStrategy.Recreate)),
    "maxGPUs": open_spec(FEW, ScalingSpec(max_replicas=100, headroom=0.0, max_gpus=8)),
    "maxReplicas": open_spec(FEW, ScalingSpec(max_replicas=8, headroom=0.0)),
}


@pytest.mark.parametrize("why", HELD)
def test_what_the_user_holds_or_a_budget_bounds_stays(why: str) -> None:
    growing = slower(HELD[why])
    growing.turn(PATIENCE + 600.0)
    assert "H100" == growing.kind()


def test_a_pause_that_ends_lets_it_go() -> None:
    growing = slower(HELD["paused"])
    growing.turn(PATIENCE + 600.0)
    growing.world.edit("chat", open_spec(FEW))
    growing.turn(60.0)
    assert "A100" == growing.kind()


@pytest.mark.parametrize(("gpus", "kind"), [(8, "H100"), (20, "H100"), (80, "A100")])
def test_a_quota_that_is_short_is_no_want_of_places(gpus: int, kind: str) -> None:
    world = Limited.of(SLOWER, pool("chat", open_spec(FEW)))
    world.quotas = (QuotaRecord("team", "gpus", ((GPUS, gpus),)),)
    growing = Growing(world, {"chat": FEW})
    growing.turn(200.0)
    growing.turn(PATIENCE + 600.0, MANY)
    assert kind == growing.kind()


def test_a_count_that_somebody_writes_is_one_of_replicas() -> None:
    """Sixteen H100 are wanted and eight have a place; sixteen A100 serve less than those, 45 half of it more."""
    for count, kind in ((16, "H100"), (40, "A100")):
        growing = Growing(World.of(SLOWER, pool("chat", open_spec(FEW, external(1, 60)))), {})
        growing.world.turn(20, 10.0)
        growing.world.edit("chat", open_spec(FEW, external(count, 60)))
        growing.world.turn(90, 10.0)
        assert kind == growing.kind(), count


def test_replicas_that_serve_on_in_the_shape_before_are_not_taken_for_vanished() -> None:
    """Eight H100 are too few for what is wanted, so that L40S serve beside them when the hour is over."""
    nodes = [*boards("l40s", 1), *boards("h100", 1)]
    world = World.of(nodes, pool("chat", open_spec(5.0, external(8, 60))))
    world.turn(20, 10.0)
    world.edit("chat", open_spec(5.0, external(20, 60)))
    growing = Growing(world, {})
    growing.turn(PATIENCE + 300.0)
    assert {"l40s": 8, "h100": 8} == growing.where()
    for _ in range(round(HOUR / 60.0)):
        world.turn(1, 60.0)
        assert "True" == world.condition("chat", "Planned")[0]


def test_a_rollout_that_may_do_with_fewer_than_serve_now_does_not_begin() -> None:
    """Of forty A100 twenty may be away, and those serve less than the eight H100 that would make room for them."""
    away = RolloutSpec(max_unavailable=0.5)
    growing = Growing(World.of(SLOWER, pool("chat", open_spec(FEW, external(1, 60), rollout=away))), {})
    growing.world.turn(20, 10.0)
    growing.world.edit("chat", open_spec(FEW, external(40, 60), rollout=away))
    growing.world.turn(90, 10.0)
    assert "H100" == growing.kind()


def test_two_pools_do_not_count_on_the_same_places() -> None:
    """Both have outgrown their board of H100; the A100 hold what one of them wants."""
    nodes = [*boards("h100", 1), *boards("a100", 6)]
    world = World.of(nodes, pool("a", open_spec(FEW)), pool("b", open_spec(FEW)))
    growing = Growing(world, {"a": FEW, "b": FEW})
    growing.turn(200.0)
    growing.turn(PATIENCE + 900.0, 150.0)
    assert ["A100", "H100"] == sorted(growing.kind(name) for name in ("a", "b"))
    for name in ("a", "b"):
        assert world.serving(name) == world.status(name).desired_replicas, name


def joined_in_the_pass_that_looks(growing: Growing, kind: str, wanted: int, priority: int = 0) -> None:
    """Another pool comes, of so many replicas of a kind, just before the patience of the first one is over."""
    since = growing.world.memory["uid-chat"].short_since
    assert since is not None
    growing.turn(PATIENCE - STEP - (growing.world.now - since))
    later = open_spec(FEW, external(wanted, 60), placement=PlacementSpec(accelerators=(kind,)))
    growing.world.pools["later"] = pool("later", later, priority)
    growing.turn(120.0)


def test_it_does_not_go_where_a_peer_that_comes_in_this_pass_will_be() -> None:
    """What is left of the A100 beside 40 that another pool wants serves less than the board of H100."""
    growing = slower()
    joined_in_the_pass_that_looks(growing, "A100", 40)
    assert "H100" == growing.kind()
    assert 40 == growing.world.serving("later")


def test_one_of_lower_priority_that_comes_then_takes_what_it_leaves() -> None:
    growing = slower()
    joined_in_the_pass_that_looks(growing, "A100", 40, priority=-1)
    assert "A100" == growing.kind()
    assert 40 < growing.where()["a100"]
    assert 48 == growing.where()["a100"] + growing.world.serving("later")


@pytest.mark.parametrize(("wanted", "kind"), [(14, "L40S"), (13, "H100")])
def test_beside_such_a_peer_more_than_the_first_of_a_rollout_have_to_have_a_place(wanted: int, kind: str) -> None:
    """Two H100 serve no more than the eight L40S that would leave for them, and three serve all."""
    growing = grown(FASTER, open_spec(5.0), 5.0, 60.0)
    joined_in_the_pass_that_looks(growing, "H100", wanted)
    assert kind == growing.kind()


def test_one_that_was_frozen_meanwhile_stays() -> None:
    growing = slower()
    until = growing.world.now + HOUR
    growing.world.edit("chat", open_spec(FEW, ScalingSpec(max_replicas=100, headroom=0.0, freeze_until=until)))
    growing.turn(HOUR - 60.0)
    assert "H100" == growing.kind()
    growing.turn(PATIENCE)
    assert "A100" == growing.kind()


def test_a_kind_that_the_cluster_got_since_is_one_to_go_to() -> None:
    """What a plan that stays tells of others is as old as the plan."""
    growing = slower(nodes=boards("h100", 1))
    growing.turn(HOUR)
    growing.world.nodes += boards("a100", 6)
    growing.turn(60.0)
    assert "A100" == growing.kind()


def test_one_that_has_its_shape_for_want_of_room_goes_on_as_well() -> None:
    """It would rather be on the L40S, which somebody else has."""
    nodes = [*boards("l40s", 1), *boards("h100", 1)]
    world = World.of(nodes, pool("chat", open_spec(5.0)), pods=[busy("job", "l40s-0", 8)])
    growing = Growing(world, {"chat": 5.0})
    growing.turn(200.0)
    assert "HolesTooSmall" == world.condition("chat", "Planned")[1]
    world.nodes += boards("a100", 6)
    growing.turn(PATIENCE + 300.0, MANY)
    assert ["H100 BF16 TP1", "A100 BF16 TP1"] == [shape for _, shape in growing.shapes]


def test_it_does_not_go_on_to_a_third_kind_within_the_hour() -> None:
    """From a board of L40S to one of H100, and three boards of H200 would hold what is wanted then."""
    nodes = [*boards("l40s", 1), *boards("h100", 1), *boards("h200", 3)]
    nodes[-3:] = [replace(each, cordoned=True) for each in nodes[-3:]]
    growing = grown(nodes, open_spec(5.0), 5.0, 120.0)
    growing.turn(PATIENCE)
    assert "H100" == growing.kind()
    growing.world.nodes = [replace(each, cordoned=False) for each in growing.world.nodes]
    growing.turn(HOUR - 900.0, 500.0)
    assert "H100" == growing.kind()
    growing.turn(1200.0)
    assert "H200" == growing.kind()


def test_a_shape_that_does_not_serve_the_declared_rate_is_not_taken() -> None:
    """Ten A100 serve half as much again as the two H100 that there are, and half of the rate: it would go back."""
    spec = open_spec(150.0, ScalingSpec(max_replicas=10, headroom=0.0))
    growing = grown([board_of("h100", "h100-0", 2)], spec, FEW, 170.0)
    growing.world.nodes += boards("a100", 2)
    growing.turn(HOUR)
    assert ["H100 BF16 TP1"] == [shape for _, shape in growing.shapes]


def test_a_count_that_may_only_change_in_steps_takes_nothing_away() -> None:
    """Seventeen A100 serve less than the eight H100 that there are, and more are not allowed at once."""
    growing = slower(open_spec(FEW, ScalingSpec(max_replicas=100, headroom=0.0, max_step=2)))
    before = growing.served()
    assert growing.turn(HOUR) >= before
    assert "H100" == growing.kind()


@pytest.mark.parametrize(("more", "kind"), [(5, "H100"), (4, "A100")])
def test_what_is_less_than_a_tenth_starts_nobody_anew(more: int, kind: str) -> None:
    """Thirteen of fourteen that the last look wants have a place, or twelve."""
    growing = slower(nodes=[*boards("h100", 1), board_of("h100", "h100-b", more), *boards("a100", 6)])
    growing.turn(PATIENCE + 300.0)
    assert kind == growing.kind()
