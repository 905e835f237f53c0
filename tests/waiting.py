"""Waiting for something to become true, with a limit; never a plain sleep."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def eventually(claim: Callable[[], object], within_seconds: float = 20.0, what: str = "") -> None:
    """Return as soon as the claim holds; fail with `what` when it does not in time."""
    deadline = time.monotonic() + within_seconds
    while not claim():
        assert time.monotonic() < deadline, f"not within {within_seconds:.0f} s: {what or claim}"
        time.sleep(0.02)
