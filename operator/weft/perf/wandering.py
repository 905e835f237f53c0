"""What chance makes of a rank's batch, where more sequences are hardly answered at a higher rate: it wanders far.

The rate that keeps a batch rises, flattens or falls where steps begin to outgrow captured graphs, and rises again where
all are launched. Requests come and answers end at random, as births and deaths: a batch is the less likely, the more
often answers end on the way to it than requests come. Where a rise is too high to be passed for hours, a rank stays
below it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from weft.perf.latency import quantile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from weft.perf.backlog import RankLoad

_FURTHER = 1.25  # of a search over batches
_BELOW, _BEYOND, _STEEPEST, _LEAST_STEEP = 4.0, 1.5, 1.0, 0.5  # the batches and slopes taken outside of those seen
_APART, _LEAPS, _HALVINGS = 0.06, 1.3, 4  # steps between rates, and the leap of a batch between two that asks for more
_WAVERS = 0.02  # of a variance by launches, from which on they count
_FEWEST = 20.0  # sequences: answers of a few tokens have fewer, and a launch that they all wait for is no fluctuation
_MATTERS = 1.01  # the least rise of a batch by chance that counts
_PASSED = 8.0  # likelihood (natural logarithm) of a rise that ranks pass within thousands of answers
_TAIL = 95  # the percentile that spreads are of
_FADES = 2  # the power of rates at which that fades by which the first place is off


class Wandering(NamedTuple):
    """Mean `batches` of a rank that wanders, with the `rates` in requests per second at which it has them.

    `spreads` are deviations of the time per token, as parts of its mean. Up to a batch of `level`, chance makes rates
    lower only; from there on a rank has them whatever rate would keep so many.
    """

    batches: tuple[float, ...]
    rates: tuple[float, ...]
    spreads: tuple[float, ...]
    level: float

    def bounds(self, batch: float, steps: float) -> tuple[float, float]:
        """The least and the most seconds of a mean step, where answers take so many steps."""
        if not self.batches[0] < batch <= self.batches[-1]:
            return 0.0, math.inf
        seconds = batch / steps / self.rate(batch)
        return seconds, math.inf if batch < self.level else seconds

    def rate(self, batch: float) -> float:
        """The rate at which a batch is the mean, between the first and the last one."""
        return self._at(self.rates, batch)

    def spread(self, batch: float) -> float:
        """The deviation of the time per token at a mean batch, as a part of its mean."""
        return self._at(self.spreads, batch) if self.batches[0] < batch <= self.batches[-1] else 0.0

    def _at(self, values: tuple[float, ...], batch: float) -> float:
        place = bisect_left(self.batches, batch)
        low, high = self.batches[place - 1], self.batches[place]
        return values[place - 1] + (values[place] - values[place - 1]) * (batch - low) / (high - low)


class _Seen(NamedTuple):
    """A batch with its rate, and its variance over itself, if its rate rose like the batch."""

    batch: float
    rate: float
    wavers: float


class _Place(NamedTuple):
    """A mean batch at a rate, and the spread of the time per token."""

    rate: float
    batch: float
    spread: float


class _Chances(NamedTuple):
    """Likelihoods of `batches` at a rate, up to a factor: exp(`weights` + log(rate) x `pulls`).

    `climbs` - log(rate) x `pulls` is how much less likely a batch is than the first one, but for the time that a rank
    stays there. `tops` are places of batches whose `rates` (logarithms) are above those of the next ones.
    """

    batches: tuple[float, ...]
    wavers: tuple[float, ...]
    rates: tuple[float, ...]
    weights: tuple[float, ...]
    pulls: tuple[float, ...]
    climbs: tuple[float, ...]
    tops: tuple[int, ...]

    def at(self, rate: float) -> _Place:
        """The batch at a logarithm of a rate; by Little's law it is the mean time of a request times the rate."""
        end = self._end(rate)
        exponents = [one + rate * other for one, other in zip(self.weights[:end], self.pulls, strict=False)]
        most = max(exponents)
        parts = [math.exp(each - most) for each in exponents]
        sums = list(accumulate(parts))
        counts = list(map(mul, parts, self.batches))
        mean, square = sum(counts) / sums[-1], sum(map(mul, counts, self.batches)) / sums[-1]
        long = self._taken(sums, sums[-1] * _TAIL / 100.0) * math.exp(rate) / mean
        kept = self._kept(mean, square - mean * mean)
        return _Place(math.exp(rate), mean, math.sqrt(kept) * max(0.0, long - 1.0) / quantile(_TAIL))

    def _kept(self, mean: float, variance: float) -> float:
        """The part of a variance that is left of the mean over a life: the further a batch wanders, the slower."""
        returns = min(1.0, mean * self.wavers[bisect_left(self.batches, mean)] / variance)
        return 2.0 * (returns + math.expm1(-returns)) / returns**2

    def kept_by(self, batch: float) -> float:
        """The rate that keeps a batch, if it does not wander."""
        place = min(len(self.batches) - 1, max(1, bisect_left(self.batches, batch)))
        low, high = self.batches[place - 1], self.batches[place]
        one, two = self.rates[place - 1], self.rates[place]
        return math.exp(one + (two - one) * math.log(batch / low) / math.log(high / low))

    def _taken(self, sums: list[float], wanted: float) -> float:
        """Seconds of a request at the batch up to which there are so many."""
        place = bisect_left(sums, wanted)
        if place == 0:
            return self.batches[0] / math.exp(self.rates[0])
        part = (wanted - sums[place - 1]) / (sums[place] - sums[place - 1])
        low, high = (self.batches[each] / math.exp(self.rates[each]) for each in (place - 1, place))
        return low + part * (high - low)

    def _end(self, rate: float) -> int:
        """The number of batches that a rank comes to: those up to the first rise that is too high for it."""
        begin = next((at for at, each in enumerate(self.rates) if each >= rate), len(self.rates))
        for top in self.tops:
            falls = next((at for at in range(top, len(self.rates)) if self.rates[at] < rate), None)
            if top < begin or falls is None:
                continue
            if self._climb(falls - 1, rate) - self._climb(begin, rate) >= _PASSED:
                return falls
        return len(self.rates)

    def _climb(self, place: int, rate: float) -> float:
        return self.climbs[place] - rate * self.pulls[place]


