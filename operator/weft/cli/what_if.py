"""`--what-if KEY=VALUE`: a field of a resource as it might be, by its path in the YAML."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import yaml

from weft.cli.failure import CommandFailure
from weft.cli.strict_yaml import Loader, RepeatedKeyError

if TYPE_CHECKING:
    from collections.abc import Sequence

Json = dict[str, Any]
_LONGEST = 4096
_FORM = "must be KEY=VALUE with a field below spec, such as spec.slo.ttft.p95=1s or spec.scaling.maxReplicas=30"


def refuse_twice(wishes: Sequence[str]) -> None:
    """Raises `CommandFailure` for a field that is given twice: either value could be meant."""
    fields = [wish.partition("=")[0].strip() for wish in wishes]
    twice = next((field for field in fields if fields.count(field) > 1), None)
    if twice is not None:
        raise CommandFailure(f"--what-if gives {twice!r:.80} twice: leave one")


def addressed(wish: str) -> tuple[str | None, str]:
    """Whom a wish is for, and the wish: `chat.spec.slo...=1s` names a resource, `spec.slo...=1s` is for all."""
    path, equals, value = wish.partition("=")
    name, named, field = path.partition(".spec.")
    if not named or path.startswith("spec."):
        return None, wish
    return name, f"spec.{field}{equals}{value}"


def changed(body: Json, wishes: Sequence[str]) -> Json:
    """The resource with these fields; null takes a field out.

    Raises `CommandFailure` for what names no field; whether there is such a field is the schema's to say.
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
        return yaml.load(text, Loader=Loader)  # noqa: S506 - one of ours, which makes plain values only
    except (yaml.YAMLError, RepeatedKeyError, ValueError, RecursionError):
        raise CommandFailure(f"--what-if {wish!r:.80}: the value is no YAML") from None


def _put(body: Any, keys: Sequence[str], value: object, wish: str) -> None:  # noqa: ANN401 - a list or an object
    """Write along the path; objects that are not there yet are made."""
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
