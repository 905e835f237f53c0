"""The batch from which on a rank may change to launched steps for good, and answers more sequences at no higher rate.

The rate that keeps a batch rises, falls where steps begin to outgrow captured graphs, and rises again where all are
launched. At a rate between, a rank has two batches that last, and one between them from which it goes to either. By
chance it comes that far from the lower one if that is only a few deviations away.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.perf.backlog import RankLoad

_FURTHER = 1.25  # of a search over batches
_HALVINGS, _TRIALS, _CLOSE, _ABOUT, _FLATTEST = 12, 6, 1e-3, 1.002, 0.1
_DEVIATIONS = 5.0  # of a batch within thousands of answers, about


class Crest(NamedTuple):
    """The `rate` of a rank, in requests per second, at which its batch is anything from `batch` to `until`."""

    batch: float
    rate: float
    until: float

    def bounds(self, batch: float, steps: float) -> tuple[float, float]:
        """The least and the most seconds of a mean step, where answers take so many steps: at the crest's rate."""
        if batch <= self.batch:
            return 0.0, math.inf
        seconds = batch / steps / self.rate
        return seconds if batch < self.until else 0.0, seconds


class _Seen(NamedTuple):
    """A batch with its rate, and how uneven it is: its variance over its square, if its rate did not change with it."""

    batch: float
    rate: float
    uneven: float


def crest(of: Callable[[float], RankLoad], least: float, most: float, host: float) -> Crest | None:
    """The crest of loads between two batches; None if the rate always rises with the batch.

    There is none where decode alone takes as long as the `host`, in seconds, so that nothing waits for launches.
    """
    seen, load = list[_Seen](), None
    batch = min(most, _FURTHER ** math.ceil(math.log(least, _FURTHER)))  # the same ones, whatever the device
    while batch < most and (load is None or load.pace.step_seconds < host):
        load = of(batch)
        seen.append(_look(batch, load))
        batch *= _FURTHER
    seen.append(_look(most, of(most)))
    lowest, before = math.inf, 0.0
    for each in reversed(seen):  # the highest rate that more sequences do not reach, and the lowest of those
        if each.rate > lowest:
            before = max(before, each.rate)
        lowest = min(lowest, each.rate)
    if not before:
        return None
    low, high = 0.0, before
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _stays(seen, middle) else (low, middle)
    place = _reached(seen, low)[1]
    last = max((at for at in range(place, len(seen)) if seen[at].rate <= low * _ABOUT), default=place - 1)
    until = math.inf if last + 1 == len(seen) else _between(seen[last], seen[last + 1], low)
    return Crest(*_found(of, seen[place - 1 : place + 1], low), until)


def _found(of: Callable[[float], RankLoad], around: list[_Seen], rate: float) -> tuple[float, float]:
    """The batch with a rate, between two that were seen, and what its rate is: as good as that."""
    one, two = around
    batch = _between(one, two, rate)
    found = of(batch).rate
    for _ in range(_TRIALS):
        if abs(found - rate) < _CLOSE * rate:
            break
        one, two = (_Seen(batch, found, 0.0), two) if found < rate else (one, _Seen(batch, found, 0.0))
        batch = _between(one, two, rate)
        found = of(batch).rate
    return batch, found


def _look(batch: float, load: RankLoad) -> _Seen:
    """Arrivals and departures at random, and answers that take longer while steps are launched."""
    steps = load.pace.steps
    swing = load.launches.variance(steps) / (batch / steps / load.rate) ** 2
    return _Seen(batch, load.rate, 1.0 / batch + swing / 2.0)


def _stays(seen: list[_Seen], rate: float) -> bool:
    """Whether a rank at a rate keeps the lower batch: fewer than some deviations more are answered sooner again."""
    batch, place = _reached(seen, rate)
    falls = next((at for at in range(place, len(seen)) if seen[at].rate < rate), None)
    if falls is None:
        return True
    last = _between(seen[falls - 1], seen[falls], rate)
    one, two = seen[place - 1], seen[place]
    rises = (
        max(_FLATTEST, math.log(two.rate / one.rate) / math.log(two.batch / one.batch))
        if two.rate > one.rate
        else _FLATTEST
    )
    return last - batch > _DEVIATIONS * batch * math.sqrt(one.uneven / rises)


def _reached(seen: list[_Seen], rate: float) -> tuple[float, int]:
    """The lowest batch with a rate, and the place of the next one that was seen."""
    place = next(at for at in range(1, len(seen)) if seen[at].rate >= rate)
    return _between(seen[place - 1], seen[place], rate), place


def _between(one: _Seen, two: _Seen, rate: float) -> float:
    return one.batch + (two.batch - one.batch) * min(1.0, max(0.0, (rate - one.rate) / (two.rate - one.rate)))
