"""Metadata of our objects: labels, owners, and the hash by which a later pass recognizes its own rendering."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from weft.domain import labels

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord, ResourceKey, SplitRecord

Json = dict[str, Any]


def owner_reference(owner: ResourceKey) -> Json:
    """The controller reference, on which garbage collection and our own UID checks depend."""
    return {
        "apiVersion": labels.API_VERSION,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
    }


def pool_labels(pool: PoolRecord) -> dict[str, str]:
    """Labels of all objects below a pool."""
    found = {labels.MANAGED_BY: labels.MANAGED_BY_WEFT, labels.POOL: pool.key.name, labels.POOL_UID: pool.key.uid}
    if pool.spec is None:
        return found
    role = pool.spec.role.value.lower()
    found[labels.ROLE] = role
    if pool.split_uid is not None:
        found[labels.SPLIT] = pool.key.name.removesuffix(f"-{role}")
    return found


def split_labels(split: SplitRecord) -> dict[str, str]:
    """Labels of all objects that a split owns itself."""
    return {labels.MANAGED_BY: labels.MANAGED_BY_WEFT, labels.SPLIT: split.key.name}


def child_metadata(name: str, owner: ResourceKey, tags: dict[str, str]) -> Json:
    """Metadata of an object that one of our resources controls."""
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": tags,
        "ownerReferences": [owner_reference(owner)],
    }


def signed(body: Json) -> Json:
    """The object annotated with the hash of its rendering: comparing fields alone would miss those we removed."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    meta = body["metadata"]
    notes = {**meta.get("annotations", {}), labels.APPLIED: digest}
    return {**body, "metadata": {**meta, "annotations": notes}}
