"""Times as Kubernetes writes them."""

from __future__ import annotations

from datetime import datetime


def epoch_seconds(text: str | None) -> float | None:
    """Epoch seconds of an RFC 3339 time as Kubernetes writes it, None for anything else."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
