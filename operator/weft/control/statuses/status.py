"""Whether a status has to be written: something is missing or different, or is left over.

What is left over follows from what this manager wrote before, which the object says in its managed fields; two
managers share one status, and some of its maps.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

LIST_KEYS = {"conditions": "type", "assignments": "replica"}  # lists that the API server treats as maps


def needs_write(body: Json, wanted: Json, manager: str) -> bool:
    """Whether applying `wanted` as this manager would change the status of the object."""
    live = body.get("status") or {}
    return not _contains(live, wanted) or _owns_more(_owned_by(body, manager), wanted)


def _contains(live: Json, wanted: Json) -> bool:
    """Whether every wanted field has its wanted value."""
    return all(_same(name, live.get(name), value) for name, value in wanted.items())


def _same(name: str, live: Any, wanted: Any) -> bool:  # noqa: ANN401 - any JSON
    if isinstance(wanted, dict):
        return isinstance(live, dict) and _contains(live, wanted)
    if name in LIST_KEYS and isinstance(wanted, list):
        known = {item[LIST_KEYS[name]]: item for item in live or ()}
        return all(_same("", known.get(item[LIST_KEYS[name]]), item) for item in wanted)
    if wanted == [] and live is None:
        return True
    return bool(live == wanted)


def _owned_by(body: Json, manager: str) -> Json:
    """The fields of the status that the manager applied, from the object's managed fields."""
    for entry in body["metadata"].get("managedFields") or ():
        if entry.get("manager") == manager and entry.get("subresource") == "status":
            owned: Json = (entry.get("fieldsV1") or {}).get("f:status") or {}
            return owned
    return {}


def _owns_more(owned: Json, wanted: Json) -> bool:
    """Whether the manager owns a field or list item that is no longer wanted."""
    return any(_is_left_over(name, inner, wanted) for name, inner in _fields(owned))


def _is_left_over(name: str, inner: Json, wanted: Json) -> bool:
    value = wanted.get(name)
    if value is None:
        return True
    if isinstance(value, list) and name in LIST_KEYS:
        kept = {item[LIST_KEYS[name]] for item in value}
        return any(key.get(LIST_KEYS[name]) not in kept for key in _item_keys(inner))
    return isinstance(value, dict) and _owns_more(inner, value)


def _fields(owned: Json) -> Iterator[tuple[str, Json]]:
    return ((name.removeprefix("f:"), inner) for name, inner in owned.items() if name.startswith("f:"))


def _item_keys(owned: Json) -> Iterator[Json]:
    return (json.loads(name.removeprefix("k:")) for name in owned if name.startswith("k:"))
