"""What a structural schema of a CustomResourceDefinition finds wrong with an object, without an API server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
SIZES = {"object": "Properties", "array": "Items", "string": "Length"}


def faults(schema: Json, value: Any, at: str = "") -> list[str]:  # noqa: ANN401 - any JSON
    """Each fault with its path: types, bounds, patterns, fields that are missing or unknown. No CEL is evaluated."""
    kind = schema["type"]
    if not isinstance(value, TYPES[kind]) or (kind == "integer" and isinstance(value, bool)):
        return [f"{at}: is no {kind}"]
    return [*_of_bounds(schema, value, at), *_of_members(schema, value, at)]


def _of_bounds(schema: Json, value: Any, at: str) -> Iterator[str]:  # noqa: ANN401 - any JSON
    size = len(value) if schema["type"] in SIZES else value
    suffix = SIZES.get(schema["type"])
    least, most = (f"min{suffix}", f"max{suffix}") if suffix else ("minimum", "maximum")
    if size < schema.get(least, size) or size > schema.get(most, size):
        yield f"{at}: {size} is out of bounds"
    if value not in schema.get("enum", [value]):
        yield f"{at}: {value} is not in the enum"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{at}: {value} does not match"


def _of_members(schema: Json, value: Any, at: str) -> Iterator[str]:  # noqa: ANN401 - any JSON
    if schema["type"] == "array":
        for index, item in enumerate(value):
            yield from faults(schema["items"], item, f"{at}/{index}")
    if schema["type"] != "object":
        return
    known = schema.get("properties", {})
    yield from (f"{at}/{name}: is missing" for name in schema.get("required", ()) if name not in value)
    for name, member in value.items():
        inner = known.get(name, schema.get("additionalProperties"))
        if inner is not None:
            yield from faults(inner, member, f"{at}/{name}")
        elif known and not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield f"{at}/{name}: is unknown"
