"""Which pool and replica a pod belongs to, by its controller and name: labels can be edited, those cannot.

Pure: no client types, no IO.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.domain import labels
from weft.domain.cluster import PodIdentity
from weft.render import place_in_name, told_by_name

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]
NOBODY: Json = {}


@dataclass(frozen=True, slots=True)
class Identified:
    """The replica that a pod belongs to, and identifying labels that differ from what its name says (`mislabelled`)."""

    identity: PodIdentity
    mislabelled: tuple[tuple[str, str], ...] = ()


def identify(meta: Json) -> Identified | None:
    """Identify a pod controlled by one of our pools by its name, else by its labels; None for others."""
    tags, owner = meta.get("labels") or {}, _controller(meta)
    uid, pool, name = str(owner.get("uid") or ""), str(owner.get("name") or ""), str(meta.get("name") or "")
    if not uid:
        return None
    place = place_in_name(pool, uid, name)
    if place is None:
        return _by_labels(tags, uid)
    identity = PodIdentity(uid, *place, _revision(tags))
    told = told_by_name(pool, uid, *place)
    return Identified(identity, tuple((key, value) for key, value in told.items() if tags.get(key) != value))


def _by_labels(tags: Mapping[str, Any], uid: str) -> Identified | None:
    """Identify a pod by labels; they and the controller must agree on the UID."""
    if tags.get(labels.POOL_UID) != uid:
        return None
    try:
        return Identified(PodIdentity(uid, int(tags[labels.REPLICA]), int(tags[labels.RANK]), _revision(tags)))
    except (KeyError, ValueError):
        return None


def _revision(tags: Mapping[str, Any]) -> str:
    return str(tags.get(labels.REVISION, ""))


def controller_uid(meta: Json) -> str | None:
    """The UID of our resource that controls the object, or None."""
    uid = _controller(meta).get("uid")
    return str(uid) if uid else None


def _controller(meta: Json) -> Json:
    """The owner reference to our resource that controls the object; empty without one."""
    for owner in filter(None, meta.get("ownerReferences") or ()):
        of_ours = str(owner.get("apiVersion", "")).startswith(f"{labels.GROUP}/")
        if of_ours and owner.get("controller") and owner.get("uid"):
            found: Json = owner
            return found
    return NOBODY
