"""The time for all decisions: the API server's, continued by our own monotonic clock.

Much of what is waited for began at a time that the API server recorded. A wrong clock of ours, or one that is set
while we run, would end such waits when they have hardly begun.
"""

from __future__ import annotations

import threading
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDING_SECONDS = 2.0  # a Date header has whole seconds, and takes some time to arrive
SLOW_ANSWER_SECONDS = 35.0  # an older answer has timed out


def running_seconds() -> float:
    """Seconds of a clock that nobody can set and that includes suspended time, as a laptop's cluster sleeps with it.

    `time.monotonic` excludes it: what was created afterwards would seem to be in the future for that long.
    """
    boot = getattr(time, "CLOCK_BOOTTIME", None)  # on Linux only
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class ClusterClock:
    """Epoch seconds; our own clock until the API server has answered."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = running_seconds) -> None:
        """Reads our own wall clock once."""
        self._monotonic = monotonic
        self._origin = wall() - monotonic()
        self._told = False
        self._lock = threading.Lock()  # every cache lists in its own thread, and all start together

    def now(self) -> float:
        """The current time in epoch seconds."""
        return self._origin + self._monotonic()

    def hear(self, date: str | None) -> None:
        """Adjust to the Date header of an answer.

        The first one sets the clock. Later ones can only set it back, as an API server whose clock was set back would
        else give new pods old times. Setting it forward would end all current waits, so they last longer instead.
        """
        if date is None:
            return
        with self._lock:
            ahead = self.now() - _epoch_seconds(date, self.now())
            if ahead > SLOW_ANSWER_SECONDS or (not self._told and abs(ahead) > ROUNDING_SECONDS):
                self._origin -= ahead
            self._told = True


def _epoch_seconds(date: str, otherwise: float) -> float:
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:  # a proxy's malformed date
        return otherwise
