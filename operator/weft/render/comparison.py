"""The subset rule: an observed object matches if every field that we render has our value."""

from __future__ import annotations

from typing import Any

from weft.domain.errors import Invalid
from weft.domain.texts.units import parse_quantity

_QUANTITIES = {"requests", "limits", "sizeLimit"}
_SELECTOR = "selector"


def has_all_of(observed: Any, wanted: Any, field: str = "") -> bool:  # noqa: ANN401 - any JSON value
    """Whether `observed` has everything in `wanted`; below `field`, quantities are compared as numbers.

    A selector is compared as a whole: with one more label it selects other pods, or none.
    """
    if isinstance(wanted, dict) and field != _SELECTOR:
        return isinstance(observed, dict) and all(
            key in observed and has_all_of(observed[key], value, field if field in _QUANTITIES else key)
            for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(observed, list) and _list_has(observed, wanted, field)
    return bool(observed == wanted) or (field in _QUANTITIES and _same_quantity(observed, wanted))


def surplus(observed: Any, wanted: Any, at: str = "") -> tuple[str, ...]:  # noqa: ANN401 - any JSON value
    """JSON pointers to what `observed` has beyond `wanted`, the last items of lists first.

    Only for objects of which we render every field that has a default. List items are identified by name, plain values
    by themselves; other lists, and those with a name twice, are replaced as a whole by an apply.
    """
    if isinstance(observed, dict) and isinstance(wanted, dict):
        return tuple(found for key, value in sorted(observed.items()) for found in _member(value, wanted, key, at))
    if isinstance(observed, list) and isinstance(wanted, list) and _each_once([_identity(item) for item in observed]):
        known = {_identity(item): item for item in wanted}
        backwards = reversed(list(enumerate(observed)))
        return tuple(
            found for index, item in backwards for found in _item(item, known.get(_identity(item)), f"{at}/{index}")
        )
    return ()


def _member(value: Any, wanted: dict[str, Any], key: str, at: str) -> tuple[str, ...]:  # noqa: ANN401 - any JSON value
    here = f"{at}/{key.replace('~', '~0').replace('/', '~1')}"
    return surplus(value, wanted[key], here) if key in wanted else (here,)


def _item(item: Any, known: Any, at: str) -> tuple[str, ...]:  # noqa: ANN401 - any JSON value
    return (at,) if known is None else surplus(item, known, at)


def _identity(item: Any) -> str | None:  # noqa: ANN401 - any JSON value
    if isinstance(item, dict):
        return item.get("name")
    return None if isinstance(item, list) else repr(item)


def _each_once(names: list[str | None]) -> bool:
    return None not in names and len(set(names)) == len(names)


def _all_named(items: list[Any]) -> bool:
    """Whether names are unique in a list; they are not for parents of a route that are listeners of one Gateway."""
    return bool(items) and _each_once([item.get("name") if isinstance(item, dict) else None for item in items])


def _list_has(observed: list[Any], wanted: list[Any], field: str) -> bool:
    """Whether a list has all wanted items: named ones in any order, as others may add theirs, else item by item."""
    named = {item["name"]: item for item in observed if isinstance(item, dict) and "name" in item}
    if _all_named(wanted) and len(named) == sum(isinstance(item, dict) and "name" in item for item in observed):
        return all(has_all_of(named.get(item["name"]), item, field) for item in wanted)
    return len(observed) == len(wanted) and all(
        has_all_of(there, here, field) for there, here in zip(observed, wanted, strict=True)
    )


def _same_quantity(one: object, other: object) -> bool:
    try:
        return parse_quantity(str(one)) == parse_quantity(str(other))
    except Invalid:
        return False
