"""An argument that the engine's release does not know is passed on, and told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from weft.domain.spec import EngineSpec


def world_with(*args: str, version: str = "0.32.0") -> World:
    spec = replace(pool_spec(8, external(1)), engine=EngineSpec(version=version, args=args))
    return World.of([board("b-0")], pool("chat", spec))


def test_the_pool_runs_and_says_what_its_engine_does_not_know() -> None:
    world = world_with("--enable-prefix-cachng", "--swap-space", "4")
    world.turn(3)
    assert world.nodes_of("chat") == [("b-0",)]
    assert world.condition("chat", "Planned")[0] == "True"
    told = (
        "VLLM 0.32.0 does not know spec.engine.args --enable-prefix-cachng, perhaps --enable-prefix-caching; "
        "--swap-space (gone after 0.17.1)"
    )
    assert world.condition("chat", "ArgumentsUnknown") == ("True", "ArgumentUnknown", told)


def test_the_condition_goes_with_the_argument() -> None:
    world = world_with("--frobnicate")
    world.turn()
    assert world.condition("chat", "ArgumentsUnknown")[0] == "True"
    world.edit("chat", replace(pool_spec(8, external(1)), engine=EngineSpec(args=("--numa-bind",))))
    world.turn()
    assert all(each.kind != "ArgumentsUnknown" for each in world.decision("chat").conditions)


@pytest.mark.parametrize("args", [(), ("--max-num-seqs", "8"), ("--enable-sleep-mode", "--numa-bind")])
def test_nothing_is_said_of_what_the_release_knows(args: tuple[str, ...]) -> None:
    world = world_with(*args)
    world.turn()
    assert world.condition("chat", "Planned")[0] == "True"
    assert all(each.kind != "ArgumentsUnknown" for each in world.decision("chat").conditions)
