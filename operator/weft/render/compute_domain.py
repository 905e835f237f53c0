"""The ComputeDomain of a replica, or of a split, by which NVIDIA's driver lets pods share memory over NVLink."""

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
CLAIM = "compute-domain"  # what a pod calls its claim


def render_compute_domain(pool: PoolRecord, replica: int) -> Json:
    """One that waits for no number of nodes: the engine's ranks find each other, and the driver is told to count none.

    Its spec cannot be changed, and no claim made for one serves another, so it is created once and never mended.
    """
    tags = {**pool_labels(pool), labels.REPLICA: str(replica)}
    return _rendered(compute_domain_name(pool.key, replica), pool.key, tags)


def render_shared_domain(split: SplitRecord, name: str) -> Json:
    """One for all replicas of a generation: nodes join it with their pods and leave it with them, while it serves."""
    tags = {**split_labels(split), labels.PAIR: name.removeprefix(_stem(split.key.name, split.key.uid))}
    return _rendered(name, split.key, tags)


def _rendered(name: str, owner: ResourceKey, tags: dict[str, str]) -> Json:
    """The driver makes a template of the same name: no two ComputeDomains of a namespace may name the same."""
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
    """The name of a replica's ComputeDomain, its split's or its own, and of the template that its pods claim by."""
    return assignment.shared_domain or compute_domain_name(pool, assignment.replica)


def domain_owner_of(pool: PoolRecord, assignment: Assignment) -> str | None:
    """UID of whose it is: its split's where both halves share one, and else its pool's."""
    return pool.split_uid if assignment.shared_domain else pool.key.uid


def shared_by(pool: PoolRecord, pair: str) -> str | None:
    """The one that replicas of a half share with the other, where they do; None for a pool of its own."""
    if pool.split_uid is None or not pair:
        return None
    return shared_domain_name(_split_of(pool), pool.split_uid, pair)


def is_of(pool: PoolRecord, name: str) -> bool:
    """Whether `namespace/name` is the ComputeDomain of some replica of a pool, or of its split."""
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
