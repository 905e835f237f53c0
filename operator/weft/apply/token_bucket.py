"""A limit on writes: a steady rate with a burst, and a hold that the API server may ask for."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# A pod takes two writes, and hundreds are needed at once when a rack comes back. The API server protects itself
# (priority and fairness), and its Retry-After is obeyed. LeaderWorkerSet and JobSet default to 500 and 500.
WRITES_PER_SECOND = 200.0
BURST_WRITES = 400.0
LONGEST_HOLD_SECONDS = 60.0


class TokenBucket:
    """Thread-safe. Tokens are reserved at once and waited for outside the lock, so waiting callers keep their order."""

    def __init__(
        self,
        per_second: float = WRITES_PER_SECOND,
        burst: float = BURST_WRITES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The bucket starts full."""
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._tokens = burst
        self._filled = clock()
        self._held_until = 0.0
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def reserve(self) -> float:
        """Take one token and say how many seconds to wait before using it."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._per_second)
            self._filled = now
            self._tokens -= 1
            return max(0.0, -self._tokens / self._per_second, self._held_until - now)

    def wait(self) -> None:
        """Take one token, waiting for it in this thread."""
        seconds = self.reserve()
        if seconds > 0:
            self._stopped.wait(seconds)

    def hold(self, seconds: float) -> None:
        """Send nothing for that long, as Retry-After asked; at most for a minute."""
        with self._lock:
            self._held_until = max(self._held_until, self._clock() + min(seconds, LONGEST_HOLD_SECONDS))

    def stop(self) -> None:
        """Release all waiting callers at once, as the process is ending."""
        self._stopped.set()
