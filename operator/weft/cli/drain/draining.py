"""What draining nodes would do: which replicas move, where and in which order, and what stays for lack of room. Pure.

The operator's own decision is followed forward from a snapshot in which the nodes are cordoned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.cli.drain.following import AssignmentChange, follow
from weft.decide import decide
from weft.fabric import build_fabric
from weft.fabric.devices import is_accelerator

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from weft.catalog import Catalog
    from weft.cli.drain.following import Followed
    from weft.domain.cluster import PodRecord
    from weft.domain.reasons import Explanation
    from weft.domain.snapshot import PoolRecord, ResourceKey, Snapshot
    from weft.domain.status import Assignment


@dataclass(frozen=True, slots=True)
class Staying:
    """A replica that cannot leave, or that leaves and is not replaced (`left`), with the reason."""

    pool: ResourceKey
    replica: int
    nodes: tuple[str, ...]
    why: Explanation
    left: bool = False


@dataclass(frozen=True, slots=True)
class Drain:
    """What a drain would do. `steps` are in order; `elsewhere` are changes of pools without a replica on the nodes.

    `others` are pods that are not Weft's, with the GPUs, or parts of them, that they hold; `earlier` counts assignments
    that change first, without the drain. `already` says why replicas leave a node anyway.
    """

    nodes: tuple[str, ...]
    replicas: tuple[tuple[ResourceKey, Assignment], ...]
    steps: tuple[AssignmentChange, ...]
    stays: tuple[Staying, ...]
    others: tuple[tuple[str, int], ...]
    untouched: tuple[ResourceKey, ...]
    elsewhere: tuple[AssignmentChange, ...]
    earlier: int
    already: tuple[Explanation, ...]
    rests: bool

    @property
    def succeeds(self) -> bool:
        """Whether all of Weft's replicas leave, and as many serve as before."""
        return self.rests and not self.stays


def drain(snapshot: Snapshot, nodes: Collection[str], catalog: Catalog) -> Drain:
    """Let ongoing changes finish, cordon the nodes, and follow what happens.

    Replicas that an earlier release of Weft rendered count as current: their rollout is not part of this drain.
    """
    fabric = build_fabric(snapshot.nodes, snapshot.pods, catalog, snapshot.reports)
    already = tuple(why for name in sorted(nodes) if name in fabric.nodes() and (why := fabric.nodes()[name].leaving))
    before = _as_current(snapshot, catalog)
    calm = None if already else follow(before, catalog)
    start = before if calm is None else calm.snapshot
    cordoned = (replace(node, cordoned=True) if node.name in nodes else node for node in start.nodes)
    followed = follow(replace(start, nodes=tuple(cordoned)), catalog)
    there = tuple(_replicas_on(start, nodes))
    concerned = {key.uid for key, _ in there}
    return Drain(
        nodes=tuple(sorted(nodes)),
        replicas=there,
        steps=tuple(change for change in followed.changes if change.pool.uid in concerned),
        stays=tuple(_staying(there, followed)),
        others=tuple(_others(start, nodes, catalog)),
        untouched=_untouched(start, followed, concerned),
        elsewhere=tuple(change for change in followed.changes if change.pool.uid not in concerned),
        earlier=len(calm.changes) if calm is not None else 0,
        already=already,
        rests=followed.rests,
    )


def _as_current(snapshot: Snapshot, catalog: Catalog) -> Snapshot:
    """Give replicas that have today's shape today's revision too."""
    known = {pool.key.uid: pool for pool in snapshot.pools}
    renamed = {}
    for each in decide(snapshot, catalog).pools:
        old = known[each.key.uid].status
        same = old.plan is not None and each.status.plan is not None and old.plan.shape == each.status.plan.shape
        if same and old.revision != each.status.revision:
            renamed[each.key.uid] = old.revision, each.status.revision
    pools = tuple(
        _renamed(pool, *renamed[pool.key.uid]) if pool.key.uid in renamed else pool for pool in snapshot.pools
    )
    pods = tuple(
        _renamed_pod(pod, *renamed[pod.identity.pool_uid])
        if pod.identity is not None and pod.identity.pool_uid in renamed
        else pod
        for pod in snapshot.pods
    )
    return replace(snapshot, pools=pools, pods=pods)


def _renamed(pool: PoolRecord, old: str, new: str) -> PoolRecord:
    status = pool.status
    assignments = tuple(replace(each, revision=new) if each.revision == old else each for each in status.assignments)
    return replace(pool, status=replace(status, revision=new, assignments=assignments))


def _renamed_pod(pod: PodRecord, old: str, new: str) -> PodRecord:
    if pod.identity is None or pod.identity.revision != old:
        return pod
    return replace(pod, identity=replace(pod.identity, revision=new))


def _replicas_on(snapshot: Snapshot, nodes: Collection[str]) -> Iterator[tuple[ResourceKey, Assignment]]:
    """Yield the replicas on these nodes, by assignment; where another scheduler picked the nodes, by pods."""
    bound = {
        (pod.identity.pool_uid, pod.identity.replica)
        for pod in snapshot.pods
        if pod.identity is not None and pod.node in nodes
    }
    for pool in sorted(snapshot.pools, key=lambda pool: (pool.key.namespace, pool.key.name)):
        for each in pool.status.assignments:
            if not set(nodes).isdisjoint(each.nodes) or (pool.key.uid, each.replica) in bound:
                yield pool.key, each


def _staying(there: tuple[tuple[ResourceKey, Assignment], ...], followed: Followed) -> Iterator[Staying]:
    decided = {each.key.uid: each for each in followed.decisions.pools}
    short = {uid: each.status.desired_replicas - len(each.status.assignments) for uid, each in decided.items()}
    for key, assignment in there:
        decision = decided.get(key.uid)
        if decision is None:
            continue
        left = assignment.replica not in {each.replica for each in decision.status.assignments}
        if left and short[key.uid] < 1:
            continue
        short[key.uid] -= left
        placed = next(each.explanation for each in decision.conditions if each.kind == "Placed")
        yield Staying(key, assignment.replica, assignment.nodes, placed, left)


def _others(snapshot: Snapshot, nodes: Collection[str], catalog: Catalog) -> Iterator[tuple[str, int]]:
    known = {pool.key.uid for pool in snapshot.pools}
    for pod in sorted(snapshot.pods, key=lambda pod: (pod.namespace, pod.name)):
        ours = pod.identity is not None and pod.identity.pool_uid in known
        gpus = sum(count for resource, count in pod.requests if is_accelerator(resource, catalog))
        if not ours and pod.node in nodes and pod.holds_devices and gpus > 0:
            yield f"{pod.namespace}/{pod.name}", gpus


def _untouched(start: Snapshot, followed: Followed, concerned: Collection[str]) -> tuple[ResourceKey, ...]:
    changed = {change.pool.uid for change in followed.changes} | set(concerned)
    keys = (pool.key for pool in start.pools if pool.key.uid not in changed)
    return tuple(sorted(keys, key=lambda key: (key.namespace, key.name)))
