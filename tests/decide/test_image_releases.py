"""An engine is started as the release that the tag of its image says, and what contradicts that is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.test_splits import half, split_conditions, split_world
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from weft.domain.shape import EngineName
from weft.domain.spec import EngineSpec, PoolSpec
from weft.domain.workload import Role
from weft.render import render_pods

OLD = "mirror.example/vllm/vllm-openai:v0.17.1"


def spec_of(image: str | None = None, version: str | None = None) -> PoolSpec:
    return replace(pool_spec(1, external(1)), engine=EngineSpec(EngineName.VLLM, version, image))


def started(world: World) -> tuple[str, list[str]]:
    """The release that was planned, and the command of its pod."""
    record = world.pools["chat"]
    assert record.status.plan is not None
    (assigned,) = record.status.assignments
    (pod,) = render_pods(record, assigned)
    container = pod["spec"]["containers"][0]
    assert container["image"] == record.status.plan.engine.image
    return record.status.plan.engine.version, container["command"]


def world_with(spec: PoolSpec) -> World:
    world = World.of([board("b-0")], pool("chat", spec))
    world.turn(2)
    return world


def told(world: World) -> list[str]:
    return [one.explanation.message for one in world.decision("chat").conditions if one.kind == "ImageMismatched"]


def test_an_image_is_started_with_the_options_of_its_tag() -> None:
    """`--shutdown-timeout` is new in 0.18: an engine of 0.17 would end with its usage."""
    world = world_with(spec_of(OLD))
    version, command = started(world)
    assert version == "0.17.1"
    assert "--shutdown-timeout" not in command
    assert "--shutdown-timeout" in started(world_with(spec_of()))[1]
    assert told(world) == []


def test_another_tag_is_another_release() -> None:
    world = world_with(spec_of(OLD))
    world.edit("chat", spec_of(OLD.replace("0.17.1", "0.31.0")))
    world.turn()
    plan = world.decision("chat").status.plan
    assert plan is not None
    assert plan.engine.version == "0.31.0"


@pytest.mark.parametrize("image", ["mirror.example/team/vllm:prod", f"vllm/vllm-openai@sha256:{'ab' * 32}"])
def test_an_image_that_says_no_release_is_started_as_the_default_one(image: str) -> None:
    world = world_with(spec_of(image))
    assert started(world)[0] == started(world_with(spec_of()))[0]
    assert told(world) == []


def test_a_version_that_contradicts_the_tag_is_obeyed_and_told() -> None:
    world = world_with(spec_of(OLD, "0.30.0"))
    assert started(world)[0] == "0.30.0"
    assert world.condition("chat", "Planned")[0] == "True"
    message = (
        f"spec.engine.image {OLD} is tagged as release 0.17.1, and is started as VLLM 0.30.0: spec.engine.version has "
        "to be the release that is in it"
    )
    assert world.condition("chat", "ImageMismatched") == ("True", "ImageMismatch", message)
    world.edit("chat", spec_of(OLD, "0.17.1"))
    world.turn()
    assert told(world) == []


def test_a_split_takes_the_release_of_its_image_and_tells_what_contradicts_it() -> None:
    def sides(version: str | None) -> tuple[PoolSpec, PoolSpec]:
        engine = EngineSpec(EngineName.VLLM, version, OLD)
        return replace(half(Role.Prefill), engine=engine), replace(half(Role.Decode), engine=engine)

    tagged, named = split_world(*sides(None)), split_world(*sides("0.30.0"))
    for world, release in ((tagged, "0.17.1"), (named, "0.30.0")):
        world.turn()
        (decision,) = world.decide().splits
        assert decision.engine is not None
        assert decision.engine.version == release
    assert "ImageMismatched" not in split_conditions(tagged)
    assert split_conditions(named)["ImageMismatched"] == ("True", "ImageMismatch")
