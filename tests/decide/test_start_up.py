"""What a start takes stands in the status: estimated when a pool is planned, and measured once one was seen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.test_restarts import LOOK, learnt, look, restarted, serving_world
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from tests.scaling.cases import seen
from weft.domain.spec import ModelSource, PoolSpec, SourceKind
from weft.domain.status import PoolStatus
from weft.scaling.forecasting.forecast import horizon_of

if TYPE_CHECKING:
    from weft.domain.start_up import StartUp


def of_source(source: ModelSource | None) -> PoolSpec:
    spec = pool_spec(1)
    return replace(spec, model=replace(spec.model, source=source))


def told(world: World) -> StartUp:
    found = world.status("chat").start_up
    assert found is not None
    return found


def estimated(world: World) -> int:
    return replace(told(world), measured=None).estimated


def look_without_starts(world: World) -> None:
    """Metrics of replicas whose pods do not say how long they took."""
    world.observations["uid-chat"] = seen(20.0, world.serving("chat"))
    world.turn(1, LOOK)


@pytest.mark.parametrize("kind", [SourceKind.PVC, SourceKind.URI])
def test_a_planned_pool_says_what_its_source_costs(kind: SourceKind) -> None:
    """Nothing of it has run yet."""
    plain, other = (
        World.of([board("b-0")], pool("chat", of_source(each))) for each in (None, ModelSource(kind, "s3://weights"))
    )
    for world in (plain, other):
        world.turn(1)
    assert told(plain).measured is None
    assert told(other).weights < told(plain).weights
    assert (told(other).image, told(other).engine) == (told(plain).image, told(plain).engine)


def test_forecasts_look_as_far_ahead_as_is_estimated_until_a_start_was_measured() -> None:
    world = serving_world("chat")
    for _ in range(6):
        look_without_starts(world)
    assert horizon_of(learnt(world)) == estimated(world)
    for _ in range(4):
        look(world, 1.0)
    assert horizon_of(learnt(world)) == pytest.approx(400.0)
    assert told(world).measured == 400
    assert told(world).basis == "400 s measured"


def test_the_first_measurement_is_told_at_once_and_the_same_never_again() -> None:
    """Its count belongs to somebody, and its forecast was written a moment ago: there is no other reason to write."""
    world = serving_world("chat", scaling=external(2))
    for _ in range(4):
        look_without_starts(world)
    before = world.status("chat")
    assert before.forecast is not None
    assert told(world).measured is None
    for _ in range(2):
        look(world, 1.0)
    assert told(world).measured == 400
    after = world.status("chat")
    for _ in range(20):
        look(world, 1.0)
    assert world.status("chat").forecast == after.forecast
    assert world.status("chat").start_up is after.start_up


def test_another_source_is_estimated_anew_and_keeps_what_was_measured() -> None:
    world = serving_world("chat")
    for _ in range(6):
        look(world, 1.0)
    before = told(world)
    record = world.pools["chat"]
    assert record.spec is not None
    streamed = replace(record.spec.model, source=ModelSource(SourceKind.URI, "s3://weights"))
    world.pools["chat"] = replace(record, spec=replace(record.spec, model=streamed))
    world.turn(1)
    assert told(world).weights < before.weights
    assert told(world).measured == before.measured == 400


def test_a_status_of_before_tells_what_its_forecast_had_measured() -> None:
    """An upgrade: the forecast is kept, and what a start takes was never written."""
    world = serving_world("chat")
    for _ in range(6):
        look(world, 1.0)
    kept = world.status("chat")
    after = restarted(world, replace(kept, start_up=None))
    after.turn(1)
    assert after.status("chat").start_up == kept.start_up


def test_a_pool_without_a_plan_tells_nothing_new() -> None:
    world = World.of([board("b-0")], pool("chat", None))
    world.turn(1)
    assert world.status("chat") == PoolStatus()
