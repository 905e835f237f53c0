"""The time that everything is decided by: the API server's, carried on by our own monotonic clock.

Much of what is waited for began at a time that the API server noted. A clock of ours that is wrong, or that somebody
sets while we run, would end such waits when they have hardly begun.
"""

from __future__ import annotations

import threading
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDING_SECONDS = 2.0  # a Date has whole seconds and some way behind it
SLOW_ANSWER_SECONDS = 35.0  # no answer is older: then the request has timed out


def running_seconds() -> float:
    """Seconds that nobody can set, those of a machine that sleeps among them: a laptop's cluster sleeps with it.

    `time.monotonic` stands still meanwhile. What was created after that would seem to be of the future for as long.
    """
    boot = getattr(time, "CLOCK_BOOTTIME", None)  # Linux alone has it
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class ClusterClock:
    """Epoch seconds. Before the API server has answered they are our own."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = running_seconds) -> None:
        """Read our own clock, once and never again."""
        self._monotonic = monotonic
        self._origin = wall() - monotonic()
        self._told = False
        self._lock = threading.Lock()  # every cache lists in a thread of its own, and all begin together

    def now(self) -> float:
        """This moment."""
        return self._origin + self._monotonic()

    def hear(self, date: str | None) -> None:
        """Take in the Date of an answer.

        The first one sets the clock. Later ones can only set it back, as an API server that was set back itself would
        else stamp new pods as old ones. Forward would end every wait that is under way; so they last longer instead.
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
    except ValueError:  # some proxy's own idea of a date
        return otherwise
