"""Whose an object is that has the name of one of ours, in words for its user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.domain import labels
from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.render.metadata import Json

NOBODY: Mapping[str, Any] = {}


def why_taken(found: Json, wanted: Json) -> Explanation:
    """Why the object that has the name of a rendered one is not changed, and what ends that.

    `found` needs a kind and metadata. Its controller is another one than that of `wanted`, or none.
    """
    meta, has, ours = found["metadata"], _controller(found), _controller(wanted)
    name, owner = f"{found['kind']} {meta['namespace']}/{meta['name']}", f"{ours.get('kind')}/{ours.get('name')}"
    if has and (has.get("kind"), has.get("name")) == (ours.get("kind"), ours.get("name")):
        told = f"belongs to an earlier {owner}: Kubernetes deletes it as that is gone, and Weft then makes its own"
    elif not has and (meta.get("labels") or {}).get(labels.MANAGED_BY) == labels.MANAGED_BY_WEFT:
        told = "has lost its owner reference, so Weft leaves it alone: delete it, and Weft makes it anew"
    elif has:
        told = f"belongs to {has.get('kind')}/{has.get('name')}, so Weft leaves it alone: give {owner} another name"
    else:
        told = f"does not belong to {owner}, so Weft leaves it alone: delete it, or give {owner} another name"
    return Explanation(Reason.NameTaken, f"{name} {told}")


def _controller(body: Json) -> Mapping[str, Any]:
    owners = body["metadata"].get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller")), NOBODY)
