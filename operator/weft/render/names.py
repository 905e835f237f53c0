"""Names of children. All follow from the resource's name and UID, so that a repeated create hits the same object."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.snapshot import ResourceKey

PORT = 8000
_PLACE = re.compile(r"(?P<replica>0|[1-9][0-9]*)-(?P<rank>0|[1-9][0-9]*)")


def pod_name(pool: ResourceKey, replica: int, rank: int) -> str:
    """`{pool}-{first 5 hex of sha256(pool UID)}-{replica}-{rank}`."""
    return f"{pool.name}-{host_name(pool, replica, rank)}"


def replica_name(pool: ResourceKey, replica: int) -> str:
    """A name for all pods of a replica: the pod name without a rank, short enough for a label value."""
    return pod_name(pool, replica, 0).removesuffix("-0")


def host_name(pool: ResourceKey, replica: int, rank: int) -> str:
    """The pod's name without the pool's, which may be too long for a host name."""
    return f"{_mark(pool.uid)}-{replica}-{rank}"


def _mark(pool_uid: str) -> str:
    return hashlib.sha256(pool_uid.encode()).hexdigest()[:5]


def place_in_name(pool: str, pool_uid: str, name: str) -> tuple[int, int] | None:
    """Replica and rank from a pod's name; None if the pool does not give such a name."""
    start = f"{pool}-{_mark(pool_uid)}-"
    found = _PLACE.fullmatch(name.removeprefix(start)) if name.startswith(start) else None
    return (int(found["replica"]), int(found["rank"])) if found is not None else None


def ranks_service_name(pool: ResourceKey) -> str:
    """The headless Service by which the pods of one replica find each other."""
    return f"{pool.name}-ranks"


def leader_host(pool: ResourceKey, replica: int) -> str:
    """The DNS name of a replica's first pod, short enough for any cluster domain."""
    return f"{host_name(pool, replica, 0)}.{ranks_service_name(pool)}.{pool.namespace}.svc"


def front_name(owner: ResourceKey, of: str = "") -> str:
    """The name of a managed router's Deployment: one per pool, or one per pair of halves of a split.

    `of` is that pair, or the engine of a second router of a pool.
    """
    return f"{owner.name}-front-{of}" if of else f"{owner.name}-front"


def service_url(owner: ResourceKey) -> str:
    """The URL to which clients inside the cluster send requests."""
    return f"http://{owner.name}.{owner.namespace}.svc:{PORT}"
