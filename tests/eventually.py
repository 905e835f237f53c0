"""Wait for assertions to hold, instead of sleeping and hoping."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from e2e.cluster import waiting

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_SECONDS = 40.0  # below the limit of a usual test; a busy machine stalls for seconds
Value = TypeVar("Value")


def eventually(assertion: Callable[[], Value], *, seconds: float = PATIENCE_SECONDS) -> Value:
    """Call `assertion` until it raises no AssertionError, and return its answer, be it None.

    Raises an AssertionError that quotes the last one after `seconds`; any other exception ends the wait at once: it is
    a fault, not something that is yet to come.
    """
    what = assertion.__doc__ or str(assertion)
    (answer,) = waiting.eventually(lambda: (assertion(),), what, timeout_seconds=seconds)
    return answer
