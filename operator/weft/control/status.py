"""Whether a status has to be written: only the fields of its manager are looked at, and only if one differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]


def needs_write(live: Json, wanted: Json, owned: Iterable[str], owned_conditions: Iterable[str]) -> bool:
    """Whether the live status lacks what is wanted, or has a field or condition of this manager that no longer is.

    `owned` and `owned_conditions` name everything that the manager may ever write.
    """
    fields = {name for name in owned if name != "conditions"}
    if any(_normal(live.get(name)) != _normal(wanted.get(name)) for name in fields):
        return True
    kinds = set(owned_conditions)
    return _conditions(live, kinds) != _conditions(wanted, kinds)


def _conditions(status: Json, kinds: set[str]) -> dict[str, Json]:
    """Conditions by type, without the time of their transition, which follows from the rest."""
    return {
        condition["type"]: {key: value for key, value in condition.items() if key != "lastTransitionTime"}
        for condition in status.get("conditions") or ()
        if condition["type"] in kinds
    }


def _normal(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Nothing, empty and absent are the same to the API server."""
    if isinstance(value, dict):
        return {key: _normal(inner) for key, inner in value.items() if inner not in (None, [], {})} or None
    if isinstance(value, list):
        return [_normal(inner) for inner in value] or None
    return value
