"""Wake a loop from any thread, so that many requests close together make one pass."""

from __future__ import annotations

import asyncio


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
        try:
            await asyncio.wait_for(self._event.wait(), at_most_seconds)
        except TimeoutError:
            return False
        await asyncio.sleep(self._settle_seconds)
        self._event.clear()
        return True
