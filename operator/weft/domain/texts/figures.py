"""Numbers formatted for people: three significant digits, a suitable unit, and plurals."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXPONENT_FROM = 1e10  # beyond any rate, count or cost that can be asked for
_MINUTE, _HOUR = 60.0, 3600.0
_LAST_MOMENT = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
_MANY = 10.0  # minutes or hours from which a time is given in them


def digits(value: float) -> str:
    """`24.9`, `1200`, `0.0371`: three significant digits, without an exponent where possible."""
    short = float(f"{value:.3g}")
    return f"{short:.0f}" if 1000 <= short < _EXPONENT_FROM else f"{short:.3g}"  # noqa: PLR2004 - where %g turns to e+03


def seconds(value: float) -> str:
    """`350 ms`, `1.2 s`, `90 min` or `12 h`."""
    if value >= _MANY * _HOUR:
        return f"{digits(value / _HOUR)} h"
    if value >= _MANY * _MINUTE:
        return f"{digits(value / _MINUTE)} min"
    return f"{digits(value)} s" if value >= 1 else f"{digits(value * 1000)} ms"


def moment_of(epoch_seconds: float) -> str:
    """`2026-07-01T08:00:00Z`, as Kubernetes writes times; capped at the end of the year 9999."""
    return f"{datetime.fromtimestamp(min(epoch_seconds, _LAST_MOMENT), UTC):%Y-%m-%dT%H:%M:%SZ}"


def request_rate(value: float) -> str:
    """`1 request/s`, `24.9 requests/s`: the plural follows the rounded number."""
    told = digits(value)
    return f"{told} request/s" if told == "1" else f"{told} requests/s"


def counted(count: int, noun: str) -> str:
    """`1 GPU`, `8 GPUs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def some_of(names: Sequence[str], most: int) -> str:
    """`b-0, b-1 and 3 more`: the first `most` names, and how many others there are."""
    more = len(names) - most
    return f"{', '.join(names[:most])}{f' and {more} more' if more > 0 else ''}"


def agreeing(count: int, one: str, many: str) -> str:
    """Choose the word that agrees with a count, such as `is` for one and `are` otherwise."""
    return one if count == 1 else many
