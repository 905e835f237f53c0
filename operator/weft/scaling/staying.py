"""How long requests stay inside, and what those that come therefore mean for how many are inside together.

Answers of a minute or two run beside those of quieter minutes before. What a pool has to carry at once is what comes,
averaged over the time that requests stay; where stays scatter as widely as lengths do, that is close to an average
which forgets by a factor of e in that time (a queue with as many servers as requests, M/G/infinity).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.scaling.reading import Reading

# Those that were counted over the last minute came half of it ago on average: shorter stays average over no more.
COUNTED_AGO_SECONDS = 30.0
# Stays beyond this are no lengths but engines that hang; a pool keeps what it has for as long before it shrinks.
MOST_STAY_SECONDS = 300.0
# An average is at most so many times what comes now: a figure that was no number of requests is forgotten at once.
MOST_ABOVE = 4.0


def stay_seconds(reading: Reading, coming: float) -> float:
    """How long a request is being answered, by the number inside (Little's law); 0: unknown.

    That is over the rate of answers, or of what is `coming` where that is more: answers lag behind a ramp.
    """
    inside, rate = reading.outstanding - reading.waiting, max(reading.rate, coming)
    return min(MOST_STAY_SECONDS, inside / rate) if inside > 0.0 and rate > 0.0 else 0.0


def lasting(before: float | None, elapsed_seconds: float, offered: float, reading: Reading) -> float:
    """Requests per second over the time that they stay, from `offered`, those of the last minute.

    `before` is the same at the last look, `elapsed_seconds` ago.
    """
    beyond = stay_seconds(reading, offered) - COUNTED_AGO_SECONDS
    if before is None or beyond <= 0:
        return offered
    before = min(before, MOST_ABOVE * max(offered, reading.rate))
    return before - math.expm1(-max(0.0, elapsed_seconds) / beyond) * (offered - before)


def over_the_stay(reading: Reading, lately: float, offered: float) -> float:
    """What surely came in the last seconds, over the time that a request stays: that many are inside together.

    A peak that is shorter than the answers meets the requests of quieter seconds before it. In a prefill half requests
    do not stay for long.
    """
    stay = stay_seconds(reading, offered)
    part = min(1.0, reading.arrival_seconds / stay) if stay > 0 else 1.0
    return offered + (lately - offered) * part
