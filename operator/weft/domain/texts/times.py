"""RFC 3339 times, as in Kubernetes, specs and our own statuses: parsed and formatted only here."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST = datetime.min.replace(tzinfo=UTC).timestamp()
_LATEST = datetime.max.replace(microsecond=0, tzinfo=UTC).timestamp()


def instant(epoch_seconds: float) -> str:
    """Format epoch seconds as RFC 3339 in UTC with all digits of the number: `2026-07-01T08:00:00.25Z`."""
    whole = math.floor(epoch_seconds)
    rest = format(Decimal(repr(float(epoch_seconds))) - whole, "f").partition(".")[2].rstrip("0")
    moment = (_EPOCH + timedelta(seconds=whole)).replace(tzinfo=None).isoformat()
    return f"{moment}.{rest}Z" if rest else f"{moment}Z"


def read_far_instant(text: str) -> float:
    """Parse RFC 3339 to epoch seconds, the exact inverse of `instant`; raises `ValueError` otherwise or without zone.

    The result may lie beyond the year 9999 in UTC, as the end of 9999 does in western zones.
    """
    head, _, tail = text.partition(".")
    digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
    moment = datetime.fromisoformat(head + tail.removeprefix(digits))
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} does not say in which zone")
    return float(Decimal(int(moment.timestamp())) + Decimal(f"0.{digits or '0'}"))


def read_instant(text: str) -> float:
    """Parse RFC 3339 to epoch seconds that `instant` can format; raises `ValueError` otherwise."""
    value = read_far_instant(text)
    if not _EARLIEST <= value < _LATEST + 1:
        raise ValueError(f"{text!r} is in no year of UTC that has a name")
    return value


def known_instant(value: object) -> float | None:
    """Parse RFC 3339 to epoch seconds; None for anything else, as others may write or edit such values."""
    try:
        return read_instant(value) if isinstance(value, str) else None
    except ValueError:
        return None
