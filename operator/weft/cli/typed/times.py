"""Times on the command line: seconds as a bare number, or a duration such as `90s`, `2m` or `1h30m`."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import typer

from weft.domain.errors import Invalid
from weft.domain.texts.figures import seconds
from weft.domain.texts.units import parse_duration_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

TIME = "TIME"  # metavar of options that take one
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|\.[0-9]+", re.ASCII)
_NO_TIME = ("0h", "0m", "0s", "0ms")


def time_within(least: float, most: float) -> Callable[[str | float], float]:
    """Return a parser of seconds for an option, which raises `typer.BadParameter` outside of the two bounds.

    It is given text from the command line, and the default as it is.
    """

    def parse(given: str | float) -> float:
        found = given if isinstance(given, float) else seconds_of(given)
        if found < least:
            raise typer.BadParameter(f"{given!r:.80} is too short: give at least {seconds(least)}")
        if found > most:
            raise typer.BadParameter(f"{given!r:.80} is too long: give at most {seconds(most)}")
        return found

    return parse


def seconds_of(text: str) -> float:
    """Read a number of seconds, zero or more, or a duration; raises `typer.BadParameter` for anything else."""
    found = float(text) if _NUMBER.fullmatch(text) else 0.0 if text in _NO_TIME else _duration(text)
    if not math.isfinite(found):
        raise typer.BadParameter(_refused(text))
    return found


def _duration(text: str) -> float:
    try:
        return parse_duration_seconds(text)
    except Invalid:
        raise typer.BadParameter(_refused(text)) from None


def _refused(text: str) -> str:
    return f"{text!r:.80} is no time: write seconds, or for example 300ms, 90s, 2m or 1h30m"
