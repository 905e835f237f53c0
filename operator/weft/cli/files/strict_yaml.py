"""Reads YAML and JSON as Kubernetes does: a repeated key is an error, and a timestamp is a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import yaml

if TYPE_CHECKING:
    from collections.abc import Hashable

_MERGE = "tag:yaml.org,2002:merge"
_TIME = "tag:yaml.org,2002:timestamp"


class RepeatedKeyError(yaml.MarkedYAMLError):
    """Raised for a mapping that has the same key twice."""


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml where it is there
    """The safe loader, except that repeated keys raise `RepeatedKeyError` and timestamps stay texts."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in rules if tag != _TIME]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return the mapping; raises for repeated keys, except for those that `<<` merges in."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if (key.tag, key.value) in seen:
                    raise RepeatedKeyError(problem=f"key {key.value!r} appears twice", problem_mark=key.start_mark)
                seen.add((key.tag, key.value))
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


def as_yaml(documents: list[dict[str, Any]]) -> str:
    """Return the documents as a file for `kubectl apply -f`, with keys in their order."""
    return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=120)


def each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object; raises `ValueError` when a key is repeated."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key appears twice")
    return found
