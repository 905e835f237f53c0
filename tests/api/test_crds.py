"""`crds/` is what the models say, small, and good to read with `kubectl explain`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from weft.api import crds, refused_name, write_crds

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

COMMITTED = Path(__file__).parents[2] / "crds"
BUILTIN = {"apiVersion", "kind", "metadata"}


@pytest.fixture(params=crds(), ids=lambda definition: definition["spec"]["names"]["kind"])
def schema(request: pytest.FixtureRequest) -> Json:
    (version,) = request.param["spec"]["versions"]
    found: Json = version["schema"]["openAPIV3Schema"]
    return found


def test_the_committed_definitions_are_the_generated_ones(tmp_path: Path) -> None:
    """Run `weft crds` after a change of the models."""
    for path in write_crds(tmp_path):
        committed = COMMITTED / path.name
        assert committed.read_text(encoding="utf-8") == path.read_text(encoding="utf-8"), path.name


def test_each_definition_is_under_100_kb(tmp_path: Path) -> None:
    assert [] == [path.name for path in write_crds(tmp_path) if path.stat().st_size >= 100_000]


def test_writing_again_changes_nothing(tmp_path: Path) -> None:
    first = [path.read_bytes() for path in write_crds(tmp_path)]
    assert [path.read_bytes() for path in write_crds(tmp_path)] == first


def test_short_names_are_not_those_of_the_gateway_extension() -> None:
    """It owns a kind of the same name with the short name `infpool`."""
    assert [["wpool"], ["pds"]] == [definition["spec"]["names"]["shortNames"] for definition in crds()]


def test_every_field_is_explained(schema: Json) -> None:
    unexplained = [path for path, node in _nodes(schema) if not node.get("description") and path not in BUILTIN]
    assert [] == unexplained


def test_everything_is_bounded(schema: Json) -> None:
    """A hostile author finds no list, map, text or number without end (status excepted where Weft counts)."""
    bounds = {"array": "maxItems", "string": "maxLength", "integer": "maximum"}
    unbounded = [
        path
        for path, node in _nodes(schema["properties"]["spec"], items=True)
        if "enum" not in node and (bound := bounds.get(node.get("type", ""))) is not None and bound not in node
    ]
    assert [] == unbounded
    maps = [(path, node) for path, node in _nodes(schema, items=True) if "additionalProperties" in node]
    assert [] == [path for path, node in maps if "maxProperties" not in node]


def test_no_number_is_a_float(schema: Json) -> None:
    assert [] == [path for path, node in _nodes(schema, items=True) if node.get("type") == "number"]


def test_every_list_says_how_it_merges(schema: Json) -> None:
    lists = [(path, node) for path, node in _nodes(schema) if node.get("type") == "array"]
    assert lists
    assert [] == [path for path, node in lists if "x-kubernetes-list-type" not in node]


def test_only_a_config_json_is_kept_unlooked_at(schema: Json) -> None:
    unpruned = [path for path, node in _nodes(schema) if node.get("x-kubernetes-preserve-unknown-fields")]
    assert unpruned == ["spec.model.config.inline"]


@pytest.mark.parametrize("kind", ["InferencePool", "PDSplit"])
def test_names_are_judged_as_the_api_server_judges_them(kind: str) -> None:
    """tests/api/test_admission.py asks the API server about the same."""
    longest = {"InferencePool": 45, "PDSplit": 37}[kind]
    taken = ["a", "chat", "chat-8b", "a" * longest]
    refused = ["", "чат", "CHAT_x", "8b", "chat-", "chat.8b", "a b", "a\n", "a" * (longest + 1), "a" * 80]
    assert [None] * len(taken) == [refused_name(kind, name) for name in taken]
    assert [name for name in refused if refused_name(kind, name) is None] == []


def _nodes(schema: Json, path: str = "", *, items: bool = False) -> Iterator[tuple[str, Json]]:
    """Every field with its path; with `items`, the values of lists and maps too."""
    for name, member in schema.get("properties", {}).items():
        where = f"{path}.{name}".lstrip(".")
        yield where, member
        yield from _nodes(member, where, items=items)
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            if items:
                yield f"{path}[]", inner
            yield from _nodes(inner, f"{path}[]", items=items)
