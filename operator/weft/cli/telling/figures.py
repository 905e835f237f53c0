"""Formats figures and times of a status for people."""

from __future__ import annotations

import re

from weft.domain.texts.figures import digits, seconds

_FIGURE = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)")


def figure(text: str) -> str:
    """Format a figure of a status: `37.07053974419959ms` becomes `37.1 ms`, `1199.7` becomes `1200`; else as it is."""
    match = _FIGURE.fullmatch(text)
    if match is None:
        return text
    number, unit = float(match[1]), match[2]
    if unit == "ms":
        return seconds(number / 1000)
    return f"{digits(number)} {unit}".rstrip()


def moment(text: str) -> str:
    """Format a time of a status without fractions of a second."""
    return re.sub(r"\.[0-9]+Z$", "Z", text)
