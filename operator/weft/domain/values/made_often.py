"""A faster constructor for frozen dataclasses of which every pass makes thousands; values stay as immutable as before.

A frozen dataclass sets each field through `object.__setattr__`, which takes ten times as long as an assignment. Here a
value is created as an instance of a mutable twin, a private class with the very same slots; its fields are assigned,
and then its `__class__` is set to the frozen class. From then on it is an ordinary frozen value.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Value = TypeVar("Value")

_TWINS: dict[type, type] = {}


def made_often(kind: type[Value]) -> type[Value]:
    """Give a frozen, slotted dataclass a fast constructor; it needs at least two fields, all of them with `init`."""
    given = fields(cast("Any", kind))
    if kind.__base__ is not object or hasattr(kind, "__post_init__") or not all(each.init for each in given):
        raise TypeError(f"{kind.__qualname__} is more than its fields, and has to be made in the usual way")
    twin = _TWINS[kind] = type(kind.__name__, (), {"__slots__": kind.__dict__["__slots__"]})
    read = attrgetter(*(each.name for each in given))
    anything = cast("Any", kind)
    made = _constructor(twin, given)
    made.__qualname__ = kind.__qualname__  # the name in error messages
    anything.__new__ = staticmethod(made)
    anything.__reduce__ = lambda value: (kind, read(value))
    del anything.__init__
    return kind


def copier(kind: type, others: Sequence[str]) -> Callable[..., Any] | None:
    """A function that copies a value with some fields replaced; None for a class without `made_often`."""
    twin = _TWINS.get(kind)
    if twin is None:
        return None
    names = [each.name for each in fields(cast("Any", kind))]
    sources = [(name, name if name in others else f"_like.{name}") for name in names]
    return _written(", ".join(("_like", *others)), ["_kind = _like.__class__"], sources, {"_Twin": twin})


def _constructor(twin: type, given: Sequence[Field[Any]]) -> Callable[..., Any]:
    known: dict[str, Any] = {"_Twin": twin, "_MISSING": MISSING}
    parameters, prepared = [], []
    for each in given:
        default = f"_default_of_{each.name}"
        if each.default_factory is not MISSING:
            known[default] = each.default_factory
            parameters.append(f"{each.name}=_MISSING")
            prepared.append(f"if {each.name} is _MISSING: {each.name} = {default}()")
        elif each.default is not MISSING:
            known[default] = each.default
            parameters.append(f"{each.name}={default}")
        else:
            parameters.append(each.name)
    return _written(f"_kind, {', '.join(parameters)}", prepared, [(each.name, each.name) for each in given], known)


def _written(
    parameters: str, prepared: Sequence[str], sources: Sequence[tuple[str, str]], known: dict[str, Any]
) -> Callable[..., Any]:
    """Generate a function that makes one value, field by field, as `dataclasses` generates its own."""
    assigned = [f"_value.{name} = {source}" for name, source in sources]
    steps = [*prepared, "_value = _Twin()", *assigned, "_value.__class__ = _kind", "return _value"]
    body = "\n    ".join(steps)
    exec(f"def make({parameters}):\n    {body}\n", known)  # noqa: S102 - of names of fields alone
    return cast("Callable[..., Any]", known["make"])
