"""Bursts that come back at no fixed distance: the rate at which nearly all requests come, held for as long as they do.

Where traffic jumps faster than a replica starts, whoever follows it is late each time. A forecast does not help: it is
of a moment, and most moments are quiet, though most requests are not in them. What serves such traffic is a count that
stands, and the least one is that for the rate which only the accepted part of requests exceed, over the last two hours.

It is held while bursts return: three of them at least, up from a fifth of that rate within the time that a start takes,
and so short that more than the accepted part of their requests would be late behind replicas that start with them. It
ends when they have stayed away for twice the longest pause between two. What a burst brings beyond that rate is ordered
for as far as it is expected to last (`forecast.persists`), as a step is.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from weft.scaling.forecasting.course import STEP, UNSEEN, log_rate_of
from weft.scaling.forecasting.forecast import BIN_SECONDS, horizon_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weft.domain.forecast import ForecastState

RETURN_BINS = 240  # two hours
LEAST_BURSTS = 3
# Parts of the rate that is held: a burst is over below the first, and there above the second.
QUIET, LOUD = 0.2, 0.7
# Requests of a bin among which counts by chance are as far apart as these: three standard deviations of the larger.
_FEW = 9.0 * LOUD / (LOUD - QUIET) ** 2
LATE_IN_A_START = 0.5  # of the requests that come during one: the others are served by what runs
STAYED_AWAY = 2.0  # times the longest pause between two
USUAL_RISK = 0.1  # by which a status tells whether they return, whatever its user risks
REMEMBERED = 4096  # a course changes once a bin, and is asked about in every pass


@dataclass(frozen=True, slots=True)
class _Burst:
    """Bins of a burst from the `begin` to before the `end`; `rise` is from the last quiet one to the begin."""

    begin: int
    end: int
    rise: int


def returning(state: ForecastState, risk: float = USUAL_RISK) -> float:
    """The rate, in the unit of the forecast, that only the part `risk` of requests exceed; 0 where no bursts return."""
    return _returning(state.course, risk, horizon_of(state) / BIN_SECONDS)


@functools.lru_cache(maxsize=REMEMBERED)
def _returning(course: str, risk: float, start_bins: float) -> float:
    seen = course[-RETURN_BINS:].replace(UNSEEN, "")
    if not seen or log_rate_of(max(seen)) - log_rate_of(min(seen)) < -math.log(QUIET):
        return 0.0
    logs = [log_rate_of(code) for code in seen]
    held = _exceeded_by(logs, risk)
    if math.exp(held) * BIN_SECONDS < _FEW:
        return 0.0
    bursts = [*_bursts(logs, held + math.log(QUIET), held + math.log(LOUD))]
    return math.exp(held) if _return(bursts, len(logs), risk, start_bins) else 0.0


def _exceeded_by(logs: Sequence[float], risk: float) -> float:
    """The log rate that this part of all requests exceed; a code stands for all rates that are rounded to it."""
    requests = {log: count * math.exp(log) for log, count in Counter(logs).items()}
    left = risk * math.fsum(requests.values())
    for log, among in sorted(requests.items(), reverse=True):
        if left < among:
            return log + STEP * (0.5 - left / among)
        left -= among
    return min(logs)


def _bursts(logs: Sequence[float], quiet: float, loud: float) -> Iterator[_Burst]:
    """Each time that it was loud until it was quiet again; the last may not be over."""
    began, before, last_quiet = None, 0, 0
    for at, log in enumerate(logs):
        if log < quiet:
            if began is not None:
                yield _Burst(began, at, began - before)
            began, last_quiet = None, at
        elif log >= loud and began is None:
            began, before = at, last_quiet
    if began is not None:
        yield _Burst(began, len(logs), began - before)


def _return(bursts: Sequence[_Burst], bins: int, risk: float, start_bins: float) -> bool:
    """Whether such bursts are what comes next, too, and nobody who follows them is in time for nearly all requests."""
    if len(bursts) < LEAST_BURSTS:
        return False
    sudden = sum(burst.rise <= 1.0 + start_bins for burst in bursts)
    lasting = math.fsum(burst.end - burst.begin for burst in bursts) / len(bursts)
    longest = max(later.begin - earlier.end for earlier, later in pairwise(bursts))
    if sudden < LEAST_BURSTS or bins - bursts[-1].end > STAYED_AWAY * longest:
        return False
    return risk * lasting < LATE_IN_A_START * start_bins
