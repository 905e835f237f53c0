"""The samples of a pool over the last minute: which are kept, and how much the load grew between them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.pool_memory import LoadSample

# Growth of the requests inside is measured over the first, and never over less than the second, which would be noise.
LOAD_WINDOW_SECONDS = 60.0
SHORTEST_GROWTH_SECONDS = 15.0
# Standard deviations subtracted from a short count: where it may be chance, and where it is not.
SURELY, NEARLY_ALL = 1.5, 0.5
# A pool shrinks only if a minute's count that is higher by so many standard deviations, and at most doubled, would not
# grow it again: a few requests a minute may double by chance alone.
MOST_CHANCE, MOST_KEPT = 4.0, 1.0


def is_whole_minute(elapsed: float) -> bool:
    """Whether samples so far apart cover about a whole minute."""
    return elapsed >= LOAD_WINDOW_SECONDS - SHORTEST_GROWTH_SECONDS


def grown(rate: float, loads: tuple[LoadSample, ...]) -> float:
    """Growth of the requests inside, per second; until a whole minute was seen, a lower bound."""
    more, elapsed = loads[-1].outstanding - loads[0].outstanding, loads[-1].at - loads[0].at
    if elapsed < SHORTEST_GROWTH_SECONDS:
        return 0.0
    if not is_whole_minute(elapsed):
        more = max(0.0, more - SURELY * math.sqrt(2.0 * rate * elapsed))  # both arrivals and answers scatter
    return more / elapsed


def surely_came(requests: float, seconds: float, deviations: float) -> float:
    """A lower bound of a rate, (n - k sqrt(n)) / T: it follows a ramp at once, while noise alone buys nothing."""
    return max(0.0, requests - deviations * math.sqrt(requests)) / seconds if seconds > 0 else 0.0


def surely_no_more_came(requests: float, seconds: float, deviations: float) -> float:
    """An upper bound of a rate, (n + k sqrt(n)) / T; `seconds` are more than none."""
    return (requests + deviations * math.sqrt(requests)) / seconds


def with_chance(rate: float) -> float:
    """The highest rate that a minute's count may show by chance, without any change of the traffic."""
    return rate * (1.0 + min(MOST_KEPT, MOST_CHANCE / math.sqrt(max(1.0, rate * LOAD_WINDOW_SECONDS))))


def loads_after(loads: tuple[LoadSample, ...], latest: LoadSample) -> tuple[LoadSample, ...]:
    """The samples of a whole minute, at most one every five seconds, the newest always among them."""
    longest = LOAD_WINDOW_SECONDS + SHORTEST_GROWTH_SECONDS
    recent = [load for load in loads if 0 <= latest.at - load.at <= longest]
    if len(recent) > 1 and latest.at - recent[-2].at < LOAD_WINDOW_SECONDS / 12:
        recent.pop()
    if recent and recent[-1].at == latest.at:
        recent.pop()
    return (*recent, latest)
