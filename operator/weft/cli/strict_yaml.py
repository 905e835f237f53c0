"""YAML and JSON as Kubernetes reads them: a key that is there twice is an error, and a time is a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import yaml

if TYPE_CHECKING:
    from collections.abc import Hashable

_MERGE = "tag:yaml.org,2002:merge"
_TIME = "tag:yaml.org,2002:timestamp"


class RepeatedKeyError(yaml.MarkedYAMLError):
    """A mapping has the same key twice."""


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml where it is there
    """The safe loader, which keeps the last of two equal keys and reads dates, but for that."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in rules if tag != _TIME]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """The mapping; what `<<` brings in may be there again."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if (key.tag, key.value) in seen:
                    raise RepeatedKeyError(problem=f"key {key.value!r} is there twice", problem_mark=key.start_mark)
                seen.add((key.tag, key.value))
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


def as_yaml(documents: list[dict[str, Any]]) -> str:
    """The documents as a file for `kubectl apply -f`, with keys in the order that they have."""
    return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=120)


def each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; raises `ValueError` when a key is there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found
