"""Who reverts our changes of an object, and which fields, according to its managed fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.domain import labels
from weft.domain.errors import Blocked
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.apply.sending import Json
    from weft.domain.action import ApplyObject

MOST_FIELDS = 3  # named in the message
_OURS = frozenset({labels.CONVERGE_MANAGER, labels.DECIDE_MANAGER, labels.SEED_MANAGER})


def contested(action: ApplyObject, live: Json) -> Blocked:
    """Why an object is no longer re-applied at once; the message changes only with the contested fields.

    `live` is the object before the apply that was last undone.
    """
    body, meta = action.body, action.body["metadata"]
    name, who = f"{body['kind']} {meta['namespace']}/{meta['name']}", _by_whom(body, live)
    told = f"{name} is changed back by {who} after each apply: stop it from changing the object"
    return Blocked(Reason.ChildReverted, f"{told}; Weft retries less and less often, at least every five minutes")


def _by_whom(body: Json, live: Json) -> str:
    """The managers that own fields we render, and the fields; else the last writer, as removed fields have no owner."""
    others = [each for each in live["metadata"].get("managedFields") or () if _is_rival(each)]
    held = {str(each.get("manager")): list(_fought(each.get("fieldsV1") or {}, body, live)) for each in others}
    found = [f"{name} ({', '.join(fields[:MOST_FIELDS])})" for name, fields in sorted(held.items()) if fields]
    if found:
        return " and ".join(found)
    last = max(others, key=lambda each: str(each.get("time")), default=None)
    return str(last.get("manager")) if last is not None else "somebody"


def _is_rival(entry: Json) -> bool:
    """Whether a managed fields entry is somebody else's; the subresource `scale` counts, as it writes the spec."""
    return entry.get("manager") not in _OURS and entry.get("subresource") != "status"


def _fought(owned: Json, wanted: Any, live: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401 - any JSON
    """Paths of fields that we render, somebody else owns, and whose values differ from ours.

    A list counts as one field, and so does a map with one owner, such as the selector of a Service.
    """
    for key, inner in owned.items():
        name = key.removeprefix("f:")
        if name == key or not isinstance(wanted, dict) or name not in wanted:
            continue
        there, here = wanted[name], live.get(name) if isinstance(live, dict) else None
        if isinstance(there, dict) and inner:
            yield from _fought(inner, there, here, f"{path}{name}.")
        elif there != here:
            yield f"{path}{name}"
