"""ComputeDomains of replicas and splits: created before their pods, deleted after the last, not replaced under them.

A claim names the ComputeDomain that it was made for by UID. A new one would serve no pod that has a claim already, so
deciding ends a replica that lost its own (`ComputeDomainDeleted`). Both pools of a split share that of a generation, so
the split owns it: neither pool could tell whether the other still needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.action import ApplyObject, DeleteObject
from weft.render import (
    COMPUTE_DOMAIN,
    compute_domain_name,
    domain_name_of,
    domain_owner_of,
    render_shared_domain,
    shared_domain_name,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from weft.converge.children import SideState
    from weft.converge.objects import ObjectsAround
    from weft.converge.replicas import Replica
    from weft.domain.action import Action
    from weft.domain.cluster import ObjectRecord
    from weft.domain.snapshot import PoolRecord, SplitRecord
    from weft.domain.status import Assignment


def compute_domain_for(pool: PoolRecord, assignment: Assignment, around: ObjectsAround) -> ObjectRecord | None:
    """The ComputeDomain of a replica, even while it is being deleted: its name is free only once it is gone."""
    record = around.found.get((*COMPUTE_DOMAIN, domain_name_of(pool.key, assignment)))
    return record if record is not None and record.owner_uid == domain_owner_of(pool, assignment) else None


def shared_domains(split: SplitRecord, sides: Sequence[SideState], around: ObjectsAround) -> Iterator[Action]:
    """Create the ComputeDomain of each generation whose KV goes over NVLink, and delete it once nothing uses it.

    While a replica has pods, a ComputeDomain that is gone is not created again: the pods' claims name the old one, so
    deciding ends the replica first.
    """
    replicas = [replica for side in sides for replica in side.replicas]
    sharing = [(name, replica) for replica in replicas if (name := _shared_name(replica))]
    claimed = {name for name, replica in sharing if replica.complete or replica.pods}
    for name in sorted({name for name, _ in sharing} - claimed):
        if around.mine(*COMPUTE_DOMAIN, name) is None:
            yield ApplyObject(render_shared_domain(split, name))
    if all(side.pool is not None for side in sides):
        pairs = {pod.pair for replica in replicas for pod in replica.pods}
        left = {shared_domain_name(split.key.name, split.key.uid, pair) for pair in pairs}
        yield from _delete_but({name for name, _ in sharing} | left, around)


def _shared_name(replica: Replica) -> str:
    """The name of the ComputeDomain that an assigned replica shares with the other half; empty where there is none."""
    return replica.assignment.shared_domain if replica.assignment is not None else ""


def delete_left_over(replicas: Iterable[Replica], around: ObjectsAround) -> Iterator[Action]:
    """Delete the ComputeDomains of a pool whose replica has neither an assignment nor a pod any more."""
    return _delete_but({compute_domain_name(around.owner, replica.number) for replica in replicas}, around)


def _delete_but(needed: Collection[str], around: ObjectsAround) -> Iterator[Action]:
    for (version, kind, name), record in around.ours():
        if (version, kind) == COMPUTE_DOMAIN and name not in needed:
            yield DeleteObject(version, kind, record.namespace, name, record.uid)
