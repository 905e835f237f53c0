"""Reads resources and fabric dumps from files or standard input."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import yaml

from weft.cli.ends.failure import CommandFailure
from weft.cli.files.plain_text import plain_text
from weft.cli.files.strict_yaml import Loader, RepeatedKeyError, each_key_once

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
STANDARD_INPUT = "-"
MAX_BYTES = 256 * 1024 * 1024  # the nodes and pods of a large cluster take some 50 MB
MAX_DEPTH = 2000
MAX_VALUES = 50_000_000  # of a file of the largest size there are fewer
_NO_BLANK = re.compile(r"\S")
_TABLES = ("NAME ", "NAMESPACE ")  # how kubectl's tables for people begin
_HOW = "let kubectl write it with -o yaml or -o json"
_NAMES = {list: "a list", str: "a string", int: "a number", float: "a number", bool: "true or false"}


def load_documents(path: str, wanted: str = "a Kubernetes object") -> list[Json]:
    """Return every object in a YAML or JSON file (`-`: standard input), and the items of Kubernetes `List`s.

    `wanted` names the expected kind of object in messages. Raises `CommandFailure` for a file that cannot be read or
    parsed.
    """
    text = _read(path)
    try:
        documents = _parsed(text)
    except RepeatedKeyError as error:
        raise CommandFailure(f"{shown(path)} cannot be understood: {_where(error)}: {_once(error)}") from error
    except yaml.MarkedYAMLError as error:
        why = f"{_where(error)}: {_hint(error, text)}"
        raise CommandFailure(f"{shown(path)} is neither YAML nor JSON: {why}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise CommandFailure(f"{shown(path)} is neither YAML nor JSON: {_unmarked(error)}") from error
    except RecursionError as error:
        raise CommandFailure(f"{shown(path)} is nested too deep to be a Kubernetes object") from error
    return [
        body
        for number, document in enumerate(documents, start=1)
        if document is not None
        for body in _opened(path, number, _object(path, number, document, wanted))
    ]


def shown(path: str) -> str:
    """Return a path as messages name it."""
    return "standard input" if path == STANDARD_INPUT else path or "''"


def of_kind(documents: list[Json], *kinds: str) -> list[Json]:
    """Return the objects of some kinds, in order."""
    return [body for body in documents if body.get("kind") in kinds]


def _read(path: str) -> str:
    try:
        if path == STANDARD_INPUT:
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with open(path, "rb") as file:  # noqa: PTH123 - "-" is no path, and a device has no size
                content = file.read(MAX_BYTES + 1)
        text = plain_text(content, MAX_BYTES)
        if max(len(content), len(text)) > MAX_BYTES:
            raise CommandFailure(f"{shown(path)} is larger than {MAX_BYTES >> 20} MiB: give only what is to be read")
        return text
    except UnicodeDecodeError as error:
        raise CommandFailure(f"{shown(path)} is not text: give YAML or JSON in UTF-8") from error
    except IsADirectoryError as error:
        raise CommandFailure(f"cannot read {shown(path)}: {error.strerror}; name the files in it") from error
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        if "://" in path:
            raise CommandFailure(
                f"{shown(path)} is no file, and nothing is fetched: give what `curl` brings with `-f -`"
            ) from error
        raise CommandFailure(f"cannot read {shown(path)}: {getattr(error, 'strerror', None) or error}") from error


def _parsed(text: str) -> list[object]:
    if text.lstrip().startswith("{"):  # JSON is YAML, but ten times faster to read as what it is
        try:
            return list(_one_after_another(text))
        except ValueError:
            pass  # the YAML reader names the line
    if _could_be_deep(text):
        _refuse_deep(yaml.parse(text, Loader=Loader))
    found = list(yaml.load_all(text, Loader=Loader))
    if "*" in text:  # no alias, no repetition
        _refuse_endless(found)
    return found


def _one_after_another(text: str) -> Iterator[object]:
    """Yield JSON objects that follow each other in one file, as two kubectl commands write them."""
    decoder, start = json.JSONDecoder(object_pairs_hook=each_key_once), 0
    while begins := _NO_BLANK.search(text, start):
        document, start = decoder.raw_decode(text, begins.start())
        yield document


def _could_be_deep(text: str) -> bool:
    """Whether the text may be nested deeply: each level takes a bracket or a column."""
    brackets = text.count("[") + text.count("{")
    return brackets > MAX_DEPTH or max(map(len, text.splitlines()), default=0) > MAX_DEPTH


def _refuse_deep(events: Iterator[yaml.Event]) -> None:
    """Raise `RecursionError` for deep nesting, as libyaml would overflow the stack of the process."""
    depth = 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise RecursionError


def _refuse_endless(documents: list[object]) -> None:
    """Raise `ValueError` where aliases make a value contain itself, or a few lines stand for millions of values."""
    sizes: dict[int, int] = {}

    def size(value: object) -> int:
        if not isinstance(value, dict | list):
            return 1
        if id(value) not in sizes:
            sizes[id(value)] = -1  # until its parts are counted
            sizes[id(value)] = 1 + sum(map(size, value.values() if isinstance(value, dict) else value))
        if sizes[id(value)] < 0:
            raise ValueError("an alias (*) stands inside what it refers to")
        return sizes[id(value)]

    if size(documents) > MAX_VALUES:
        raise ValueError(f"its aliases (*) stand for more than {MAX_VALUES:,} values")


def _where(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    line = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{line}{error.problem or error.context}"


def _hint(error: yaml.MarkedYAMLError, text: str) -> str:
    """Say what is often the cause at the place that the parser names."""
    mark = error.problem_mark or error.context_mark
    line = text.splitlines()[mark.line : mark.line + 1] if mark else []
    if mark and line and line[0][mark.column : mark.column + 1] == "\t":
        return "indent with spaces, not with tabs"
    if line and "{{" in line[0]:
        return "if this is a Helm template, give what `helm template` makes of it"
    return "is the file whole?"


def _unmarked(error: yaml.YAMLError | ValueError) -> str:
    """Say what is wrong where the parser names no line."""
    if isinstance(error, yaml.reader.ReaderError):
        return f"character {error.position + 1} is the control character {error.character:#04x}"
    if "int_max_str_digits" in str(error):
        return "a number has more digits than can be read"
    return str(error)  # of a date that no calendar has, say


def _once(error: RepeatedKeyError) -> str:
    """Say what to do about a repeated key; at the left margin two kubectl commands may have written into one file."""
    at_the_margin = error.problem_mark is not None and error.problem_mark.column == 0
    return "give it once" + (", or --- before it if another object begins there" if at_the_margin else "")


def _object(path: str, number: int, document: object, wanted: str) -> Json:
    if not isinstance(document, dict):
        what = _NAMES.get(type(document), f"a {type(document).__name__}")
        how = f": {_HOW}" if isinstance(document, str) and document.startswith(_TABLES) else ""
        raise CommandFailure(f"document {number} of {shown(path)} is {what}, not {wanted}{how}")
    return document


def _opened(path: str, number: int, document: Json) -> list[Json]:
    """Return the items of a list, and of lists in it, as `jq -s` makes them of several dumps.

    Those of a `NodeList`, as the API server writes it, take their kind from the list. What has a name is no list,
    whatever its kind.
    """
    if "kind" not in document and "items" in document:  # kubectl prints the kind last
        raise CommandFailure(f"document {number} of {shown(path)} has items and no kind: is the file whole?")
    kind = str(document.get("kind", ""))
    metadata = document.get("metadata")
    if not kind.endswith("List") or (isinstance(metadata, dict) and metadata.get("name")):
        return [document]
    items = document.get("items") or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise CommandFailure(f"items in document {number} of {shown(path)} must be a list of Kubernetes objects")
    of_items = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
    bodies = items if kind == "List" else [{**of_items, **item} for item in items]
    return [inner for body in bodies for inner in _opened(path, number, body)]