def wandering(of: Callable[[float], RankLoad], least: float, most: float, host: float) -> Wandering | None:
    """How a batch wanders that is between two on average; None if chance changes hardly anything.

    It does not where decode alone takes as long as the `host`, in seconds, so that nothing waits for launches.
    """
    seen, load = list[_Seen](), None
    batch = min(most, _FURTHER ** math.ceil(math.log(least, _FURTHER)))  # the same ones, whatever the device
    until = 0.0
    while batch < most and (load is None or load.pace.step_seconds < host):
        load = of(batch)
        seen.append(_look(batch, load))
        until, batch = batch if load.pace.waits else until, batch * _FURTHER
    load = of(most)
    seen.append(_look(most, load))
    until = most if load.pace.waits else until
    begins = next((at for at, each in enumerate(seen) if each.wavers > 1.0 + _WAVERS), None)
    if begins is None:
        return None
    found, slowest = _chances(seen), min(each.rate for each in seen[begins:])
    places = [*_places(found, (math.ceil(math.log(slowest) / _APART) - 1) * _APART, until)]
    if places[0].batch >= until:
        return None
    if not found.tops and (until < _FEWEST or all(found.kept_by(each.batch) < _MATTERS * each.rate for each in places)):
        return None
    return _joined(found, places, until)


def _joined(found: _Chances, places: list[_Place], until: float) -> Wandering:
    """With the rates that keep the first and the last batch, where launches do not matter yet, or not any more."""
    beyond = bisect_left(places, until, key=lambda each: each.batch)
    one, two = places[beyond - 1 : beyond + 1]
    part = (until - one.batch) / (two.batch - one.batch)
    last = _Place(one.rate + (two.rate - one.rate) * part, until, one.spread + (two.spread - one.spread) * part)
    first, inside = places[0], [*places[:beyond], last]
    low = math.log(found.kept_by(first.batch) / first.rate)
    rates = [rate * math.exp(low * (first.rate / rate) ** _FADES) for rate, _, _ in inside]
    rates[-1] = max(rates[-1], found.kept_by(until))
    batches = tuple(each.batch for each in inside)
    joined = Wandering(batches, tuple(rates), tuple(each.spread for each in inside), math.inf)
    return joined._replace(level=_level(found, joined))


