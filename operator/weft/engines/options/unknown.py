"""Find arguments that an engine's command line, argparse's or click's, does not know."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from weft.catalog.names import nearest, perhaps

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from weft.catalog.options import EngineOptions

_NEGATION = "--no-"
_LONGEST_SHOWN = 60


@functools.lru_cache(maxsize=4096)
def unknown_options(args: tuple[str, ...], options: EngineOptions, version: str) -> tuple[str, ...]:
    """Options among `args` that a version lacks, each once, with the releases that have it or a similar name."""
    known = options.of(version) or ()
    names = dict.fromkeys(name for name in map(_name, args) if name is not None)
    return _told((name for name in names if not _is_one(name, known)), options, version) if known else ()


@functools.lru_cache(maxsize=4096)
def unknown_to_click(args: tuple[str, ...], options: EngineOptions, version: str) -> tuple[str, ...]:
    """As `unknown_options`, for click, which accepts options only as they are spelled."""
    known = options.of(version) or ()
    names = dict.fromkeys(each.partition("=")[0] for each in args if _name(each) is not None)
    return _told((name for name in names if name not in known), options, version) if known else ()


def _told(unknown: Iterable[str], options: EngineOptions, version: str) -> tuple[str, ...]:
    return tuple(f"{name:.{_LONGEST_SHOWN}}{_hint(name, options, version)}" for name in unknown)


def _name(argument: str) -> str | None:
    """The option that an argument names, `--some-flag` of `--some_flag.key=value`; None for a value."""
    if not argument.startswith("-") or not argument.lstrip("-")[:1].isalpha():
        return None
    return argument.split("=", 1)[0].split(".", 1)[0].replace("_", "-")


def _is_one(name: str, known: Collection[str]) -> bool:
    """Whether argparse accepts a name: an option, its negation, or a prefix of exactly one option."""
    if not name.startswith("--"):
        return name in known
    return any(each in known or sum(other.startswith(each) for other in known) == 1 for each in {name, _positive(name)})


def _positive(name: str) -> str:
    return f"--{name.removeprefix(_NEGATION)}" if name.startswith(_NEGATION) else name


def _hint(name: str, options: EngineOptions, version: str) -> str:
    known = options.of(version) or ()
    asked = (each for each in (name, _positive(name)) if each not in known)
    elsewhere = next((found for each in asked if (found := options.elsewhere(each, version)) is not None), None)
    if elsewhere is not None:
        return f" ({elsewhere})"
    long = sorted(option for option in known if option.startswith("--"))
    return perhaps(nearest(name, ((option, option) for option in long))[:1])
