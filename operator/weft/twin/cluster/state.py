"""What the API server of a simulated cluster shows: nodes, pods and quotas, and what pools hold of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from weft.twin.cluster.pods import SimulatedPod
from weft.twin.cluster.quotas import counted, refuse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.cluster import NodeRecord, PodRecord
    from weft.domain.quotas import QuotaRecord


class ClusterState:
    """Nodes and pods; `touched` has the UIDs of pools whose pods changed since it was cleared.

    Times are seconds of the trace.
    """

    def __init__(self, nodes: Iterable[NodeRecord], pods: Iterable[PodRecord]) -> None:
        """`pods` are those of others, which never change."""
        self._nodes = {each.name: each for each in nodes}
        self._pods = {each.uid: SimulatedPod(each) for each in pods}
        self._ended: list[SimulatedPod] = []
        self._created: dict[str, SimulatedPod] = {}  # by UID; quotas count these
        self._quotas: tuple[QuotaRecord, ...] = ()
        self._counted: tuple[QuotaRecord, ...] | None = ()
        self._seen: tuple[tuple[NodeRecord, ...], tuple[PodRecord, ...]] | None = None
        self._engines: dict[str, tuple[str, ...]] = {}
        self.touched: set[str] = set()
        self.revision = 0  # rises with every change that a watch would show

    # what the operator reads

    @property
    def nodes(self) -> tuple[NodeRecord, ...]:
        """All nodes; the same object while nothing changes."""
        return self._shown()[0]

    @property
    def pods(self) -> tuple[PodRecord, ...]:
        """All pods, by namespace and name; the same object while nothing changes."""
        return self._shown()[1]

    @property
    def quotas(self) -> tuple[QuotaRecord, ...]:
        """The ResourceQuotas with what the pods use; the same object while nothing changes."""
        if self._counted is None:
            self._counted = counted(self._quotas, self._created.values())
        return self._counted

    def _shown(self) -> tuple[tuple[NodeRecord, ...], tuple[PodRecord, ...]]:
        if self._seen is None:
            records = (pod.record for pod in self._pods.values())
            self._seen = (
                tuple(self._nodes.values()),
                tuple(sorted(records, key=lambda pod: (pod.namespace, pod.name))),
            )
        return self._seen

    # what pools hold

    def engines(self, pool: str) -> tuple[str, ...]:
        """Return the names of the leader pods of a pool's ready replicas, which are scraped for metrics."""
        if pool not in self._engines:
            ready = (pod for pod in self._pods.values() if pod.pool == pool and pod.leads and pod.record.ready)
            self._engines[pool] = tuple(pod.record.name for pod in ready if not pod.record.terminating)
        return self._engines[pool]

    def serving(self, pool: str) -> int:
        """Count the replicas of a pool whose engine answers and is not terminating."""
        return sum(pod.serves and not pod.record.terminating for pod in self._pods.values() if pod.pool == pool)

    def paid(self, pool: str) -> int:
        """Count the replicas of a pool that hold GPUs."""
        return len({pod.replica for pod in self._pods.values() if pod.pool == pool and pod.runs})

    def held(self, pool: str) -> int:
        """Count the GPUs that a pool's pods hold."""
        return sum(pod.gpus for pod in self._pods.values() if pod.pool == pool and pod.runs)

    def gpu_seconds(self, pool: str, begin: float, end: float) -> float:
        """Sum the GPU-seconds of a pool's pods between two times, each from binding until it is gone or dead."""
        held = (pod for pod in (*self._ended, *self._pods.values()) if pod.pool == pool)
        return sum(pod.gpu_seconds(begin, end) for pod in held)

    # what the scheduler, kubelets and faults go by

    def node(self, name: str) -> NodeRecord | None:
        """Return the node of this name, if there is one."""
        return self._nodes.get(name)

    def pod(self, uid: str) -> SimulatedPod | None:
        """Return the pod of this UID, unless it is gone."""
        return self._pods.get(uid)

    def is_gone(self, pod: SimulatedPod) -> bool:
        """Whether the API server shows a pod no more."""
        return pod.uid not in self._pods

    def of_pools(self) -> list[SimulatedPod]:
        """Return the pods of all pools, without those of others."""
        return [pod for pod in self._pods.values() if pod.pool]

    def of_pools_on(self, node: str) -> list[SimulatedPod]:
        """Return the pods of pools that are bound to a node."""
        return [pod for pod in self.of_pools() if pod.record.node == node]

    def devices_held_on(self, node: str | None) -> Counter[str]:
        """Count the devices that pods hold on a node, by name of the resource."""
        held: Counter[str] = Counter()
        for other in self._pods.values():
            if other.record.node == node and other.record.holds_devices:
                held.update(dict(other.record.requests))
        return held

    def limit(self, quotas: Iterable[QuotaRecord]) -> None:
        """Enforce ResourceQuotas from now on; their `used` counts what others use."""
        self._quotas = tuple(sorted(quotas, key=lambda quota: (quota.namespace, quota.name)))
        self._counted = None

    def admit(self, pod: SimulatedPod) -> None:
        """Add a created pod, unless a quota refuses it."""
        if not refuse(self._quotas, self._created.values(), pod):
            self._pods[pod.uid] = self._created[pod.uid] = pod
            self.changed(pod.pool)

    def drop(self, pod: SimulatedPod, now: float) -> None:
        """Take a pod away that has ended; the GPUs that it still held are free."""
        del self._pods[pod.uid]
        self._created.pop(pod.uid, None)
        pod.freed = now if pod.freed is None else pod.freed
        self._ended.append(pod)
        self.changed(pod.pool)

    def replace_node(self, node: NodeRecord) -> None:
        """Show a node otherwise than before."""
        self._nodes[node.name] = node
        self.changed("")
        self.touched.update(pod.pool for pod in self.of_pools())

    def changed(self, pool: str) -> None:
        """Note that a pod of a pool (by UID; empty: none of any pool) shows something else than before."""
        self._seen, self._counted, self.revision = None, None, self.revision + 1
        self._engines.clear()
        if pool:
            self.touched.add(pool)
