"""JSON schema of pydantic -> a structural schema, as a CustomResourceDefinition requires it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.api.rules import VALIDATIONS
from weft.api.split import OVERRIDE

if TYPE_CHECKING:
    from weft.api.rules import ApiModel, Json

_COPIED = (
    "type",
    "description",
    "format",
    "pattern",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    VALIDATIONS,
)
"""Keywords that mean the same in both; everything else is either translated below or pydantic's own business."""


def structural_schema(model: type[ApiModel]) -> Json:
    """Schema of one object, without references, nulls, titles or `additionalProperties: false`."""
    whole = model.model_json_schema(by_alias=True)
    return _Translation(whole.get("$defs", {})).schema(whole, with_defaults=True)


class _Translation:
    """One walk over a schema; it only remembers where references point."""

    def __init__(self, definitions: dict[str, Json]) -> None:
        self._definitions = definitions

    def schema(self, node: Json, *, with_defaults: bool) -> Json:
        node = self._resolved(node)
        with_defaults = with_defaults and OVERRIDE not in node
        structural: Json = {key: node[key] for key in _COPIED if key in node}
        if not with_defaults and "description" in node:
            structural["description"] = _first_sentence(node["description"])
        if "const" in node:
            structural["enum"] = [node["const"]]
        if with_defaults and node.get("default") is not None:
            structural["default"] = node["default"]
        if "items" in node:
            structural["items"] = self.schema(node["items"], with_defaults=with_defaults)
        structural |= self._members(node, with_defaults=with_defaults)
        return structural

    def _members(self, node: Json, *, with_defaults: bool) -> Json:
        """Either named properties or a map: a structural schema may not have both."""
        if "properties" in node:
            members = node["properties"].items()
            return {"properties": {name: self.schema(member, with_defaults=with_defaults) for name, member in members}}
        values = node.get("additionalProperties") or _values_by_pattern(node)
        if isinstance(values, dict):
            return {"additionalProperties": self.schema(values, with_defaults=with_defaults)}
        return {}

    def _resolved(self, node: Json) -> Json:
        """This node with its reference or its `or null` folded in; what stands beside a reference wins over it."""
        beside = {key: value for key, value in node.items() if key not in {"$ref", "anyOf"}}
        if "$ref" in node:
            return _merged(self._resolved(self._definitions[node["$ref"].rpartition("/")[2]]), beside)
        choices = [choice for choice in node.get("anyOf", ()) if choice.get("type") != "null"]
        if len(choices) == 1:
            return _merged(self._resolved(choices[0]), beside)
        return node


def _first_sentence(text: str) -> str:
    """What an override says of itself; the common field of the same name says the rest."""
    return text.split(". ", 1)[0].removesuffix(".") + "."


def _merged(inner: Json, outer: Json) -> Json:
    validations = [*inner.get(VALIDATIONS, ()), *outer.get(VALIDATIONS, ())]
    return inner | outer | ({VALIDATIONS: validations} if validations else {})


def _values_by_pattern(node: Json) -> Any:  # noqa: ANN401 - any JSON schema
    """A map with patterned keys comes as `patternProperties`, which structural schemas lack: take its values."""
    return next(iter(node.get("patternProperties", {}).values()), None)
