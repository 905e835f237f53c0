"""What would happen: a snapshot made of files (or of a cluster that is only read), and decide run until it rests.

A plan from files starts from nothing: no pod of the planned resources runs, and every node is as the file shows it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from weft.api.parsing import parse_pool, parse_split
from weft.cli.failure import CommandFailure
from weft.decide import decide
from weft.domain.cluster import NodeRecord
from weft.domain.decision import PoolDecision, SplitDecision
from weft.domain.snapshot import PoolRecord, ResourceKey, Snapshot, SplitRecord
from weft.domain.status import PoolStatus
from weft.domain.workload import Role

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.domain.cluster import PodRecord

ENDLESS_NODES = 64
PASSES = 4


@dataclass(frozen=True, slots=True)
class Planned:
    """One resource with what would be decided for it; a split has its two pools."""

    title: str
    pools: tuple[tuple[PoolRecord, PoolDecision], ...]
    split: SplitDecision | None = None


@dataclass(frozen=True, slots=True)
class World:
    """Nodes and pods to plan against."""

    nodes: tuple[NodeRecord, ...]
    pods: tuple[PodRecord, ...] = ()


def imagined_world(catalog: Catalog) -> World:
    """Enough of every accelerator in the catalog (except the test one): for planning without any fabric."""
    nodes = [
        _imagined_node(accelerator, index)
        for accelerator in catalog.accelerators
        if accelerator.vendor != "cpu"
        for index in range(ENDLESS_NODES)
    ]
    return World(tuple(nodes))


def _imagined_node(accelerator: Any, index: int) -> NodeRecord:  # noqa: ANN401 - weft.domain.hardware.Accelerator
    per_node = accelerator.gpus_per_node
    name = f"{accelerator.name.lower()}-{index:02d}"
    found = {f"{accelerator.resource.split('/')[0]}/gpu.product": accelerator.products[0]}
    if accelerator.vendor == "amd":
        found = {"amd.com/gpu.product-name": accelerator.products[0]}
    if accelerator.domain_gpus > per_node:
        found["nvidia.com/gpu.clique"] = f"{accelerator.name}.{index * per_node // accelerator.domain_gpus}"
    devices = ((accelerator.resource, per_node),)
    return NodeRecord(name, name, tuple(sorted(found.items())), devices, devices)


def plan_all(documents: list[dict[str, Any]], world: World, catalog: Catalog, now: float) -> list[Planned]:
    """Decide for every InferencePool and PDSplit of the documents together: they compete for the same GPUs."""
    pools = [_fresh(parse_pool(_with_identity(body))) for body in documents if body.get("kind") == "InferencePool"]
    splits = [parse_split(_with_identity(body)) for body in documents if body.get("kind") == "PDSplit"]
    if not pools and not splits:
        raise CommandFailure("the file holds no InferencePool and no PDSplit of weft.dev")
    children = [_child(split, role) for split in splits for role in (Role.Prefill, Role.Decode)]
    snapshot = Snapshot(now, (*pools, *children), tuple(splits), world.nodes, world.pods)
    return _told(_rested(snapshot, catalog), splits)


def _rested(snapshot: Snapshot, catalog: Catalog) -> tuple[Snapshot, dict[str, PoolDecision], dict[str, SplitDecision]]:
    """Feed decisions back as status until nothing changes."""
    decisions = decide(snapshot, catalog)
    for _ in range(PASSES):
        statuses = {decision.key.uid: decision.status for decision in decisions.pools}
        pools = tuple(replace(pool, status=statuses.get(pool.key.uid, pool.status)) for pool in snapshot.pools)
        if pools == snapshot.pools:
            break
        snapshot = replace(snapshot, pools=pools, memory=decisions.memory)
        decisions = decide(snapshot, catalog)
    by_uid = {decision.key.uid: decision for decision in decisions.pools}
    return snapshot, by_uid, {decision.key.uid: decision for decision in decisions.splits}


def _told(
    rested: tuple[Snapshot, dict[str, PoolDecision], dict[str, SplitDecision]], splits: list[SplitRecord]
) -> list[Planned]:
    snapshot, pools, split_decisions = rested
    told = [
        Planned(str(pool.key), ((pool, pools[pool.key.uid]),))
        for pool in snapshot.pools
        if pool.split_uid is None and pool.key.uid in pools
    ]
    for split in splits:
        sides = tuple(
            (pool, pools[pool.key.uid])
            for pool in snapshot.pools
            if pool.split_uid == split.key.uid and pool.key.uid in pools
        )
        told.append(Planned(str(split.key), sides, split_decisions.get(split.key.uid)))
    return told


def _child(split: SplitRecord, role: Role) -> PoolRecord:
    spec = None
    if split.spec is not None:
        spec = split.spec.prefill if role is Role.Prefill else split.spec.decode
    name = split.child_name(role)
    key = ResourceKey("InferencePool", split.key.namespace, name, _uid(split.key.namespace, name))
    return PoolRecord(key, 1, spec, PoolStatus(), problem=split.problem, split_uid=split.key.uid)


def _fresh(pool: PoolRecord) -> PoolRecord:
    """A plan is for the spec alone, whatever status the file carries along."""
    return replace(pool, status=PoolStatus(), deleting=False)


def _with_identity(body: dict[str, Any]) -> dict[str, Any]:
    given = body.get("metadata")
    metadata: dict[str, Any] = given if isinstance(given, dict) else {}
    name = metadata.get("name") or "unnamed"
    namespace = metadata.get("namespace") or "default"
    identity = {"name": name, "namespace": namespace, "uid": _uid(namespace, name), "generation": 1}
    return {**body, "metadata": {**metadata, **identity}}


def _uid(namespace: str, name: str) -> str:
    """A stable stand-in for the UID that the API server would give."""
    return hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:32]
