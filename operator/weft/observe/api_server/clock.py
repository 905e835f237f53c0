"""The time for all decisions: the API server's, continued by our own monotonic clock.

Much of what is waited for began at a time that the API server recorded. A wrong clock of ours, or one that is set
while we run, would end such waits when they have hardly begun.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDING_SECONDS = 2.0  # a Date header has whole seconds, and takes some time to arrive
SLOW_ANSWER_SECONDS = 35.0  # an older answer has timed out
LISTENING_SECONDS = 600.0  # everything is listed twice meanwhile, so that each API server that we reach answers
CATCHING_UP = 0.05  # faster than time passes: what is waited for meanwhile is cut short by a twentieth at most
# Behind by more than this the clock is not late but wrong, as after a proxy's date of 1970: catching up would take at
# least three weeks, for which no wait would ever be over.
WRONG_SECONDS = 86_400.0


def running_seconds() -> float:
    """Seconds of a clock that nobody can set and that includes suspended time, as a laptop's cluster sleeps with it.

    `time.monotonic` excludes it: what was created afterwards would seem to be in the future for that long.
    """
    boot = getattr(time, "CLOCK_BOOTTIME", None)  # on Linux only
    return time.monotonic() if boot is None else time.clock_gettime(boot)


@dataclass(frozen=True, slots=True)
class _Course:
    """Epoch seconds by a monotonic clock: `origin` after it, and from `since` on faster until `gain` is made up."""

    origin: float
    since: float = 0.0
    gain: float = 0.0

    def at(self, monotonic: float) -> float:
        return self.origin + monotonic + min(self.gain, CATCHING_UP * (monotonic - self.since))


class ClusterClock:
    """Epoch seconds; our own clock until the API server has answered, then the latest clock of all that answer.

    With several API servers nobody knows which one recorded a time. By a clock that is ahead of the one that did,
    what has just begun seems old, and its wait ends at once; by one that is behind it, the wait lasts longer by the
    difference, which is safer. So an answer that is late sets the clock back at once, by no more than it is late. Once
    no answer was as late for a while (that server was mended or has gone, or a proxy had told an old time), the clock
    catches up with the latest of those that came, by running faster: a leap would end all current waits. It leaps only
    where it is behind by days.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = running_seconds) -> None:
        """Reads our own wall clock once."""
        self._monotonic = monotonic
        self._began = monotonic()  # of listening for the latest of all clocks
        self._course = _Course(wall() - self._began)
        self._least = math.inf  # what answers since then said, after the monotonic clock: the least
        self._told = False
        self._lock = threading.Lock()  # every cache lists in its own thread, and all start together

    def now(self) -> float:
        """The current time in epoch seconds."""
        return self._course.at(self._monotonic())

    def hear(self, date: str | None) -> None:
        """Adjust to the Date header of an answer; one that cannot be read says nothing.

        The first one sets the clock. Later ones only set it back, or let it run faster by `CATCHING_UP` at most, unless
        it is behind by more than `WRONG_SECONDS`.
        """
        told = None if date is None else _epoch_seconds(date)
        if told is None:
            return
        with self._lock:
            monotonic = self._monotonic()
            ahead = self._course.at(monotonic) - told
            if ahead > SLOW_ANSWER_SECONDS or (not self._told and abs(ahead) > ROUNDING_SECONDS):
                self._course = _Course(told - monotonic)
            self._told = True
            self._least = min(self._least, told - monotonic)
            if monotonic - self._began >= LISTENING_SECONDS:
                self._catch_up(monotonic)

    def _catch_up(self, monotonic: float) -> None:
        """Run faster until we are where the latest answer was, or leap where that is too far, and listen anew."""
        origin = self._course.at(monotonic) - monotonic
        gain = max(0.0, self._least - origin)
        self._course = _Course(self._least) if gain > WRONG_SECONDS else _Course(origin, monotonic, gain)
        self._began, self._least = monotonic, math.inf


def _epoch_seconds(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:  # a proxy's malformed date
        return None
