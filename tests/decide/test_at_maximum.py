"""A pool that needs more than `maxReplicas` of its shape goes to one of which as many serve it (ADR 0095)."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.decide.kinds import Growing, board_of, boards, capacities, grown, open_spec
from tests.decide.limited import GPUS, Limited
from tests.decide.world import World, pool
from tests.fabric.cluster import busy
from weft.catalog import load
from weft.decide import as_decided, decide
from weft.decide.plans.kept_shapes import SHAPE_STAYS_SECONDS
from weft.domain.quotas import QuotaRecord
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.spec import PlacementSpec, PoolSpec, RolloutSpec, RolloutStrategy, ShapePins

HOUR = SHAPE_STAYS_SECONDS
PATIENCE = 600.0
FEW, MANY = 5.0, 150.0  # requests per second: one L40S and 25, of which four are allowed; seven H100
NODES = [*boards("l40s", 1), *boards("h100", 2)]


def at_most(replicas: int, **others: object) -> ScalingSpec:
    return replace(ScalingSpec(max_replicas=replicas, headroom=0.0), **others)  # type: ignore[arg-type]


def bound(spec: PoolSpec | None = None, rate: float = 60.0) -> Growing:
    """Four L40S, which are all that are allowed, and more comes for five minutes; eight H100 are idle."""
    return grown(NODES, spec or open_spec(FEW, at_most(4)), FEW, rate)


def part_of_four(part: float) -> float:
    """Requests per second: so much of what four L40S serve."""
    return part * 4 * capacities()["l40s"]


def test_it_waits_for_ten_minutes_and_then_goes_where_as_many_serve_all() -> None:
    growing = bound()
    growing.turn(PATIENCE - 300.0)
    scale = growing.world.status("chat").scale
    assert scale is not None
    assert ("L40S", "AtMaximum") == (growing.kind(), scale.reason)
    growing.turn(300.0)
    assert "H100" == growing.kind()
    growing.turn(600.0)
    assert growing.where() == {"h100": 3}
    assert growing.served() >= growing.rate["chat"]


def test_why_it_went_is_told() -> None:
    growing = bound()
    growing.turn(PATIENCE)
    status, reason, message = growing.world.condition("chat", "Planned")
    assert ("True", "Outgrown") == (status, reason)
    lacks = "for 10 min L40S BF16 TP1 had too few replicas, at most 4 for the 10 that were wanted then"
    assert f"{lacks}; H100 BF16 TP1 had places for all" == message
    assert "Outgrown" in growing.told


def test_while_it_waits_the_pool_says_what_it_waits_for() -> None:
    growing = bound()
    scale = growing.world.status("chat").scale
    assert scale is not None
    goes = "the pool changes to a shape whose replicas serve more, if one is allowed and has room"
    assert f"demand needs more than maxReplicas 4; if that lasts and the SLO is missed, {goes}" == scale.message


def test_no_less_is_served_on_the_way_than_before() -> None:
    growing = bound()
    before = growing.served()
    assert growing.turn(PATIENCE + 600.0) >= before
    assert "H100" == growing.kind()


def test_a_larger_shape_of_the_same_kind_will_do() -> None:
    """One replica is allowed, and one of two H100 serves what is too much for one of one."""
    spec = open_spec(FEW, at_most(1), shape=ShapePins(pipeline_parallel=1, data_parallel=1))
    growing = grown(boards("h100", 1), spec, FEW, 1.5 * capacities()["h100"])
    growing.turn(PATIENCE + 300.0)
    assert ["H100 BF16 TP1", "H100 BF16 TP2"] == [shape for _, shape in growing.shapes]
    assert 1 == growing.world.serving("chat")


def test_what_serves_a_quarter_more_is_taken_where_nothing_serves_all() -> None:
    growing = bound(rate=500.0)
    growing.turn(PATIENCE + 300.0)
    assert growing.where() == {"h100": 4}


@pytest.mark.parametrize(("part", "kind"), [(1.05, "L40S"), (1.2, "H100")])
def test_what_is_less_than_a_tenth_starts_nobody_anew(part: float, kind: str) -> None:
    """In requests per second: a fifth replica is wanted in either case."""
    growing = bound(rate=part_of_four(part))
    growing.turn(2 * HOUR)
    assert kind == growing.kind()


def test_a_peak_that_passes_changes_nothing() -> None:
    growing = bound()
    growing.turn(PATIENCE - 320.0)
    growing.turn(HOUR, FEW)
    assert ["L40S BF16 TP1"] == [shape for _, shape in growing.shapes]


HELD = {
    "pinned": replace(open_spec(FEW, at_most(4)), placement=PlacementSpec(accelerators=("L40S",))),
    "frozen": open_spec(FEW, at_most(4, freeze_until=1_000_505.0 + 5 * HOUR)),
    "paused": open_spec(FEW, at_most(4), rollout=RolloutSpec(paused=True)),
    "recreate": open_spec(FEW, at_most(4), rollout=RolloutSpec(strategy=RolloutStrategy.Recreate)),
    "maxGPUs": open_spec(FEW, at_most(100, max_gpus=4)),
}


@pytest.mark.parametrize("why", HELD)
def test_what_the_user_holds_or_a_budget_bounds_stays(why: str) -> None:
    growing = bound(HELD[why])
    growing.turn(PATIENCE + 600.0)
    assert "L40S" == growing.kind()


def test_a_quota_that_pays_for_no_successor_holds_it() -> None:
    world = Limited.of(NODES, pool("chat", open_spec(FEW, at_most(4))))
    world.quotas = (QuotaRecord("team", "gpus", ((GPUS, 4),)),)
    growing = Growing(world, {"chat": FEW})
    growing.turn(200.0)
    growing.turn(PATIENCE + 600.0, 60.0)
    assert "L40S" == growing.kind()


def test_without_places_for_others_it_stays() -> None:
    jobs = [busy(f"job-{index}", f"h100-{index}", 8) for index in range(2)]
    growing = Growing(World.of(NODES, pool("chat", open_spec(FEW, at_most(4))), pods=jobs), {"chat": FEW})
    growing.turn(200.0)
    growing.turn(PATIENCE + 600.0, 60.0)
    assert "L40S" == growing.kind()


def test_a_node_of_its_kind_that_does_not_work_is_not_waited_for() -> None:
    """It would not be allowed another replica there."""
    cordoned = replace(board_of("l40s", "l40s-1"), cordoned=True)
    growing = grown([*NODES, cordoned], open_spec(FEW, at_most(4)), FEW, 60.0)
    growing.turn(PATIENCE)
    assert "H100" == growing.kind()


def test_nobody_goes_while_nobody_tells() -> None:
    growing = bound()
    growing.turn(PATIENCE - 330.0)
    growing.world.observations.clear()
    growing.world.turn(120, 10.0)
    assert "L40S" == growing.kind()


def test_once_load_has_fallen_it_stays_for_an_hour_and_goes_back_without_a_gap() -> None:
    growing = bound()
    growing.turn(PATIENCE)
    left = growing.world.status("chat").left_shape
    assert left is not None
    growing.turn(HOUR - 600.0, FEW)
    assert "H100" == growing.kind()
    assert growing.turn(1200.0) >= FEW
    assert ["L40S BF16 TP1", "H100 BF16 TP1", "L40S BF16 TP1"] == [shape for _, shape in growing.shapes]
    assert growing.shapes[-1][0] - left.at >= HOUR


@pytest.mark.parametrize(("most", "part", "kind"), [(4, 0.9, "H100"), (4, 0.7, "L40S"), (1, 0.9, "H100")])
def test_it_goes_back_only_where_as_many_as_are_allowed_serve_a_quarter_more(most: int, part: float, kind: str) -> None:
    growing = bound(open_spec(FEW, at_most(most)), rate=2.0 * part_of_four(most / 4))
    growing.turn(PATIENCE)
    growing.turn(HOUR + 600.0, part * part_of_four(most / 4))
    assert kind == growing.kind()


@pytest.mark.parametrize(("rate", "kind"), [(60.0, "H100"), (20.0, "A100")])
def test_nor_does_it_go_on_to_a_third_shape_that_is_too_small(rate: float, kind: str) -> None:
    """By the declared rate one A100 would do, which costs less than one H100; four serve 31 requests/s."""
    growing = grown([*NODES, *boards("a100", 1)], open_spec(FEW, at_most(4)), FEW, 60.0)
    growing.turn(PATIENCE + 300.0)
    growing.world.nodes = [each for each in growing.world.nodes if not each.name.startswith("l40s")]
    growing.turn(HOUR + 600.0, rate)
    assert kind == growing.kind()


def test_a_dip_of_less_than_an_hour_takes_nothing_back() -> None:
    growing = bound()
    growing.turn(HOUR + PATIENCE)
    growing.turn(HOUR - 60.0, FEW)
    growing.turn(HOUR, 60.0)
    assert ["L40S BF16 TP1", "H100 BF16 TP1"] == [shape for _, shape in growing.shapes]


def test_why_it_stays_is_told() -> None:
    growing = bound()
    growing.turn(HOUR + PATIENCE + 600.0)
    assert ("True", "Outgrown") == growing.world.condition("chat", "Planned")[:2]


def test_one_that_may_have_more_since_goes_back() -> None:
    growing = bound()
    growing.turn(PATIENCE + 300.0)
    growing.world.edit("chat", open_spec(FEW, at_most(8 * 4)))
    growing.world.nodes += boards("l40s", 3)[1:]
    growing.turn(HOUR)
    assert "L40S" == growing.kind()


def test_it_does_not_go_back_while_nobody_tells_what_comes() -> None:
    growing = bound()
    growing.turn(PATIENCE + 300.0)
    growing.world.observations.clear()
    growing.world.memory = {}
    growing.world.turn(60, 120.0)
    assert "H100" == growing.kind()


@pytest.mark.parametrize("part", [0.95, 1.05, 1.12, 1.3, 3.0, 9.0])
def test_load_that_stays_the_same_changes_the_shape_once_at_most(part: float) -> None:
    growing = bound(rate=part_of_four(part))
    growing.step = 30.0
    growing.turn(3 * HOUR)
    assert 2 >= len(growing.shapes)


def test_load_that_swings_around_what_the_smaller_shape_serves_changes_the_shape_once() -> None:
    """From 0.7 to 1.3 of it and back in a little more than two hours: it is low for less than one at a time."""
    growing = bound()
    growing.step = 30.0
    for minute in range(8 * 60):
        growing.turn(60.0, part_of_four(1.0 + 0.3 * math.sin(math.tau * minute / 132)))
    assert ["L40S BF16 TP1", "H100 BF16 TP1"] == [shape for _, shape in growing.shapes]


def test_a_second_look_at_the_same_moment_changes_nothing() -> None:
    growing = bound()
    for rate, seconds in ((60.0, PATIENCE + 300.0), (FEW, HOUR + 600.0)):
        growing.rate["chat"] = rate
        for _ in range(round(seconds / 30.0)):
            growing.turn(30.0)
            growing.look()
            before = growing.world.snapshot()
            first = decide(before, load())
            second = decide(as_decided(before, first), load())
            assert second == replace(first, pools=tuple(replace(each, events=()) for each in first.pools))
    assert 3 == len(growing.shapes)
