"""Polling, in the one place where code sleeps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Value = TypeVar("Value")

FIRST_PAUSE_SECONDS = 0.03
PATIENCE_SECONDS = 50.0  # for what takes a few, and a busy machine ten times as long; below the limit of a usual test


class StillWaitingError(AssertionError):
    """What was waited for did not happen in time; an AssertionError, so a test that waits in vain has failed."""


def eventually(
    observe: Callable[[], Value],
    what: str,
    *,
    timeout_seconds: float = PATIENCE_SECONDS,
    interval_seconds: float = 0.25,
) -> Value:
    """Return the first truthy value that `observe` gives, asking again until then: often at first, then less.

    An AssertionError of `observe` means "not yet", so that checks can be written as plain asserts.
    Raises StillWaitingError after `timeout_seconds`, with the last answer.
    """
    deadline = time.monotonic() + timeout_seconds
    pause = min(FIRST_PAUSE_SECONDS, interval_seconds)
    while True:
        value, refusal = _ask(observe)
        if value:
            return value
        if time.monotonic() > deadline:
            last = refusal if refusal is not None else value
            raise StillWaitingError(f"after {timeout_seconds:g} s still not: {what}; last answer: {last!r}")
        time.sleep(pause)
        pause = min(1.5 * pause, interval_seconds)


def _ask(observe: Callable[[], Value]) -> tuple[Value | None, AssertionError | None]:
    try:
        return observe(), None
    except AssertionError as refusal:
        return None, refusal
