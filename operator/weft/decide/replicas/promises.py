"""What is free for new replicas: the fabric minus every promise that pods have not taken up yet."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from weft.decide.replicas.standing import standing_of
from weft.domain.crews import crews_of
from weft.domain.reasons import Explanation, Reason
from weft.domain.workload import Role
from weft.engines.kv.host_memory import pod_memory
from weft.placement import FreeMap, Hold, domain_lost, leaves_domain, slot_lost
from weft.render import compute_domain_name, domain_name_of, is_of, shared_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weft.decide.replicas.health import AssignedReplica
    from weft.decide.replicas.standing import Standing
    from weft.domain.cluster import PodRecord
    from weft.domain.fabric import Fabric
    from weft.domain.shape import Shape
    from weft.domain.snapshot import PoolRecord, ResourceKey
    from weft.domain.status import Assignment


def free_map(fabric: Fabric, pods: tuple[PodRecord, ...], pools: Iterable[PoolRecord]) -> FreeMap:
    """Everything that no pod holds, with the names of those who hold the rest."""
    known = {pool.key.uid: pool for pool in pools}
    free = FreeMap.of(fabric, (), lambda: _occupants(pods, known, fabric))
    crews = crews_of(pods)
    for uid, pool in known.items():
        if uid in crews and memory_of_pods(pool):
            for hold in held_by(pool, crews[uid], fabric):
                free.take_memory(hold)
        standing = standing_of(uid, pool.status.assignments, crews[uid]) if uid in crews else None
        if standing is not None and standing.strays:
            for hold in held_by(pool, _strays(standing), fabric):
                free.vacate(hold)
    return free


def _strays(standing: Standing) -> Iterator[PodRecord]:
    """Pods that belong to no replica any more and hold something."""
    ids = set(standing.ids)
    return (pod for pod in standing.pods if pod.requests and pod.identity and pod.identity.replica not in ids)


def _occupants(
    pods: Iterable[PodRecord], known: Mapping[str, PoolRecord], fabric: Fabric
) -> Mapping[str, Mapping[str, int]]:
    """GPUs that pods hold, by node and holder."""
    nodes = fabric.nodes()
    occupants: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        if pod.node is not None and pod.requests and pod.holds_devices:
            owner = known.get(pod.identity.pool_uid) if pod.identity else None
            holder = holder_name(owner) if owner else f"{pod.namespace}/{pod.name}"
            occupants[pod.node][holder] += pod.asks_for(nodes[pod.node].resource) if pod.node in nodes else 0
    return occupants


def holder_name(pool: PoolRecord) -> str:
    """How messages name a pool that holds GPUs."""
    return f"pool {pool.key.namespace}/{pool.key.name}"


def holders_beside(pool: PoolRecord) -> frozenset[str]:
    """How messages name whoever serves together with new replicas of a pool: itself, and both halves of its split."""
    name = holder_name(pool)
    if pool.split_uid is None or pool.spec is None:
        return frozenset({name})
    split = name.removesuffix(f"-{pool.spec.role.value.lower()}")
    return frozenset({name, *(f"{split}-{role.value.lower()}" for role in (Role.Prefill, Role.Decode))})


def memory_of_pods(pool: PoolRecord) -> int:
    """Bytes of its node's memory that each pod of a pool needs, by what it is planned to run."""
    spec, plan = pool.spec, pool.status.plan
    return 0 if spec is None or plan is None else pod_memory(spec, plan)


def holds_of(pool: PoolRecord, assignment: Assignment, fabric: Fabric, memory: int | None = None) -> list[Hold]:
    """Promises for a whole replica, one for each of its pods, with the `memory` of each by the plan if none is given.

    Where its ComputeDomain is seen on a node already, the fabric counts that, as it does GPUs that a pod holds.
    """
    holder, joins, name = holder_name(pool), assignment.compute_domain is not None, domain_name(pool.key, assignment)
    memory = memory_of_pods(pool) if memory is None else memory
    return [
        Hold(node, assignment.gpus_per_pod, holder, int(joins and name not in _domains_of(node, fabric)), memory)
        for node in assignment.nodes
    ]


def held_by(pool: PoolRecord, pods: Iterable[PodRecord], fabric: Fabric) -> list[Hold]:
    """GPUs and memory that bound pods of a pool hold until they are gone."""
    nodes, memory = fabric.nodes(), memory_of_pods(pool)
    return [
        Hold(
            pod.node,
            pod.asks_for(nodes[pod.node].resource) if pod.node in nodes else 0,
            holder_name(pool),
            int(pod.identity is not None and has_joined(pool, pod.identity.replica, pod.node, fabric, pod.pair)),
            memory,
        )
        for pod in pods
        if pod.node is not None and pod.holds_devices
    ]


def has_joined(pool: PoolRecord, replica: int, node: str, fabric: Fabric, pair: str = "") -> bool:
    """Whether a node is seen in the ComputeDomain of a replica: its own, or what replicas of its pair share."""
    there = _domains_of(node, fabric)
    names = (compute_domain_name(pool.key, replica), shared_by(pool, pair)) if there else ()
    return any(f"{pool.key.namespace}/{name}" in there for name in names)


def _domains_of(node: str, fabric: Fabric) -> tuple[str, ...]:
    known = fabric.nodes().get(node)
    return () if known is None else known.compute_domains


def domain_name(pool: ResourceKey, assignment: Assignment) -> str:
    """The ComputeDomain of a replica that has one, with its namespace."""
    return f"{pool.namespace}/{domain_name_of(pool, assignment)}"


def keep_promise(pool: PoolRecord, replica: AssignedReplica, shape: Shape | None, free: FreeMap) -> Explanation | None:
    """Reserve what a persisted assignment still needs; or say why its slot is lost, while nothing of it was released.

    Once pods are released the scheduler has the word: then the promise stands until they are bound or time out.
    """
    assignment = replica.assignment
    bound = replica.bound
    unbound = [node for rank, node in enumerate(assignment.nodes) if rank not in bound]
    if not replica.released:
        me = holder_name(pool)  # it was promised what its predecessor still holds
        taken = {node: free.reserved(node, me) - free.leaving(node, me) for node in unbound}
        lost = slot_lost(assignment, free.fabric, taken)
        lost = lost or domain_lost(assignment, free.fabric, partial(is_of, pool))
        if lost is not None:
            return Explanation(Reason.SlotTaken, f"replica {assignment.replica} is placed anew: {lost.message}")
        if shape is not None and leaves_domain(assignment, shape, free.fabric):
            message = f"replica {assignment.replica} is placed anew: its nodes no longer share one NVLink domain"
            return Explanation(Reason.SlotTaken, message)
    for hold in promised(pool, replica, free.fabric):
        free.reserve(hold)
    return None


def promised(pool: PoolRecord, replica: AssignedReplica, fabric: Fabric) -> Iterator[Hold]:
    """What a persisted assignment still needs: places of pods that are not bound, and nodes not yet in its domain."""
    for rank, hold in enumerate(holds_of(pool, replica.assignment, fabric)):
        if rank not in replica.bound:
            yield hold
        elif hold.joins:
            yield replace(hold, gpus=0, memory=0)  # the pod is there, and its node not yet in the domain


def take_back(pool: PoolRecord, replica: AssignedReplica, free: FreeMap) -> None:
    """Promises of a replica that leaves are free at once; what its pods hold is free when they are gone."""
    for rank, hold in enumerate(holds_of(pool, replica.assignment, free.fabric)):
        if rank not in replica.bound:
            free.release(hold)
    for hold in held_by(pool, replica.pods, free.fabric):
        free.vacate(hold)
