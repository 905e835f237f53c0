"""A queue of keys to converge: each at most once in the queue, and never with two workers."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

FIRST_BACKOFF_SECONDS = 1.0
LONGEST_BACKOFF_SECONDS = 300.0


@dataclass(slots=True)
class _Failures:
    generation: int
    count: int
    until: float  # in the loop's time


class WorkQueue:
    """For one event loop. A key added while it is being worked on is queued again when its worker is done."""

    def __init__(self) -> None:
        """Start empty."""
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()
        self._working: set[str] = set()
        self._again: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._failures: dict[str, _Failures] = {}

    def add(self, key: str) -> None:
        """Queue a key now."""
        if key in self._working:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._queue.put_nowait(key)

    def add_after(self, key: str, seconds: float) -> None:
        """Queue a key in `seconds`; of several requests the earliest counts."""
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        pending = self._timers.get(key)
        if pending is not None and pending.when() <= due:
            return
        if pending is not None:
            pending.cancel()
        self._timers[key] = loop.call_at(due, self._ring, key)

    async def take(self) -> str:
        """Wait for the next key; call `done` or `failed` with it afterwards."""
        key = await self._queue.get()
        self._waiting.discard(key)
        self._working.add(key)
        return key

    def done(self, key: str, again_seconds: float | None = None) -> None:
        """The pass succeeded: the back-off is reset. With `again_seconds` another pass follows after that time."""
        self._failures.pop(key, None)
        self.release(key)
        if again_seconds is not None:
            self.add_after(key, again_seconds)

    def failed(
        self,
        key: str,
        generation: int,
        at_least_seconds: float = 0.0,
        at_most_seconds: float = LONGEST_BACKOFF_SECONDS,
    ) -> float:
        """The pass failed: retry after 1 s, doubled up to 5 min, reset for a new generation. Returns the seconds.

        Other requests for the key are dropped meanwhile, or every event would defeat the back-off.
        """
        known = self._failures.get(key)
        count = known.count + 1 if known is not None and known.generation == generation else 1
        usual = min(at_most_seconds, backoff_seconds(count))
        seconds = max(at_least_seconds, usual * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
        until = asyncio.get_running_loop().time() + seconds
        self._failures[key] = _Failures(generation, count, until)
        self._again.discard(key)
        self.release(key)
        self.add_after(key, seconds)
        return seconds

    def is_backing_off(self, key: str, generation: int) -> bool:
        """Whether a failure of this generation still backs off, whatever else requests a pass meanwhile."""
        known = self._failures.get(key)
        return known is not None and known.generation == generation and _seconds_left(known) > 0

    def forget(self, key: str) -> None:
        """Forget a key that is gone for good."""
        self._failures.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._again.discard(key)
        self.release(key)

    @property
    def idle(self) -> bool:
        """Whether no key waits and none is being worked on."""
        return not self._waiting and not self._working

    def release(self, key: str) -> None:
        """The pass is over; a running back-off of the key goes on."""
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _ring(self, key: str) -> None:
        self._timers.pop(key, None)
        self.add(key)
        known = self._failures.get(key)
        if known is not None and (seconds := _seconds_left(known)) > 0:
            self.add_after(key, seconds)


def _seconds_left(failures: _Failures) -> float:
    return failures.until - asyncio.get_running_loop().time()


def backoff_seconds(failures: int) -> float:
    """The delay in seconds after that many failures in a row."""
    return float(min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2 ** min(failures - 1, 20)))
