"""A mistake of ours about one pool is no reason to decide on none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.decide.test_learning import STEP, Serving
from tests.decide.test_splits import split_world
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from weft.catalog import load
from weft.control.deciding.isolating import MOST_TRIES, TRIED_AGAIN_SECONDS, Isolating
from weft.control.metrics.telemetry import Telemetry
from weft.decide import decide
from weft.domain.reasons import Reason
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.shape import Calibration
from weft.domain.stumbling import Stumbled
from weft.domain.workload import Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.domain.decision import Decisions, PoolDecision
    from weft.domain.snapshot import PoolRecord, Snapshot

POISON: Any = "nobody reads this"


class Passes:
    """Passes over worlds at a time that is a number; how many failures were counted."""

    def __init__(self) -> None:
        self.now = 0.0
        self._telemetry = Telemetry()
        self._isolating = Isolating(self._telemetry, lambda: self.now)

    def over(self, snapshot: Snapshot) -> Decisions:
        return self._isolating.decide(snapshot, load())

    @property
    def failures(self) -> float:
        of_ours = {"loop": "decide", "reason": "Bug"}
        return self._telemetry.registry.get_sample_value("weft_pass_failures_total", of_ours) or 0.0


def serving(*names: str) -> World:
    """Pools of two replicas each, which serve."""
    world = World.of([board(f"b-{index}") for index in range(6)], *(pool(name, pool_spec(8)) for name in names))
    for name in names:
        grow(world, name, 2)
    world.turn(4)
    return world


def grow(world: World, name: str, replicas: int) -> None:
    before = world.pools[name]
    assert before.spec is not None
    spec = replace(before.spec, scaling=external(replicas))
    world.pools[name] = replace(before, spec=spec, generation=before.generation + 1)


def of(decisions: Decisions, name: str) -> PoolDecision:
    return next(each for each in decisions.pools if each.key.name == name)


def in_its_workload(record: PoolRecord) -> PoolRecord:
    assert record.spec is not None
    return replace(record, spec=replace(record.spec, workload=POISON))


def in_its_count(record: PoolRecord) -> PoolRecord:
    assert record.spec is not None
    return replace(record, spec=replace(record.spec, scaling=ScalingSpec(freeze_until=POISON)))


def in_its_failure(record: PoolRecord) -> PoolRecord:
    return replace(record, status=replace(record.status, failure=POISON))


def in_its_start(record: PoolRecord) -> PoolRecord:
    return replace(record, status=replace(record.status, start_up=POISON))


PLACES = pytest.mark.parametrize(
    "poisoned", [in_its_workload, in_its_count, in_its_failure, in_its_start], ids=lambda each: each.__name__
)


@PLACES
def test_all_others_are_decided_on(poisoned: Callable[[PoolRecord], PoolRecord]) -> None:
    world, passes = serving("chat", "code"), Passes()
    before = world.pools["chat"].status
    world.pools["chat"] = poisoned(world.pools["chat"])
    grow(world, "code", 3)
    with pytest.raises(Stumbled):
        decide(world.snapshot(), load())
    decisions = passes.over(world.snapshot())
    assert 3 == len(of(decisions, "code").status.assignments)
    left = of(decisions, "chat")
    assert (before.assignments, before.desired_replicas) == (left.status.assignments, left.status.desired_replicas)
    (planned,) = (each for each in left.conditions if each.kind == "Planned")
    assert ("False", Reason.HoldNotPlanned) == (planned.status, planned.explanation.reason)
    assert 1 == passes.failures


def test_it_is_tried_again_after_a_while_and_once_it_is_edited() -> None:
    """Else each pass would cost as much as two."""
    world, passes = serving("chat", "code"), Passes()
    sound = world.pools["chat"]
    world.pools["chat"] = in_its_count(sound)
    for _ in range(3):
        passes.over(world.snapshot())
    assert 1 == passes.failures
    passes.now += TRIED_AGAIN_SECONDS
    passes.over(world.snapshot())
    assert 2 == passes.failures
    world.pools["chat"] = replace(sound, generation=sound.generation + 1)
    assert of(passes.over(world.snapshot()), "chat") == of(decide(world.snapshot(), load()), "chat")
    assert 2 == passes.failures


def test_a_pool_that_is_well_again_is_decided_on_without_an_edit() -> None:
    world, passes = serving("chat"), Passes()
    sound = world.pools["chat"]
    world.pools["chat"] = in_its_start(sound)
    passes.over(world.snapshot())
    world.pools["chat"] = sound
    passes.now += TRIED_AGAIN_SECONDS
    assert passes.over(world.snapshot()) == decide(world.snapshot(), load())


def test_both_halves_of_a_split_stay_as_they_are() -> None:
    """S6: half a pair is decided on by nobody."""
    world, passes = split_world(pool_spec(4, role=Role.Prefill), pool_spec(4, role=Role.Decode)), Passes()
    world.turn(4)
    before = {name: each.status for name, each in world.pools.items()}
    (name, half) = next(iter(world.pools.items()))
    world.pools[name] = in_its_count(half)
    decisions = passes.over(world.snapshot())
    assert {name: each.assignments for name, each in before.items()} == {
        each.key.name: each.status.assignments for each in decisions.pools
    }
    assert {Reason.HoldNotPlanned} == {
        each.explanation.reason for told in decisions.pools for each in told.conditions if each.kind == "Planned"
    }


def test_where_many_are_wrong_each_pass_finds_some_more() -> None:
    names = [f"p-{index}" for index in range(MOST_TRIES + 1)]
    world, passes = World.of([board("b-0")], *(pool(name, pool_spec(1)) for name in (*names, "well"))), Passes()
    for name in names:
        world.pools[name] = in_its_count(world.pools[name])
    with pytest.raises(Stumbled):
        passes.over(world.snapshot())
    assert 1 == len(of(passes.over(world.snapshot()), "well").status.assignments)


def test_a_mistake_about_nobody_ends_the_pass() -> None:
    world = serving("chat")
    with pytest.raises(AttributeError):
        Passes().over(replace(world.snapshot(), nodes=POISON))


def test_a_mistake_about_what_a_correction_does_to_capacity_names_its_pool() -> None:
    """Whatever is about to be learnt: what the plan was expected to carry is asked for, too, which nobody can read."""
    serving = Serving.of(Calibration(1.5, 1.5), "chat")
    for _ in range(10):
        serving.run(1)
        now = serving.world.snapshot()
        (chat,) = now.pools
        assert chat.status.plan is not None
        status = replace(chat.status, plan=replace(chat.status.plan, prediction=POISON))
        with pytest.raises(Stumbled):
            decide(replace(now, now=now.now + STEP, pools=(replace(chat, status=status),)), load())
    assert serving.factors() is not None
