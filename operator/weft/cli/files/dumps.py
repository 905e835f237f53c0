"""Checks that the Nodes and Pods of a file look as a cluster writes them, and says where an edited file does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.domain.errors import Invalid
from weft.domain.texts.units import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Json = dict[str, Any]
_ABSENT = object()


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_name(value: object) -> bool:
    """Whether a value is a text; it may be empty, as for a pod without a node."""
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for pair in value.items() for each in pair)


def _are_amounts(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_amount, value.values()))


def _is_amount(value: object) -> bool:
    try:
        return isinstance(value, str | int) and not isinstance(value, bool) and parse_quantity(value) >= 0
    except (Invalid, ValueError):  # ValueError: an integer with more digits than Python writes
        return False


def _are_objects(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_object, value))


@dataclass(frozen=True, slots=True)
class _Claim:
    """A check of the values at a path, where there are any; a list on the way means each of its items."""

    path: str
    holds: Callable[[object], bool]
    expected: str
    needed: bool = False

    def is_broken_by(self, body: Json) -> bool:
        found = list(_at(body, self.path.split(".")))
        return any(not self.holds(value) for value in found if value is not _ABSENT) or (
            self.needed and _ABSENT in found
        )


_OBJECT, _OBJECTS, _TEXTS = "an object", "a list of objects", "an object of strings"
_TIME = "a time such as 2026-05-01T12:00:00Z"
_AMOUNTS = "an object of amounts, zero or more"
_OF_BOTH = (
    _Claim("metadata", _is_object, _OBJECT, needed=True),
    _Claim("metadata.name", _is_text, "a string", needed=True),
    _Claim("metadata.labels", _are_texts, _TEXTS),
    _Claim("metadata.ownerReferences", _are_objects, _OBJECTS),
    _Claim("spec", _is_object, _OBJECT),
    _Claim("status", _is_object, _OBJECT),
    _Claim("status.conditions", _are_objects, _OBJECTS),
    _Claim("status.conditions.type", _is_text, "a string", needed=True),
    _Claim("status.conditions.lastTransitionTime", _is_text, _TIME),
    _Claim("metadata.managedFields", _are_objects, _OBJECTS),
    _Claim("metadata.managedFields.fieldsV1", _is_object, _OBJECT),
    _Claim("metadata.managedFields.time", _is_text, _TIME),
    _Claim("metadata.creationTimestamp", _is_text, _TIME),
    _Claim("metadata.deletionTimestamp", _is_text, _TIME),
)
_STATES = tuple(
    _Claim(f"status.{statuses}.{state}", _is_object, _OBJECT)
    for statuses in ("containerStatuses", "initContainerStatuses")
    for when in ("state", "lastState")
    for state in (when, f"{when}.waiting", f"{when}.running", f"{when}.terminated")
)
_CLAIMS = {
    "Node": (
        *_OF_BOTH,
        _Claim("spec.taints", _are_objects, _OBJECTS),
        _Claim("spec.taints.key", _is_text, "a string", needed=True),
        _Claim("status.capacity", _are_amounts, _AMOUNTS),
        _Claim("status.allocatable", _are_amounts, _AMOUNTS),
    ),
    "Pod": (
        *_OF_BOTH,
        _Claim("metadata.namespace", _is_text, "a string", needed=True),
        _Claim("metadata.uid", _is_text, "a string", needed=True),
        _Claim("metadata.annotations", _are_texts, _TEXTS),
        _Claim("spec.nodeName", _is_name, "a string"),
        _Claim("status.nominatedNodeName", _is_name, "a string"),
        _Claim("spec.schedulingGates", _are_objects, _OBJECTS),
        _Claim("spec.containers", _are_objects, _OBJECTS),
        _Claim("spec.containers.resources", _is_object, _OBJECT),
        _Claim("spec.containers.resources.requests", _are_amounts, _AMOUNTS),
        _Claim("spec.containers.resources.limits", _are_amounts, _AMOUNTS),
        _Claim("spec.initContainers", _are_objects, _OBJECTS),
        _Claim("spec.initContainers.resources", _is_object, _OBJECT),
        _Claim("spec.initContainers.resources.requests", _are_amounts, _AMOUNTS),
        _Claim("spec.initContainers.resources.limits", _are_amounts, _AMOUNTS),
        _Claim("spec.priority", _is_whole, "a whole number"),
        _Claim("status.containerStatuses", _are_objects, _OBJECTS),
        _Claim("status.containerStatuses.name", _is_text, "a string", needed=True),
        _Claim("status.initContainerStatuses", _are_objects, _OBJECTS),
        _Claim("status.initContainerStatuses.name", _is_text, "a string", needed=True),
        *_STATES,
    ),
}


def what_is_wrong(body: Json) -> str | None:
    """Return the first field of a Node or Pod that no cluster would write, with what is expected; None without one."""
    broken = next((claim for claim in _CLAIMS[body["kind"]] if claim.is_broken_by(body)), None)
    return f"{broken.path} must be {broken.expected}" if broken is not None else None


def _at(value: object, path: list[str]) -> Iterator[object]:
    """Yield everything at a path; `_ABSENT` where only its last step is missing, nothing where an earlier one is."""
    if isinstance(value, list):
        for item in value:
            yield from _at(item, path)
    elif not path:
        yield value
    elif isinstance(value, dict):
        inner = value.get(path[0])
        if inner is not None:
            yield from _at(inner, path[1:]) if len(path) > 1 else (inner,)
        elif len(path) == 1:
            yield _ABSENT
