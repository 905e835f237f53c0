"""Wake a loop from any thread, so that many requests close together make one pass."""

from __future__ import annotations

import asyncio
import contextlib


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event for so long; returns whether it is set.

    `asyncio.wait_for` of Python 3.11 forgets that its task was cancelled if the event is set in the same moment.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


class Wake:
    """An alarm that any thread may ring. Bound to the event loop that is running when it is created."""

    def __init__(self, settle_seconds: float) -> None:
        """After the first ring, more rings within `settle_seconds` belong to the same pass."""
        self._settle_seconds = settle_seconds
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Ask for a pass."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, at_most_seconds: float) -> bool:
        """Sleep until a ring has settled, or until the time is over; returns whether it rang."""
        if not await is_set_within(self._event, at_most_seconds):
            return False
        await asyncio.sleep(self._settle_seconds)
        self._event.clear()
        return True
