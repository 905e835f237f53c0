"""The subset rule: an observed object matches when every field that we render has our value."""

from __future__ import annotations

from typing import Any

from weft.domain.errors import Invalid
from weft.domain.units import parse_quantity

_QUANTITIES = {"requests", "limits", "sizeLimit"}


def has_all_of(observed: Any, wanted: Any, field: str = "") -> bool:  # noqa: ANN401 - any JSON value
    """Whether `observed` holds everything in `wanted`; below `field` quantities are compared as numbers."""
    if isinstance(wanted, dict):
        return isinstance(observed, dict) and all(
            key in observed and has_all_of(observed[key], value, field if field in _QUANTITIES else key)
            for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(observed, list) and _list_has(observed, wanted, field)
    return bool(observed == wanted) or (field in _QUANTITIES and _same_quantity(observed, wanted))


def _list_has(observed: list[Any], wanted: list[Any], field: str) -> bool:
    """Named items are found by name, because others may add theirs; the rest has to agree one by one."""
    if all(isinstance(item, dict) and "name" in item for item in wanted):
        named = {item.get("name"): item for item in observed if isinstance(item, dict)}
        return all(has_all_of(named.get(item["name"]), item, field) for item in wanted)
    return len(observed) == len(wanted) and all(
        has_all_of(there, here, field) for there, here in zip(observed, wanted, strict=True)
    )


def _same_quantity(one: object, other: object) -> bool:
    try:
        return parse_quantity(str(one)) == parse_quantity(str(other))
    except Invalid:
        return False
