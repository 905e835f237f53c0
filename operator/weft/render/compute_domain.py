"""The ComputeDomain of a replica, by which NVIDIA's driver lets its pods share memory over NVLink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain import labels
from weft.render.metadata import child_metadata, pool_labels
from weft.render.names import replica_name

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord, ResourceKey
    from weft.render.metadata import Json

COMPUTE_DOMAIN = ("resource.nvidia.com/v1beta1", "ComputeDomain")
CLAIM = "compute-domain"  # what a pod calls its claim


def render_compute_domain(pool: PoolRecord, replica: int) -> Json:
    """One that waits for no number of nodes: the engine's ranks find each other, and the driver is told to count none.

    Its spec cannot be changed, and no claim made for one serves another, so it is created once and never mended.
    """
    name = compute_domain_name(pool.key, replica)
    tags = {**pool_labels(pool), labels.REPLICA: str(replica)}
    template = {"name": claim_template_name(pool.key, replica)}
    api_version, kind = COMPUTE_DOMAIN
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": child_metadata(name, pool.key, tags),
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": template, "allocationMode": "Single"}},
    }


def compute_domain_name(pool: ResourceKey, replica: int) -> str:
    """That of the replica."""
    return replica_name(pool, replica)


def claim_template_name(pool: ResourceKey, replica: int) -> str:
    """The ResourceClaimTemplate that the driver makes: no two ComputeDomains of a namespace may name the same."""
    return replica_name(pool, replica)


def is_of(pool: ResourceKey, name: str) -> bool:
    """Whether `namespace/name` is the ComputeDomain of some replica of a pool."""
    stem = f"{pool.namespace}/{replica_name(pool, 0).removesuffix('0')}"
    return name.startswith(stem) and name.removeprefix(stem).isdecimal()
