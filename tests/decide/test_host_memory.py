"""Memory that pods keep KV in counts on every node by all of them, whichever pool they are of."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from weft.domain.spec import EngineSpec, KVSpec, RolloutSpec
from weft.domain.texts.units import GIB

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord
    from weft.domain.spec import PoolSpec


def node(name: str, gib: int = 2000) -> NodeRecord:
    return replace(board(name), offers=(("memory", float(gib * GIB)),))


def keeping(size: str, replicas: int) -> PoolSpec:
    """Replicas of one GPU; each pod needs 2 GiB more than it keeps."""
    return replace(pool_spec(1, external(replicas)), kv=KVSpec(offload_json=f'{{"size":"{size}"}}'))


def pods_by_node(world: World, *pools: str) -> dict[str, int]:
    return dict(Counter(node for name in pools for nodes in world.nodes_of(name) for node in nodes))


def test_no_more_pods_go_to_a_node_than_its_memory_holds() -> None:
    """Eight GPUs are free on each, and memory for one of these pods: also pass by pass, once pods are there."""
    world = World.of([node(f"b-{index}") for index in range(3)], pool("chat", keeping("1500Gi", 8)))
    world.turn()
    assert {"b-0": 1, "b-1": 1, "b-2": 1} == pods_by_node(world, "chat")
    world.turn(5)
    assert {"b-0": 1, "b-1": 1, "b-2": 1} == pods_by_node(world, "chat")
    status, reason, message = world.condition("chat", "Placed")
    assert ("False", "NoSlot") == (status, reason)
    assert "node b-0 has 498Gi memory beside what pools count on there, not 1502Gi" in message


def test_pods_of_other_pools_count_too() -> None:
    world = World.of([node("b-0")], pool("chat", keeping("1000Gi", 1)), pool("code", keeping("400Gi", 4)))
    world.turn(5)
    assert {"b-0": 1} == pods_by_node(world, "chat")
    assert {"b-0": 2} == pods_by_node(world, "code")


def test_memory_that_pods_request_counts_as_kv_does() -> None:
    asking = replace(pool_spec(1, external(4)), engine=EngineSpec(resources=(("memory", "900Gi"),)))
    world = World.of([node("b-0")], pool("chat", asking))
    world.turn(5)
    assert {"b-0": 2} == pods_by_node(world, "chat")


def test_a_pool_that_names_no_memory_has_room_beside_them() -> None:
    world = World.of([node("b-0")], pool("chat", keeping("1500Gi", 1)), pool("code", pool_spec(1, external(7))))
    world.turn(5)
    assert {"b-0": 8} == pods_by_node(world, "chat", "code")


def test_what_leaves_gives_its_memory_back() -> None:
    """An edit replaces each of them in its place, where memory allows none beside it."""
    rollout = RolloutSpec(max_surge=0, max_unavailable=1.0)
    world = World.of([node("b-0")], pool("chat", replace(keeping("1500Gi", 1), rollout=rollout)))
    world.turn(5)
    before, spec = world.status("chat").assignments, world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, engine=replace(spec.engine, env=(("VERSION", "2"),))))
    world.turn(8)
    after = world.status("chat").assignments
    assert [("b-0",)] == world.nodes_of("chat")
    assert {each.revision for each in before}.isdisjoint({each.revision for each in after})


def test_nodes_with_more_memory_are_asked_for_where_gpus_are_free() -> None:
    world = World.of([node("b-0")], pool("chat", keeping("1500Gi", 2)))
    world.turn(3)
    request = world.decision("chat").request
    assert request is not None
    assert (1, (("memory", f"{1502 * GIB}"),)) == (request.groups, request.besides)
