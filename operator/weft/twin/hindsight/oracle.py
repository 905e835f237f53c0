"""The fewest GPU-hours with full knowledge of the trace: what any policy is measured against.

Given how many replicas each bin needs (`need`), counts are chosen that cost the least paid time while no more than a
part of the requests is lost to bins that have too few. A replica is paid while it starts, serves and drains, as far as
that is within the trace: those of the first bin have started before.

A price for each lost request makes this a program over bins and counts that is solved exactly. From bin to bin a count
rises at the price of so many start-ups or falls at that of so many drains, and one sweep over all counts finds the
best of both; so valleys too short to be worth a start are bridged by themselves. The price is where the line between
counts that lose too many and counts that lose few enough has no better corner. What is left of the allowance is used
by changing from the one to the other in the middle.

Three figures come of it, which say different things:
- `bound_hours`: no counts cost less that lose no more than allowed, even if a bin with too few replicas loses only
  what is too much for them. For any price, the least cost with the priced losses, less the price of the allowed ones,
  is such a bound (weak duality); this is the largest one. It is as true as the need it is given: the fluid need of
  `weft.twin.hindsight.need` is what replicas do at best, and those lost are taken to need as much as those served.
- `work_hours`: the same where requests may wait for longer than a bin, so that the work of one may be done in another.
  Those lost are the ones that arrive where they need most.
- `oracle_hours`: the cheapest counts that were found which lose no more than allowed, if a bin with too few replicas
  loses all that arrive until its work is done, in `needed / counts` bins. Whether they meet the SLO only a simulation
  tells: they are a heuristic with hindsight, of which `weft.twin.hindsight.search` simulates some.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Column = NDArray[np.float64]
    Counts = NDArray[np.int64]
    Steps = tuple[tuple[float, dict[str, int]], ...]

_HOUR = 3600.0
_MOST_PRICES = 64
_CLOSE = 1e-9  # replicas, requests or costs this close count as equal


@dataclass(frozen=True, slots=True)
class Terms:
    """Length of a bin, seconds that replicas start and drain, and the fraction of requests that must not be lost.

    A start begins when it is ordered: it includes the time until a policy is asked again and its answer is followed.
    """

    bin_seconds: float
    start_up_seconds: float
    drain_seconds: float = 0.0
    attainment: float = 0.99

    def __post_init__(self) -> None:
        """Raise `ValueError` for values out of range."""
        if self.bin_seconds <= 0.0 or min(self.start_up_seconds, self.drain_seconds) < 0.0:
            raise ValueError("bins have a length, and starting and draining take no negative time")
        if not 0.0 <= self.attainment <= 1.0:
            raise ValueError(f"an attainment of {self.attainment:g} is no part of the requests")


@dataclass(frozen=True, slots=True, eq=False)
class PoolNeed:
    """A pool whose replicas have `gpus` GPUs each, at least `least` of them, and the replicas `needed` in each bin."""

    name: str
    gpus: int
    needed: Column
    least: int = 1

    def times(self, slack: float) -> PoolNeed:
        """Return the pool with its need multiplied by `slack`."""
        return replace(self, needed=slack * self.needed)

    def lost(self, requests: Column, counts: Counts, *, by_excess: bool = False) -> Column:
        """Return how many of the requests arriving in each bin these counts lose; the last axis are bins.

        A bin with too few replicas loses all its requests, and as many again for each further bin that its work lasts;
        with `by_excess` it loses only the part that exceeds its replicas.
        """
        short = np.maximum(0.0, self.needed - counts)
        if by_excess:
            part = short / np.maximum(self.needed, _CLOSE)
        else:
            part = np.maximum(1.0, self.needed / np.maximum(1, counts))
        return requests * np.where(short > _CLOSE, part, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class OracleHours:
    """GPU-hours of `counts` (by pool and bin), which lose the fraction `lost` of all requests.

    `steps` are (seconds, counts to order then by pool).
    """

    hours: float
    lost: float
    counts: dict[str, Counts]
    steps: Steps


def oracle_hours(pools: Sequence[PoolNeed], requests: Column, terms: Terms, slack: float = 1.0) -> OracleHours:
    """Find the cheapest counts of pools that serve every request together, with `slack` times what they need.

    `requests` arrive in each bin. A request that two pools lose counts twice. Raises `ValueError` unless all have the
    same bins.
    """
    allowed = _allowed(pools, requests, terms)
    chosen, _ = _searched([_Program(pool.times(slack), requests, terms) for pool in pools], allowed)
    counts = {pool.name: found for pool, found in zip(pools, chosen.counts, strict=True)}
    lost = chosen.lost / max(1.0, float(requests.sum()))
    return OracleHours(chosen.cost / _HOUR, lost, counts, timed(counts, terms))


def bound_hours(pools: Sequence[PoolNeed], requests: Column, terms: Terms) -> float:
    """Return GPU-hours below which no counts lose few enough requests; each pool may lose as many as if it were alone.

    Raises `ValueError` unless all have the same bins.
    """
    allowed = _allowed(pools, requests, terms)
    alone = [[_Program(pool, requests, terms, by_excess=True)] for pool in pools]
    return sum(_searched(program, allowed)[1] for program in alone) / _HOUR


def work_hours(pools: Sequence[PoolNeed], requests: Column, terms: Terms) -> float:
    """Return GPU-hours below which the work of the requests that must not be lost cannot be done, whenever it is done.

    Each pool may lose as many as if it were alone. Raises `ValueError` unless all have the same bins.
    """
    allowed, bins = _allowed(pools, requests, terms), len(requests)
    alone = [pool.gpus * max(pool.least * bins, _least_work(pool.needed, requests, allowed)) for pool in pools]
    return terms.bin_seconds * sum(alone) / _HOUR


def _least_work(needed: Column, requests: Column, allowed: float) -> float:
    """Return the need of all bins, in replicas times bins, without the most expensive requests that may be lost.

    It is a fractional knapsack, filled by work per request. Work of bins in which nothing arrives belongs to the last
    bin before in which something does.
    """
    arriving = np.flatnonzero(requests)
    if not len(arriving):
        return float(needed.sum())
    work, count = np.add.reduceat(needed, [0, *arriving[1:].tolist()]), requests[arriving]
    dearest = np.argsort(-work / count)
    lost = np.diff(np.minimum(np.cumsum(count[dearest]), allowed), prepend=0.0)
    return float(work.sum() - (lost * (work / count)[dearest]).sum())


def _allowed(pools: Sequence[PoolNeed], requests: Column, terms: Terms) -> float:
    """Return how many requests may be lost; raises `ValueError` unless all have the same bins."""
    if not (pools and len(requests)) or any(len(pool.needed) != len(requests) for pool in pools):
        raise ValueError("pools and requests have the same bins, at least one")
    return (1.0 - terms.attainment) * float(requests.sum()) + _CLOSE


def timed(counts: dict[str, Counts], terms: Terms) -> Steps:
    """Return what to order and when, as (seconds, counts of all pools), so that each bin has its replicas ready.

    A replica is ordered as long before as it takes to start, and removed when it is not needed any more.
    """
    bins = max(len(each) for each in counts.values())
    edges = terms.bin_seconds * np.arange(bins)
    moments = np.unique(np.concatenate([[0.0], edges, edges - terms.start_up_seconds]).round(6))
    moments = moments[moments >= 0.0]
    first = np.floor(moments / terms.bin_seconds + _CLOSE).astype(np.intp)
    last = np.floor((moments + terms.start_up_seconds) / terms.bin_seconds + _CLOSE).astype(np.intp)
    asked = {
        name: [int(each[low : high + 1].max()) for low, high in zip(first, last, strict=True)]
        for name, each in counts.items()
    }
    rows = [dict(zip(asked, row, strict=True)) for row in zip(*asked.values(), strict=True)]
    changes = [at for at, row in enumerate(rows) if not at or row != rows[at - 1]]
    return tuple((float(moments[at]), rows[at]) for at in changes)


def paid_seconds(pool: PoolNeed, counts: Counts, terms: Terms) -> float:
    """Return the GPU-seconds of counts, with starts and drains within the trace."""
    return _Program(pool, np.zeros(len(counts)), terms).cost(counts)


# ------------------------------------------------------------------------------------------------------ at a price


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """Counts of all programs, their GPU-seconds (`cost`), and the requests that they lose."""

    counts: tuple[Counts, ...]
    cost: float
    lost: float

    def at(self, price: float) -> float:
        """Return the cost where each lost request adds `price` GPU-seconds."""
        return self.cost + price * self.lost


class _Program:
    """The optimisation of one pool: what counts cost and lose in each bin, and what changes between bins cost."""

    def __init__(self, pool: PoolNeed, requests: Column, terms: Terms, *, by_excess: bool = False) -> None:
        most = max(pool.least, math.ceil(float(pool.needed.max()) - _CLOSE))
        begins = terms.bin_seconds * np.arange(len(requests))
        self._levels = np.arange(pool.least, most + 1)
        self._pool, self._requests, self._by_excess = pool, requests, by_excess
        self._bin_cost = pool.gpus * terms.bin_seconds
        self._up = pool.gpus * np.minimum(terms.start_up_seconds, begins)
        self._down = pool.gpus * np.minimum(terms.drain_seconds, terms.bin_seconds * len(requests) - begins)
        self._lost = np.ascontiguousarray(self.losses(self._levels[:, None]).T)

    def cheapest(self, price: float) -> Counts:
        """Return the counts of least cost where each lost request costs `price` GPU-seconds."""
        ups, downs = (np.outer(each, self._levels) for each in (self._up, self._down))
        best = self._bin_cost * self._levels + price * self._lost
        for at in range(1, len(best)):
            before, up, down = best[at - 1], ups[at], downs[at]
            rising = np.minimum.accumulate(before - up) + up
            falling = np.minimum.accumulate((before + down)[::-1])[::-1] - down
            best[at] += np.minimum(rising, falling)
        return self._walked_back(best)

    def _walked_back(self, best: Column) -> Counts:
        """Trace the cheapest path back from its cheapest end."""
        below, (ups, downs) = np.arange(len(self._levels)), (each.tolist() for each in (self._up, self._down))
        places = [int(best[-1].argmin())]
        for at in range(len(best) - 1, 0, -1):
            steps = places[-1] - below
            costs = np.maximum(ups[at] * steps, -downs[at] * steps)
            places.append(int((best[at - 1] + costs).argmin()))
        return self._levels[places[::-1]]

    def changes(self, before: Counts, after: Counts) -> Column:
        """Return the GPU-seconds of going from counts in one bin to those in the next, for each bin but the first."""
        steps = after - before
        return np.asarray(np.where(steps > 0, self._up[1:] * steps, -self._down[1:] * steps))

    def bins(self, counts: Counts) -> Column:
        """Return the GPU-seconds of serving in each bin."""
        return self._bin_cost * counts.astype(np.float64)

    def losses(self, counts: Counts) -> Column:
        """Return the requests lost in each bin; the last axis are bins."""
        return self._pool.lost(self._requests, counts, by_excess=self._by_excess)

    def cost(self, counts: Counts) -> float:
        """Return the GPU-seconds of all bins."""
        return float(self.bins(counts).sum() + self.changes(counts[:-1], counts[1:]).sum())

    @property
    def dearest(self) -> float:
        """A price at which nothing is lost: above the cost of any counts, over the least that can be lost in a bin."""
        all_changes = float(self._up.sum() + self._down.sum())
        most = float(self._levels[-1]) * (self._bin_cost * len(self._requests) + all_changes)
        return (1.0 + most) / float(self._lost.min(where=self._lost > 0.0, initial=math.inf))


def _priced(programs: Sequence[_Program], price: float) -> _Choice:
    return _chosen(programs, tuple(program.cheapest(price) for program in programs))


def _chosen(programs: Sequence[_Program], counts: tuple[Counts, ...]) -> _Choice:
    pairs = list(zip(programs, counts, strict=True))
    cost = sum(program.cost(each) for program, each in pairs)
    return _Choice(counts, cost, sum(float(program.losses(each).sum()) for program, each in pairs))


def _searched(programs: Sequence[_Program], allowed: float) -> tuple[_Choice, float]:
    """Return the cheapest counts found that lose no more than allowed, and a lower bound on their cost."""
    beyond = _priced(programs, 0.0)
    if beyond.lost <= allowed:
        return beyond, beyond.cost
    within = _priced(programs, sum(program.dearest for program in programs))
    bound = 0.0
    for _ in range(_MOST_PRICES):
        price = (within.cost - beyond.cost) / (beyond.lost - within.lost)
        found = _priced(programs, price)
        bound = max(bound, found.at(price) - price * allowed)
        if found.at(price) >= within.at(price) * (1.0 - _CLOSE):
            break
        within, beyond = (found, beyond) if found.lost <= allowed else (within, found)
    return _mixed(programs, within, beyond, allowed), bound


def _mixed(programs: Sequence[_Program], within: _Choice, beyond: _Choice, allowed: float) -> _Choice:
    """Return one choice until some bin and the other after it, where that is cheaper and loses no more than allowed."""
    best = within
    for first, then in ((within, beyond), (beyond, within)):
        parts = [_switched(*each) for each in zip(programs, first.counts, then.counts, strict=True)]
        costs, lost = (np.sum(column, axis=0) for column in zip(*parts, strict=True))
        costs = np.where(lost <= allowed, costs, np.inf)
        if costs.min(initial=np.inf) < best.cost:
            last = int(np.argmin(costs)) + 1
            pairs = zip(first.counts, then.counts, strict=True)
            best = _chosen(programs, tuple(np.concatenate([one[:last], other[last:]]) for one, other in pairs))
    return best


def _switched(program: _Program, first: Counts, then: Counts) -> tuple[Column, Column]:
    """Return GPU-seconds and losses for each possible last bin of the first counts, before switching to the others."""
    before, after = program.changes(first[:-1], first[1:]), program.changes(then[:-1], then[1:])
    costs = _joined(program.bins(first), program.bins(then)) + program.changes(first[:-1], then[1:])
    costs += np.cumsum(before) - before + np.sum(after) - np.cumsum(after)
    return costs, _joined(program.losses(first), program.losses(then))


def _joined(first: Column, then: Column) -> Column:
    """Sum the first column up to each place but the last one, plus the other column behind it."""
    return np.asarray(np.cumsum(first)[:-1] + np.sum(then) - np.cumsum(then)[:-1])
