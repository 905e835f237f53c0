"""The two complete pools inside a PDSplit's spec: what both share, with each side's overrides laid over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.api.rules import Json
    from weft.domain.workload import Role


def side_body(common: Json, override: Json, role: Role) -> Json:
    """The spec of one child pool as plain JSON, not yet validated. In External mode it starts at its least replicas.

    A child has no front of its own; of the split's it has the key, which its engines then ask for themselves.
    """
    key = {"apiKeySecretRef": common["router"]["apiKeySecretRef"]} if "apiKeySecretRef" in common["router"] else {}
    body: Json = {**laid_over(common, override), "role": role.value, "router": {**key, "type": "None"}}
    scaling = body["scaling"]
    if isinstance(scaling, dict) and scaling.get("mode") == "External":
        body["scaling"] = scaling | {"replicas": scaling.get("minReplicas", 1)}
    return body


def leaves(override: Json, above: str = "") -> Iterator[str]:
    """Paths of what an override sets, such as `shape.tensorParallel`."""
    for key, value in override.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}"


def laid_over(common: Any, override: Any) -> Any:  # noqa: ANN401 - any JSON
    """Objects field by field, lists with names name by name; anything else is replaced. The inputs stay as they are."""
    if isinstance(common, dict) and isinstance(override, dict):
        keys = [*common, *(key for key in override if key not in common)]
        return {key: _member(common, override, key) for key in keys}
    if _has_names(common) and _has_names(override):
        named = {item["name"]: item for item in (*common, *override)}
        return list(named.values())
    return override


def _member(common: Json, override: Json, key: str) -> Any:  # noqa: ANN401 - any JSON
    if key not in override:
        return common[key]
    return laid_over(common[key], override[key]) if key in common else override[key]


def _has_names(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, dict) and isinstance(item.get("name"), str) for item in value
    )
