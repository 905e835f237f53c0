"""Runtime checks of values against type annotations, for values read from files, which mypy cannot check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

Check = Callable[[object], bool]


def is_of(hint: Any) -> Check:  # noqa: ANN401 - whatever an annotation may say
    """The check for values of a type. An `int` counts as a `float`, but a `bool` is no number."""
    origin = get_origin(hint)
    if hint is Any:
        return _anything
    if origin in (Union, UnionType):
        checks = tuple(map(is_of, get_args(hint)))
        return lambda value: any(check(value) for check in checks)
    if origin is tuple:
        return _is_tuple(get_args(hint))
    if origin in (dict, Mapping):
        return _is_mapping(*map(is_of, get_args(hint)))
    if hint in (int, float):
        number = (int, float) if hint is float else int
        return lambda value: isinstance(value, number) and not isinstance(value, bool)
    return lambda value: isinstance(value, origin or hint)


def _anything(_: object) -> bool:
    return True


def _is_tuple(arguments: tuple[Any, ...]) -> Check:
    if arguments[-1] is Ellipsis:
        check = is_of(arguments[0])
        return lambda value: isinstance(value, tuple) and all(map(check, value))
    checks = tuple(map(is_of, arguments))
    return lambda value: (
        isinstance(value, tuple)
        and len(value) == len(checks)
        and all(check(each) for check, each in zip(checks, value, strict=True))
    )


def _is_mapping(is_key: Check, is_value: Check) -> Check:
    return lambda value: (
        isinstance(value, Mapping) and all(is_key(key) and is_value(each) for key, each in value.items())
    )
