"""The ComputeDomain of a replica or a split, with which NVIDIA's driver lets pods share memory over NVLink."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from weft.domain import labels
from weft.render.metadata import child_metadata, pool_labels, split_labels
from weft.render.names import replica_name

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord, ResourceKey, SplitRecord
    from weft.domain.status import Assignment
    from weft.render.metadata import Json

COMPUTE_DOMAIN = ("resource.nvidia.com/v1beta1", "ComputeDomain")
CLAIM = "compute-domain"  # the name of a pod's claim


def render_compute_domain(pool: PoolRecord, replica: int) -> Json:
    """A replica's ComputeDomain, which waits for no number of nodes, as the engine's ranks find each other.

    Its spec is immutable, and no claim for one serves another, so it is created once and never repaired.
    """
    tags = {**pool_labels(pool), labels.REPLICA: str(replica)}
    return _rendered(compute_domain_name(pool.key, replica), pool.key, tags)


def render_shared_domain(split: SplitRecord, name: str) -> Json:
    """One ComputeDomain for all replicas of a generation of a split: nodes join and leave it with their pods."""
    tags = {**split_labels(split), labels.PAIR: name.removeprefix(_stem(split.key.name, split.key.uid))}
    return _rendered(name, split.key, tags)


def _rendered(name: str, owner: ResourceKey, tags: dict[str, str]) -> Json:
    """The ComputeDomain; the driver creates a template of the same name, so names are unique in a namespace."""
    api_version, kind = COMPUTE_DOMAIN
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": child_metadata(name, owner, tags),
        "spec": {
            "numNodes": 0,
            "channel": {"resourceClaimTemplate": {"name": name}, "allocationMode": "Single"},
        },
    }


def compute_domain_name(pool: ResourceKey, replica: int) -> str:
    """The name of a replica's own ComputeDomain."""
    return replica_name(pool, replica)


def shared_domain_name(split: str, split_uid: str, pair: str) -> str:
    """The name of the ComputeDomain that all replicas of a generation of a split share."""
    return f"{_stem(split, split_uid)}{pair}"


def domain_name_of(pool: ResourceKey, assignment: Assignment) -> str:
    """The name of a replica's ComputeDomain, shared or its own, and of the template for its pods' claims."""
    return assignment.shared_domain or compute_domain_name(pool, assignment.replica)


def domain_owner_of(pool: PoolRecord, assignment: Assignment) -> str | None:
    """The UID of the owner of a replica's ComputeDomain: the split if its halves share one, else the pool."""
    return pool.split_uid if assignment.shared_domain else pool.key.uid


def shared_by(pool: PoolRecord, pair: str) -> str | None:
    """The name of the ComputeDomain that both halves of a split share; None for a standalone pool."""
    if pool.split_uid is None or not pair:
        return None
    return shared_domain_name(_split_of(pool), pool.split_uid, pair)


def is_of(pool: PoolRecord, name: str) -> bool:
    """Whether `namespace/name` is the ComputeDomain of a replica of this pool, or of its split."""
    own = f"{pool.key.namespace}/{replica_name(pool.key, 0).removesuffix('0')}"
    if name.startswith(own) and name.removeprefix(own).isdecimal():
        return True
    return pool.split_uid is not None and name.startswith(
        f"{pool.key.namespace}/{_stem(_split_of(pool), pool.split_uid)}"
    )


def _split_of(pool: PoolRecord) -> str:
    return pool.key.name.rpartition("-")[0]


def _stem(split: str, split_uid: str) -> str:
    return f"{split}-{hashlib.sha256(split_uid.encode()).hexdigest()[:5]}-nvlink-"
