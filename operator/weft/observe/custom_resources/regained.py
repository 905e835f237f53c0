"""Replicas that a status has lost, restored from the pods that run them.

A status may be wiped, replaced by hand or restored from an old backup while replicas serve. Each has an id that the
status considers unused (`nextReplica`), which no decision leaves behind: decided on as it is, all of them would be
drained at once, and their ids given to others.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.catalog import load
from weft.domain.status import Assignment, ComputeDomain
from weft.fabric.devices import is_accelerator
from weft.render import compute_domain_name, pod_name, shared_by

MOST_IDS = 2**31  # 68 years of a new replica each second: only a stranger's pod has such an id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from weft.domain.cluster import PodRecord
    from weft.domain.reports import Reports
    from weft.domain.snapshot import PoolRecord

    _Owners = Mapping[str, str | None]  # of ComputeDomains, by namespace/name


def regained(
    pools: Iterable[PoolRecord], pods: Mapping[str, Sequence[PodRecord]], reports: Reports
) -> tuple[PoolRecord, ...]:
    """Pools with all their replicas; `pods` are by UID of the pool, with or without those of routers."""
    owners = {str(each): each.owner_uid for each in reports.compute_domains if not each.terminating}
    return tuple(_regained(pool, pods.get(pool.key.uid, ()), owners) for pool in pools)


def _regained(pool: PoolRecord, pods: Sequence[PodRecord], owners: _Owners) -> PoolRecord:
    """The pool with its lost replicas; the desired number is at least that of replicas, as it may be lost, too."""
    lost = _unknown(pool, pods)
    if not lost or pool.deleting:
        return pool
    widths = _widths(pool, lost)
    found = [_read_back(pool, lost[replica], widths, owners) for replica in sorted(lost)]
    assignments = (*pool.status.assignments, *(each for each in found if each is not None))
    there = {pod.identity.replica for pod in pods if pod.identity is not None}
    status = replace(
        pool.status,
        next_replica=max(lost) + 1,
        assignments=assignments,
        desired_replicas=max(pool.status.desired_replicas, sum(each.replica in there for each in assignments)),
    )
    return replace(pool, status=status)


def _unknown(pool: PoolRecord, pods: Iterable[PodRecord]) -> dict[int, list[PodRecord]]:
    """Pods by replica, in order of rank, of replicas that the status says were never assigned.

    Labels can be edited, names cannot. But whoever may create pods chooses their names, even with an id for which no
    status has room as the next one.
    """
    found: dict[int, list[PodRecord]] = defaultdict(list)
    for pod in pods:
        mine = pod.identity
        if mine is None or not pool.status.next_replica <= mine.replica < MOST_IDS:
            continue
        if pod.name == pod_name(pool.key, mine.replica, mine.rank):
            found[mine.replica].append(pod)
    return {replica: sorted(together, key=lambda pod: pod.rank) for replica, together in found.items()}


def _revision(pod: PodRecord) -> str:
    return pod.identity.revision if pod.identity is not None else ""


def _widths(pool: PoolRecord, lost: Mapping[int, Sequence[PodRecord]]) -> dict[str, int]:
    """Pods per replica, by revision: all replicas of one revision have as many, whether known or lost."""
    widths: dict[str, int] = defaultdict(int, {each.revision: each.pods for each in pool.status.assignments})
    for pod in (pod for together in lost.values() for pod in together):
        widths[_revision(pod)] = max(widths[_revision(pod)], pod.rank + 1)
    return widths


def _read_back(
    pool: PoolRecord, pods: Sequence[PodRecord], widths: Mapping[str, int], owners: _Owners
) -> Assignment | None:
    """The assignment of a complete replica that stays; None if it has yet to start, has ended or leaves."""
    first, nodes = pods[0], tuple(pod.node for pod in pods if pod.node is not None)
    whole = [pod.rank for pod in pods] == [*range(widths[_revision(first)])] and len(nodes) == len(pods)
    gpus = sum(count for name, count in first.requests if is_accelerator(name, load()))
    if not whole or gpus == 0 or not all(map(_stays, pods)):
        return None
    replica = first.identity.replica if first.identity is not None else 0
    domain = _compute_domain(pool, first, replica, owners)
    shared = None if domain is None else ComputeDomain(("",) * len(nodes), domain)
    since = min(pod.created for pod in pods)
    return Assignment(replica, _revision(first), nodes, gpus, since, complete=True, compute_domain=shared)


def _stays(pod: PodRecord) -> bool:
    """Whether a pod's engine runs or starts, and it was not taken out of routing."""
    over = pod.terminating or pod.ended or pod.failure is not None
    return not (over or pod.gated or pod.queued or pod.unrouted is not None)


def _compute_domain(pool: PoolRecord, pod: PodRecord, replica: int, owners: _Owners) -> str | None:
    """The name of the ComputeDomain that a replica shares with its split, empty if it has its own, None without any."""
    own, shared = compute_domain_name(pool.key, replica), shared_by(pool, pod.pair)
    if owners.get(f"{pool.key.namespace}/{own}") == pool.key.uid:
        return ""
    there = shared is not None and owners.get(f"{pool.key.namespace}/{shared}") == pool.split_uid
    return shared if there else None
