"""Times as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def epoch_seconds(text: str | None) -> float | None:
    """Epoch seconds of an RFC 3339 time as Kubernetes writes it, with its zone; None for anything else.

    Anybody may write an annotation: one that is in no year of UTC that has a name could not be written again.
    """
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return None if moment.tzinfo is None else moment.astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        return None