def _level(found: _Chances, joined: Wandering) -> float:
    """The batch before the first one that is kept at a lower rate than a rank has it on average; or that of a top."""
    begin, end = (bisect_right(found.batches, joined.batches[each]) for each in (0, -1))
    for place in range(begin, end - 1):
        batch = found.batches[place + 1]
        if place in found.tops or found.kept_by(batch) < joined.rate(batch):
            return found.batches[place]
    return math.inf


def _places(found: _Chances, begin: float, until: float) -> Iterator[_Place]:
    """Mean batches at rates that rise, until a batch; closer to each other where it leaps."""
    rate, one = begin, found.at(begin)
    yield one
    while one.batch < until:
        rate += _APART
        two = found.at(rate)
        yield from _between(found, one, two, _HALVINGS)
        yield two
        one = two


def _between(found: _Chances, one: _Place, two: _Place, halvings: int) -> Iterator[_Place]:
    if not halvings or two.batch < _LEAPS * one.batch:
        return
    middle = found.at(math.log(one.rate * two.rate) / 2.0)
    yield from _between(found, one, middle, halvings - 1)
    yield middle
    yield from _between(found, middle, two, halvings - 1)


def _look(batch: float, load: RankLoad) -> _Seen:
    """Those who came within an answer: a Poisson number, of a time that varies while steps are launched."""
    steps = load.pace.steps
    swing = load.launches.variance(steps) / (batch / steps / load.rate) ** 2
    return _Seen(batch, load.rate, 1.0 + batch * swing)


def _chances(seen: list[_Seen]) -> _Chances:
    """Of batches a deviation apart: births at a rate, deaths at that which keeps the batch."""
    points = [*_fine(_with_ends(seen))]
    batches, rates = tuple(each.batch for each in points), tuple(math.log(each.rate) for each in points)
    pulls, climbs = [0.0], [0.0]
    for (one, rate), (two, other) in pairwise(zip(points, rates, strict=True)):
        width = (two.batch - one.batch) / 2.0
        pulls.append(pulls[-1] + width * (1.0 / one.wavers + 1.0 / two.wavers))
        climbs.append(climbs[-1] + width * (rate / one.wavers + other / two.wavers))
    around = (batches[0], *batches, batches[-1])
    weights = tuple(
        math.log((around[at + 2] - around[at]) / 2.0 / point.wavers) - rates[at] / 2.0 - climbs[at]
        for at, point in enumerate(points)
    )
    tops = tuple(at for at in range(1, len(rates) - 1) if rates[at - 1] <= rates[at] > rates[at + 1])
    return _Chances(batches, tuple(each.wavers for each in points), rates, weights, tuple(pulls), tuple(climbs), tops)


def _with_ends(seen: list[_Seen]) -> list[_Seen]:
    """With fewer sequences than were seen, and with more than fit, so that a mean is one of both sides."""
    first, one, last = seen[0], seen[-2 if len(seen) > 1 else -1], seen[-1]
    rises = math.log(last.rate / one.rate) / math.log(last.batch / one.batch) if one.batch < last.batch else 1.0
    rises = min(_STEEPEST, max(_LEAST_STEEP, rises))
    less = _Seen(first.batch / _BELOW, first.rate / _BELOW, first.wavers)
    return [less, *seen, _Seen(last.batch * _BEYOND, last.rate * _BEYOND**rises, last.wavers)]


def _fine(seen: list[_Seen]) -> Iterator[_Seen]:
    """Batches that are about a deviation apart, between those seen; rates are powers of them."""
    for one, two in pairwise(seen):
        parts = math.ceil((two.batch - one.batch) / math.sqrt(one.batch))
        for at in range(parts):
            part = at / parts
            yield _Seen(
                one.batch * (two.batch / one.batch) ** part,
                one.rate * (two.rate / one.rate) ** part,
                one.wavers + (two.wavers - one.wavers) * part,
            )
    yield seen[-1]
