"""How long requests stay in a pool, and how many are inside at once as a result.

Answers of a minute or two run beside those of quieter minutes before. The concurrent load is the arrival rate averaged
over how long requests stay; where stays scatter as widely as lengths do, that is close to an average that decays by a
factor of e in that time (a queue with as many servers as requests, M/G/infinity).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.scaling.reading import LoadReading

# Requests counted over the last minute arrived half a minute ago on average: shorter stays need no averaging.
COUNTED_AGO_SECONDS = 30.0
# Longer stays mean engines that hang and not long answers; a pool holds for as long before it shrinks.
MOST_STAY_SECONDS = 300.0
# The average is capped at this multiple of the present rate, so that a bogus figure is forgotten at once.
MOST_ABOVE = 4.0


def stay_seconds(reading: LoadReading, coming: float) -> float:
    """Seconds that a request is being served, by Little's law; 0: unknown.

    The number inside over the rate of answers, or the arrival rate `coming` where higher: answers lag behind a ramp.
    """
    inside, rate = reading.outstanding - reading.waiting, max(reading.rate, coming)
    return min(MOST_STAY_SECONDS, inside / rate) if inside > 0.0 and rate > 0.0 else 0.0


def lasting(before: float | None, elapsed_seconds: float, offered: float, reading: LoadReading) -> float:
    """Arrival rate averaged over how long requests stay; `offered` is the rate of the last minute.

    `before` is the answer of the last look, `elapsed_seconds` ago.
    """
    beyond = stay_seconds(reading, offered) - COUNTED_AGO_SECONDS
    if before is None or beyond <= 0:
        return offered
    before = min(before, MOST_ABOVE * max(offered, reading.rate))
    return before - math.expm1(-max(0.0, elapsed_seconds) / beyond) * (offered - before)


def over_the_stay(reading: LoadReading, lately: float, offered: float) -> float:
    """The rate `lately` averaged over the time that a request stays, as that many are inside together.

    A peak that is shorter than the answers overlaps with requests of quieter seconds before it. In a prefill half
    requests do not stay for long.
    """
    stay = stay_seconds(reading, offered)
    part = min(1.0, reading.arrival_seconds / stay) if stay > 0 else 1.0
    return offered + (lately - offered) * part
