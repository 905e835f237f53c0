"""What is free for new replicas: the fabric minus every promise that pods have not taken up yet."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.placement import FreeMap, Hold, leaves_domain, slot_lost

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.decide.health import Replica
    from weft.domain.cluster import PodRecord
    from weft.domain.fabric import Fabric
    from weft.domain.shape import Shape
    from weft.domain.snapshot import PoolRecord


def free_map(fabric: Fabric, pods: Iterable[PodRecord], pools: Iterable[PoolRecord]) -> FreeMap:
    """Everything that no pod holds, with the names of those who hold the rest."""
    names = {pool.key.uid: holder_name(pool) for pool in pools}
    occupants: dict[str, set[str]] = defaultdict(set)
    for pod in pods:
        if pod.node is not None and pod.requests and pod.holds_devices:
            owner = names.get(pod.identity.pool_uid) if pod.identity else None
            occupants[pod.node].add(owner or f"{pod.namespace}/{pod.name}")
    return FreeMap.of(fabric, (), {node: tuple(sorted(held)) for node, held in occupants.items()})


def holder_name(pool: PoolRecord) -> str:
    """How messages name a pool that holds GPUs."""
    return f"pool {pool.key.namespace}/{pool.key.name}"


def holds_of(pool: PoolRecord, nodes: tuple[str, ...], gpus_per_pod: int) -> list[Hold]:
    """Promises for a whole replica, one for each of its pods."""
    return [Hold(node, gpus_per_pod, holder_name(pool)) for node in nodes]


def keep_promise(pool: PoolRecord, replica: Replica, shape: Shape | None, free: FreeMap) -> Explanation | None:
    """Reserve what a persisted assignment still needs; or say why its slot is lost, while nothing of it was released.

    Once pods are released the scheduler has the word: then the promise stands until they are bound or time out.
    """
    assignment = replica.assignment
    bound = replica.bound
    unbound = [node for rank, node in enumerate(assignment.nodes) if rank not in bound]
    if not replica.released:
        lost = slot_lost(assignment, free.fabric, _promised(free, unbound))
        if lost is not None:
            return Explanation(Reason.SlotTaken, f"replica {assignment.replica} is placed anew: {lost.message}")
        if shape is not None and leaves_domain(assignment, shape, free.fabric):
            message = f"replica {assignment.replica} is placed anew: its nodes no longer share one NVLink domain"
            return Explanation(Reason.SlotTaken, message)
    for node in unbound:
        free.reserve(Hold(node, assignment.gpus_per_pod, holder_name(pool)))
    return None


def _promised(free: FreeMap, nodes: Iterable[str]) -> Mapping[str, int]:
    """GPUs of these nodes that earlier promises took."""
    known = free.fabric.nodes()
    return {name: known[name].free - free.on(name) for name in nodes if name in known}
