"""Domain values as plain JSON and back, for decision records: decoding gives exactly the value that was encoded.

Dataclasses and enumerations are written by name, and only those of this package are decoded, so that a record can hold
nothing executable. Fields with their default are left out, and decoded values are checked against the declared types of
their fields, as code checked by mypy would fail on others far from the file that is to blame.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from json import dumps
from typing import TYPE_CHECKING, Any, get_type_hints

from weft.domain import (
    calibration,
    cluster,
    decision,
    forecast,
    hardware,
    model,
    moves,
    pool_memory,
    queueing,
    quotas,
    reasons,
    reports,
    room,
    scaling_spec,
    shape,
    snapshot,
    spec,
    start_up,
    status,
    transport,
    workload,
)
from weft.domain.values.typed import is_of

if TYPE_CHECKING:
    from weft.domain.values.typed import Check

# The modules whose types snapshots and decisions consist of.
_MODULES = (
    *(calibration, cluster, decision, forecast, hardware, model, moves, pool_memory, queueing, quotas),
    *(reasons, reports, room, scaling_spec, shape, snapshot, spec, start_up, status, transport, workload),
)
Coded = Any  # any value that `json` can write and read
_KIND = "~"  # the key of the type's name; plain objects never have it
_SET, _LIST, _MAP, _NUMBER = "set", "list", "map", "number"
_LONGEST_SHOWN = 60


class NotCoded(ValueError):  # noqa: N818 - says what a value is
    """A value that is not of the domain, or JSON that encodes no such value."""


def coded(value: object) -> Coded:
    """Encode a value as JSON; raises `NotCoded` for types outside the domain."""
    if isinstance(value, float) and not math.isfinite(value):
        return {_KIND: _NUMBER, "is": str(value)}
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, tuple):
        return [coded(each) for each in value]
    name = type(value).__name__
    if _kinds().get(name) is type(value):
        return {_KIND: name, "is": value.name} if isinstance(value, Enum) else {_KIND: name, **_members(value)}
    return _coded_collection(value)


def _members(value: object) -> dict[str, Coded]:
    """The encoded fields that differ from their defaults."""
    found = ((name, getattr(value, name), default) for name, default in _defaults(type(value).__name__))
    return {name: coded(member) for name, member, default in found if not _is(member, default)}


def _is(member: object, default: object) -> bool:
    """Whether value and type are the same: 1 and 1.0 differ in JSON."""
    return member is default or (type(member) is type(default) and member == default)


def _coded_collection(value: object) -> Coded:
    if isinstance(value, frozenset):
        return {_KIND: _SET, "of": sorted((coded(each) for each in value), key=repr)}
    if isinstance(value, list):
        return {_KIND: _LIST, "of": [coded(each) for each in value]}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and key != _KIND and not isinstance(key, Enum) for key in value):
            return {key: coded(each) for key, each in value.items()}
        return {_KIND: _MAP, "of": [[coded(key), coded(each)] for key, each in value.items()]}
    raise NotCoded(f"{type(value).__name__} is no value of the domain")


def decoded(json: Coded) -> Any:  # noqa: ANN401 - any value of the domain
    """Decode a value; raises `NotCoded` for JSON that encodes none."""
    if isinstance(json, list):
        return tuple([decoded(each) for each in json])
    if not isinstance(json, dict):
        return json
    if _KIND not in json:
        return {key: decoded(each) for key, each in json.items()}
    name = json[_KIND]
    kind = _kinds().get(name) if isinstance(name, str) else None
    try:
        return _decoded_collection(name, json) if kind is None else _decoded_kind(kind, json)
    except NotCoded:  # of a member, whose sentence says what is wrong
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise NotCoded(f"no {name} has the value {_shown(json)}") from error


def _decoded_collection(name: object, json: dict[str, Coded]) -> object:
    if name == _NUMBER:
        return float(json["is"])
    if name in (_SET, _LIST):
        return (frozenset if name == _SET else list)(decoded(each) for each in json["of"])
    if name == _MAP:
        return {decoded(key): decoded(each) for key, each in json["of"]}
    raise NotCoded(f"this build has no type {name!s:.60}")


def _decoded_kind(kind: type[Any], json: dict[str, Coded]) -> object:
    if issubclass(kind, Enum):
        return kind[json["is"]]
    members = {key: decoded(each) for key, each in json.items() if key != _KIND}
    checks = _checks(kind.__name__)
    for key, member in members.items():
        if key not in checks:
            raise NotCoded(f"this build has no field {key} in {kind.__name__}")
        if not checks[key](member):
            raise NotCoded(f"{key} in {kind.__name__} cannot be {_shown(json[key])}")
    for key, default in _defaults(kind.__name__):
        if default is MISSING and key not in members:
            raise NotCoded(f"{kind.__name__} has no value for its field {key}")
    return kind(**members)


def _shown(json: Coded) -> str:
    """The beginning of a value as the record has it."""
    return dumps(json)[:_LONGEST_SHOWN]


@functools.cache
def _kinds() -> dict[str, type[Any]]:
    """Dataclasses and enumerations of the domain by name."""
    return {name: kind for module in _MODULES for name, kind in vars(module).items() if _is_ours(kind)}


@functools.cache
def _checks(name: str) -> dict[str, Check]:
    """For each field of a dataclass, the check whether it may have a value."""
    known = {key: each for module in _MODULES for key, each in vars(module).items()}
    hints = get_type_hints(_kinds()[name], localns={**known, "Mapping": Mapping})
    return {key: is_of(hint) for key, hint in hints.items()}


def _is_ours(kind: object) -> bool:
    is_value = inspect.isclass(kind) and (is_dataclass(kind) or issubclass(kind, Enum))
    return is_value and getattr(kind, "__module__", "").startswith("weft.domain.")


@functools.cache
def _defaults(name: str) -> tuple[tuple[str, object], ...]:
    """Every field that the constructor of a dataclass takes, with its default or a mark that nothing equals."""
    return tuple(
        (each.name, each.default_factory() if each.default_factory is not MISSING else each.default)
        for each in fields(_kinds()[name])
        if each.init
    )
