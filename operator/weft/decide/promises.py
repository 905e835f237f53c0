"""What is free for new replicas: the fabric minus every promise that pods have not taken up yet."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.placement import FreeMap, Hold, leaves_domain, slot_lost

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weft.decide.health import Replica
    from weft.domain.cluster import PodRecord
    from weft.domain.fabric import Fabric
    from weft.domain.shape import Shape
    from weft.domain.snapshot import PoolRecord


def free_map(fabric: Fabric, pods: Sequence[PodRecord], pools: Iterable[PoolRecord]) -> FreeMap:
    """Everything that no pod holds, with the names of those who hold the rest."""
    known = {pool.key.uid: pool for pool in pools}
    free = FreeMap.of(fabric, (), lambda: _occupants(pods, known))
    for hold in _leaving(pods, known):
        free.vacate(hold)
    return free


def _leaving(pods: Iterable[PodRecord], known: Mapping[str, PoolRecord]) -> Iterator[Hold]:
    """What pods hold that belong to no replica any more."""
    assigned = {uid: {each.replica for each in pool.status.assignments} for uid, pool in known.items()}
    for pod in pods:
        identity = pod.identity
        if identity is not None and identity.replica not in assigned.get(identity.pool_uid, ()):
            owner = known.get(identity.pool_uid)
            if owner is not None and pod.requests:
                yield from held_by(owner, (pod,))


def _occupants(pods: Iterable[PodRecord], known: Mapping[str, PoolRecord]) -> Mapping[str, tuple[str, ...]]:
    """Who holds GPUs by pods, by node."""
    occupants: dict[str, set[str]] = defaultdict(set)
    for pod in pods:
        if pod.node is not None and pod.requests and pod.holds_devices:
            owner = known.get(pod.identity.pool_uid) if pod.identity else None
            occupants[pod.node].add(holder_name(owner) if owner else f"{pod.namespace}/{pod.name}")
    return {node: tuple(sorted(held)) for node, held in occupants.items()}


def holder_name(pool: PoolRecord) -> str:
    """How messages name a pool that holds GPUs."""
    return f"pool {pool.key.namespace}/{pool.key.name}"


def holds_of(pool: PoolRecord, nodes: tuple[str, ...], gpus_per_pod: int) -> list[Hold]:
    """Promises for a whole replica, one for each of its pods."""
    return [Hold(node, gpus_per_pod, holder_name(pool)) for node in nodes]


def held_by(pool: PoolRecord, pods: Iterable[PodRecord]) -> list[Hold]:
    """What bound pods of a pool hold until they are gone."""
    return [
        Hold(pod.node, sum(count for _, count in pod.requests), holder_name(pool))
        for pod in pods
        if pod.node is not None and pod.holds_devices
    ]


def keep_promise(pool: PoolRecord, replica: Replica, shape: Shape | None, free: FreeMap) -> Explanation | None:
    """Reserve what a persisted assignment still needs; or say why its slot is lost, while nothing of it was released.

    Once pods are released the scheduler has the word: then the promise stands until they are bound or time out.
    """
    assignment = replica.assignment
    bound = replica.bound
    unbound = [node for rank, node in enumerate(assignment.nodes) if rank not in bound]
    if not replica.released:
        own = free.vacated(holder_name(pool))  # it was promised what its predecessor still holds
        lost = slot_lost(assignment, free.fabric, {node: free.promised(node) - own.get(node, 0) for node in unbound})
        if lost is not None:
            return Explanation(Reason.SlotTaken, f"replica {assignment.replica} is placed anew: {lost.message}")
        if shape is not None and leaves_domain(assignment, shape, free.fabric):
            message = f"replica {assignment.replica} is placed anew: its nodes no longer share one NVLink domain"
            return Explanation(Reason.SlotTaken, message)
    for node in unbound:
        free.reserve(Hold(node, assignment.gpus_per_pod, holder_name(pool)))
    return None
