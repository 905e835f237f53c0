"""Who holds which GPUs of the fabric: pods, promises to replicas, spares of pools, and what is free.

Pure: it reads the fabric, all pods and the pools, and decides nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.decide.order import in_order
from weft.decide.replicas.promises import free_map, holder_name, memory_of_pods
from weft.engines.kv.host_memory import pod_needs
from weft.placement import Hold, by_accelerator, eligible_domains, natural, rooms_of, spare_nodes, spares_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from weft.cli.cluster.running import Running
    from weft.domain.cluster import PodRecord
    from weft.domain.fabric import Fabric, FabricNode, NvlinkDomain
    from weft.domain.reasons import Explanation
    from weft.domain.room import AcceleratorRoom, DomainRoom
    from weft.domain.snapshot import PoolRecord
    from weft.placement import EligibleDomain, FreeMap


@dataclass(frozen=True, slots=True)
class Sitter:
    """A holder of GPUs of a node: a replica of the pool `name` (`namespace/name`), or another pod (`replica` is None).

    `promised` GPUs are not held by a pod yet; `leaves` says that the pod is terminating, or that no assignment names
    it.
    """

    name: str
    replica: int | None
    gpus: int
    promised: bool = False
    leaves: bool = False

    def __str__(self) -> str:
        """Return `team/chat/3` for a replica, or `vision/training` for a pod of others."""
        return self.name if self.replica is None else f"{self.name}/{self.replica}"


@dataclass(frozen=True, slots=True)
class Tray:
    """A node with its holders. `free` is what a new replica may take, `spare_of` the pool that keeps the node idle."""

    node: FabricNode
    sitters: tuple[Sitter, ...]
    free: int
    spare_of: str = ""

    @property
    def faulty(self) -> bool:
        """Whether the node is unusable for anything new."""
        return self.node.unusable is not None

    @property
    def why(self) -> Explanation | None:
        """Why the node is unusable or impaired, if it is."""
        return self.node.unusable or self.node.impaired


@dataclass(frozen=True, slots=True)
class Rack:
    """An NVLink domain with its nodes in natural order, and what still fits."""

    domain: NvlinkDomain
    trays: tuple[Tray, ...]
    room: DomainRoom

    @property
    def spare(self) -> int:
        """Number of GPUs that pools keep idle as spares."""
        return sum(tray.node.total for tray in self.trays if tray.spare_of)


@dataclass(frozen=True, slots=True)
class Sitting:
    """The whole fabric. `free` is what is left for new replicas; `pools` are all pool names, sorted."""

    racks: tuple[Rack, ...]
    kinds: tuple[AcceleratorRoom, ...]
    notes: tuple[Explanation, ...]
    pools: tuple[str, ...]
    free: FreeMap


def seat(fabric: Fabric, pods: Sequence[PodRecord], running: Running, names: Mapping[str, str]) -> Sitting:
    """Find every holder. Unknown pools are named by `names`, which their pods tell by UID, and have no promises."""
    known = {pool.key.uid: f"{pool.key.namespace}/{pool.key.name}" for pool in running.pools}
    free = free_map(fabric, tuple(pods), running.pools)
    sitters = _holders(fabric, pods, {**names, **known}, running.pools)
    bound = {
        (pod.identity.pool_uid, pod.identity.replica, pod.identity.rank)
        for pod in pods
        if pod.identity is not None and pod.node is not None
    }
    for pool in running.pools:
        for replica, hold in _promises(pool, bound):
            free.reserve(hold)
            sitters[hold.node].append(Sitter(known[pool.key.uid], replica, hold.gpus, promised=True))
    spares = _spares(running, free)
    rooms = rooms_of(free)
    racks = tuple(
        Rack(domain, tuple(_tray(node, sitters, spares, free) for node in _ordered(domain)), room)
        for domain, room in zip(fabric.domains, rooms, strict=True)
    )
    ours = {each.name for found in sitters.values() for each in found if each.replica is not None}
    return Sitting(racks, by_accelerator(rooms), fabric.notes, tuple(sorted(ours | set(spares.values()))), free)


def _holders(
    fabric: Fabric, pods: Sequence[PodRecord], names: Mapping[str, str], pools: Sequence[PoolRecord]
) -> dict[str, list[Sitter]]:
    """Return holders by node, one for each replica or pod of others; RDMA devices do not count."""
    nodes = fabric.nodes()
    assigned = {(pool.key.uid, each.replica) for pool in pools for each in pool.status.assignments}
    known = {pool.key.uid for pool in pools}
    counts: Counter[tuple[str, str, int | None, bool]] = Counter()
    for pod in pods:
        if pod.node is None or pod.node not in nodes or not pod.holds_devices:
            continue
        ours = pod.identity if pod.identity is not None and pod.identity.pool_uid in names else None
        name = names[ours.pool_uid] if ours is not None else f"{pod.namespace}/{pod.name}"
        gone = ours is not None and ours.pool_uid in known and (ours.pool_uid, ours.replica) not in assigned
        place = pod.node, name, None if ours is None else ours.replica, pod.terminating or gone
        counts[place] += dict(pod.requests).get(nodes[pod.node].resource, 0)
    found: dict[str, list[Sitter]] = defaultdict(list)
    for (node, name, replica, leaves), gpus in counts.items():
        if gpus:
            found[node].append(Sitter(name, replica, gpus, leaves=leaves))
    return found


def _promises(pool: PoolRecord, bound: set[tuple[str, int, int]]) -> Iterator[tuple[int, Hold]]:
    """Yield what replicas were assigned that no pod of theirs holds yet."""
    memory = memory_of_pods(pool)
    for each in pool.status.assignments:
        for rank, node in enumerate(each.nodes):
            if (pool.key.uid, each.replica, rank) not in bound:
                yield each.replica, Hold(node, each.gpus_per_pod, holder_name(pool), memory=memory)


def _spares(running: Running, free: FreeMap) -> dict[str, str]:
    """Return nodes that pools keep idle in domains where they have replicas, reserved in the order of the decision."""
    found: dict[str, str] = {}
    for unit in in_order(running.pools, running.splits):
        for pool in unit:
            for rack, due in _racks_with_spares(pool, free):
                for node in spare_nodes(rack.nodes, due, free):
                    free.reserve(Hold(node.name, node.total, spares_of(holder_name(pool))))
                    found[node.name] = f"{pool.key.namespace}/{pool.key.name}"
    return found


def _racks_with_spares(pool: PoolRecord, free: FreeMap) -> Iterator[tuple[EligibleDomain, int]]:
    """Yield domains where a pool has replicas, with the nodes that it may use, and how many spares it keeps there."""
    spec, plan = pool.spec, pool.status.plan
    if spec is None or plan is None or spec.placement.spare_nodes_per_domain < 1:
        return
    homes = {free.domain_of(node) for each in pool.status.assignments for node in each.nodes}
    usable = eligible_domains(plan.shape, spec.placement, free, pod_needs(spec, plan))
    for home in sorted(home for home in homes if home is not None):
        if len(usable[home].domain.nodes) > 1:
            yield usable[home], spec.placement.spare_nodes_per_domain


def _ordered(domain: NvlinkDomain) -> list[FabricNode]:
    return sorted(domain.nodes, key=lambda node: natural(node.name))


def _tray(node: FabricNode, sitters: Mapping[str, list[Sitter]], spares: Mapping[str, str], free: FreeMap) -> Tray:
    order = sorted(sitters.get(node.name, ()), key=lambda each: (each.replica is None, each.name, each.replica or 0))
    left = free.on(node.name) if node.unusable is None else 0
    return Tray(node, tuple(order), left, spares.get(node.name, ""))
