"""`--what-if KEY=VALUE`: changes a field of a resource, by its path in the YAML."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import yaml

from weft.cli.ends.failure import CommandFailure
from weft.cli.files.strict_yaml import Loader, RepeatedKeyError

if TYPE_CHECKING:
    from collections.abc import Sequence

Json = dict[str, Any]
_LONGEST = 4096
_FORM = "must be KEY=VALUE with a field below spec, such as spec.slo.ttft.p95=1s or spec.scaling.maxReplicas=30"


def refuse_overwritten(wishes: Sequence[tuple[str, str]]) -> None:
    """Raise `CommandFailure` where one change of a resource undoes an earlier one, as either could be meant.

    `wishes` are (field as from `addressed`, text as typed). A field inside an earlier one is no contradiction: first an
    object, and then another value in it.
    """
    for place, (field, typed) in enumerate(wishes):
        path, later = _path(field), wishes[place + 1 :]
        undone = next((other for beside, other in later if path[: len(_path(beside))] == _path(beside)), None)
        if undone is not None:
            raise CommandFailure(f"--what-if {undone!r:.80} overwrites {typed!r:.80}: remove one")


def _path(wish: str) -> list[str]:
    return wish.partition("=")[0].strip().split(".")


def addressed(wish: str) -> tuple[str | None, str]:
    """Return (resource or None for all, change): `chat.spec.slo...=1s` names a resource, `spec.slo...=1s` none."""
    path, equals, value = wish.partition("=")
    name, named, field = path.partition(".spec.")
    if not named or path.startswith("spec."):
        return None, wish
    return name, f"spec.{field}{equals}{value}"


def changed(body: Json, wishes: Sequence[str]) -> Json:
    """Return the resource with these changes; null removes a field.

    Raises `CommandFailure` for what names no field; whether the field exists is for the schema to check.
    """
    found = copy.deepcopy(body)
    for wish in wishes:
        path, equals, text = wish.partition("=")
        keys = path.strip().split(".")
        if not equals or keys[0] != "spec" or len(keys) == 1 or not all(keys):
            raise CommandFailure(f"--what-if {wish!r:.80} {_FORM}")
        if not text.strip():
            raise CommandFailure(f"--what-if {wish!r:.80} has no value: give one, or null to take the field out")
        _put(found, keys, _value(wish, text), wish)
    return found


def _value(wish: str, text: str) -> Any:  # noqa: ANN401 - whatever YAML says
    if len(text) > _LONGEST:  # the parser in C would overflow its stack on what is nested without end
        raise CommandFailure(f"--what-if {wish!r:.80}: a value has at most {_LONGEST} letters")
    try:
        value = yaml.load(text, Loader=Loader)  # noqa: S506 - one of ours, which makes plain values only
    except (yaml.YAMLError, RepeatedKeyError, ValueError, RecursionError):
        raise CommandFailure(f"--what-if {wish!r:.80}: the value is no YAML") from None
    glued = next((key for key, inner in value.items() if inner is None and ":" in key), None) if _named(value) else None
    if glued is not None:  # YAML reads one key without a value, which counts for nothing
        raise CommandFailure(f"--what-if {wish!r:.80}: write a space after the colon of {glued!r:.40}")
    return value


def _named(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


def _put(body: Any, keys: Sequence[str], value: object, wish: str) -> None:  # noqa: ANN401 - a list or an object
    """Write a value at a path; missing objects are created."""
    for depth, key in enumerate(keys[:-1]):
        inside = _inside(body, key)
        if not isinstance(inside, dict | list):
            raise CommandFailure(f"--what-if {wish!r:.80}: {'.'.join(keys[: depth + 1])} has no fields")
        body = inside
    last = keys[-1]
    if isinstance(body, list):
        if _place(body, last) is None:
            raise CommandFailure(f"--what-if {wish!r:.80}: {'.'.join(keys[:-1])} has no entry {last}")
        body[int(last)] = value
    elif value is None:
        body.pop(last, None)
    else:
        body[last] = value


def _inside(body: Any, key: str) -> Any:  # noqa: ANN401 - whatever is there
    if isinstance(body, list):
        place = _place(body, key)
        return None if place is None else body[place]
    if body.get(key) is None:
        body[key] = {}
    return body[key]


def _place(body: list[Any], key: str) -> int | None:
    return int(key) if key.isascii() and key.isdigit() and int(key) < len(body) else None
