"""A world of racks whose ComputeDomains come up, with splits whose KV goes over NVLink."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.decide.test_splits import split
from tests.decide.world import World, expert_spec, external, pool, pool_spec
from weft.domain.spec import KVSpec, PoolSpec

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord
    from weft.domain.workload import Role

SETTLED = 8
OVER = KVSpec(transport="NVLink")
FIRST, SECOND = "0a1b2c3d4e", "5f6a7b8c9d"


def half(role: Role, replicas: int = 1, tp: int = 4, pair: str = FIRST, name: str = "GB200") -> PoolSpec:
    return replace(pool_spec(tp, external(replicas), name, role=role), kv=OVER, pair=pair)


def over_trays(role: Role, replicas: int = 1) -> PoolSpec:
    """Eight GPUs, on two trays of four."""
    return replace(expert_spec(4, 2, external(replicas)), role=role, kv=OVER, pair=FIRST)


def with_split(world: World, prefill: PoolSpec, decode: PoolSpec, name: str = "pd") -> World:
    record = split(prefill, decode)
    world.splits[name] = replace(record, key=replace(record.key, name=name, uid=f"uid-{name}"))
    for spec in (prefill, decode):
        child = f"{name}-{spec.role.value.lower()}"
        world.pools[child] = pool(child, spec, split_uid=f"uid-{name}")
    return world


def world_of(nodes: list[NodeRecord], prefill: PoolSpec, decode: PoolSpec) -> World:
    world = with_split(World.of(nodes), prefill, decode)
    world.driver = True
    return world


def serving(world: World, name: str = "pd") -> tuple[int, int]:
    return world.serving(f"{name}-prefill"), world.serving(f"{name}-decode")


def racks(world: World, name: str = "pd") -> set[str]:
    """Cliques of the nodes of both halves, whose names begin with them."""
    places = (*world.nodes_of(f"{name}-prefill"), *world.nodes_of(f"{name}-decode"))
    return {node.rpartition("-")[0] for nodes in places for node in nodes}


def shared(world: World, name: str = "pd") -> set[str | None]:
    """Names of the ComputeDomains of both halves; None for a replica without any."""
    every = (*world.status(f"{name}-prefill").assignments, *world.status(f"{name}-decode").assignments)
    return {each.compute_domain.name if each.compute_domain is not None else None for each in every}


def planned(world: World) -> tuple[str, str, str]:
    """(status, reason, message) of the split's condition."""
    assert world.last is not None
    found = next(each for each in world.last.splits[0].conditions if each.kind == "Planned")
    return found.status, found.explanation.reason.value, found.explanation.message
