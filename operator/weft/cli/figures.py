"""Figures as people read them: three significant digits, a unit that fits, and a plural where there is one."""

from __future__ import annotations

import re

_FIGURE = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)")
_EXPONENT_FROM = 1e7


def digits(value: float) -> str:
    """`24.9`, `1200`, `0.0371`: three significant digits, and no exponent where one can do without."""
    short = float(f"{value:.3g}")
    return f"{short:.0f}" if 1000 <= short < _EXPONENT_FROM else f"{short:.3g}"  # noqa: PLR2004 - where %g turns to e+03


def seconds(value: float) -> str:
    """`350 ms` or `1.2 s`."""
    return f"{digits(value * 1000)} ms" if value < 1 else f"{digits(value)} s"


def figure(text: str) -> str:
    """A figure of a status: `37.07053974419959ms` reads `37.1 ms`, `1199.7` reads `1200`; other text stays."""
    match = _FIGURE.fullmatch(text)
    if match is None:
        return text
    number, unit = float(match[1]), match[2]
    if unit == "ms":
        return seconds(number / 1000)
    return f"{digits(number)} {unit}".rstrip()


def moment(text: str) -> str:
    """A time of a status without fractions of a second."""
    return re.sub(r"\.[0-9]+Z$", "Z", text)


def counted(count: int, noun: str) -> str:
    """`1 GPU`, `8 GPUs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
