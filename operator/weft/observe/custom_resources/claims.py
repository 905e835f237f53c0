"""Owners that objects claim in another namespace: by such a claim they own nothing.

Anybody may create an object that names any UID as its owner. Kubernetes knows owners in the object's own namespace
only, and deletes it in the end, unless a finalizer keeps it. Until then it would count as a replica of a pool, or as
a half of a split, of somebody else: what they run would be taken for broken, and Weft would write where it has no
business.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.domain.cluster import PodRecord
    from weft.domain.snapshot import PoolRecord

    Json = dict[str, Any]


def of_no_foreign_pool(pods: tuple[PodRecord, ...], pools: Iterable[PoolRecord]) -> tuple[PodRecord, ...]:
    """The pods, of which those that claim a pool of another namespace belong to none; the same tuple without any."""
    homes = {pool.key.uid: pool.key.namespace for pool in pools}
    if all(_is_at_home(pod, homes) for pod in pods):
        return pods
    return tuple(pod if _is_at_home(pod, homes) else replace(pod, identity=None) for pod in pods)


def of_no_foreign_split(pools: tuple[PoolRecord, ...], splits: Iterable[Json]) -> tuple[PoolRecord, ...]:
    """The pools, of which those that claim a split of another namespace are no half; `splits` are bodies."""
    homes = {str(each["metadata"]["uid"]): str(each["metadata"]["namespace"]) for each in splits}
    return tuple(
        each
        if homes.get(each.split_uid or "", each.key.namespace) == each.key.namespace
        else replace(each, split_uid=None)
        for each in pools
    )


def _is_at_home(pod: PodRecord, homes: Mapping[str, str]) -> bool:
    return pod.identity is None or homes.get(pod.identity.pool_uid, pod.namespace) == pod.namespace
