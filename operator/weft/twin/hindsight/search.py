"""A search for the cheapest of the oracle's counts that meet the SLO in a simulation, in few simulated runs.

Counts that are enough in the fluid of `need` may not be so in a simulation, for two reasons, and each has its own
remedy. Queues and uneven routing ask for more replicas: `slack`. And starts do not all take the median time, the
first on a node pulls an image, and an order is followed seconds after it is given: what is ordered a start before a
burst comes too late for some of it, and no number of replicas that come as late mends that. For it starts are taken to
last longer (`late`), so that orders come earlier. With slack alone, valleys would have to be bridged for a start's few
seconds.

More slack is taken to be never worse, which holds but for chance; so it is halved towards the least that is enough, but
the answer is the cheapest run of all that were enough and not the last. A plan that is no cheaper than the one of this
run is taken as enough without a run, and counts that were simulated are not simulated again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.twin.hindsight.oracle import OracleHours, Steps

    Planner = Callable[[float, float], OracleHours]
    _Key = tuple[tuple[float, tuple[tuple[str, int], ...]], ...]

T = TypeVar("T")

MOST_RUNS = 24
# Fractions of a start by which it is taken to last longer. First the one that usually is enough, then the longest, as
# a longer one helps where the first one does not.
LATE = (0.25, 1.0, 0.1, 0.5, 0.05, 0.0)
_LEAST_SLACK, _MOST_SLACK = 0.25, 4.0
_GROWTH, _PRECISION = 1.25, 0.01


@dataclass(frozen=True, slots=True)
class Run(Generic[T]):
    """The `outcome` of a simulation: its GPU-hours, the fraction of requests in time, and whether that is `enough`."""

    outcome: T
    hours: float
    attainment: float
    enough: bool

    @property
    def rank(self) -> tuple[bool, float, float]:
        """A sort key, the greater the better: enough and cheap, else near to enough and then cheap."""
        return self.enough, 0.0 if self.enough else self.attainment, -self.hours


def cheapest_run(plan: Planner, simulate: Callable[[Steps], Run[T]]) -> Run[T]:
    """Return the cheapest run that was enough; if none was, the one that came nearest.

    `plan` answers for a slack, and for a fraction of a start by which starts last longer. At least one and at most
    `MOST_RUNS` runs are simulated; where no plan is enough, ordering nothing is one of them.
    """
    search = _Search(plan, simulate)
    for late in LATE:
        if not search.spent:
            search.narrow(late)
    return search.best if search.best is not None and search.best.enough else search.simulated(())


@dataclass(slots=True)
class _Search(Generic[T]):
    """The simulations so far: which steps were enough, the best run, and its planned hours if it was enough."""

    plan: Planner
    simulate: Callable[[Steps], Run[T]]
    verdicts: dict[_Key, bool] = field(default_factory=dict)
    best: Run[T] | None = None
    planned_hours: float = math.inf

    @property
    def spent(self) -> bool:
        """Whether only the last run is left, which is kept for ordering nothing."""
        return len(self.verdicts) >= MOST_RUNS - 1

    def narrow(self, late: float) -> None:
        """Find the least slack that is enough: first in steps of a quarter, up or down, and then by halving."""
        enough = 1.0
        while not self.is_enough(enough, late):
            if enough >= _MOST_SLACK:
                return
            enough = min(_MOST_SLACK, _GROWTH * enough)
        too_little = enough / _GROWTH
        while enough > _LEAST_SLACK and self.is_enough(too_little, late):
            too_little, enough = too_little / _GROWTH, too_little
        while enough - too_little > _PRECISION:
            middle = (enough + too_little) / 2.0
            too_little, enough = (too_little, middle) if self.is_enough(middle, late) else (middle, enough)

    def is_enough(self, slack: float, late: float) -> bool:
        """Whether to look at no more slack: it is enough, or dearer than a plan that is, or the runs are used up."""
        planned = self.plan(slack, late)
        key = _key(planned.steps)
        if key not in self.verdicts:
            if planned.hours >= self.planned_hours or self.spent:
                return True
            before = self.best
            if self.simulated(planned.steps) is not before and self.verdicts[key]:
                self.planned_hours = planned.hours
        return self.verdicts[key]

    def simulated(self, steps: Steps) -> Run[T]:
        """Simulate these steps, and return the best run so far."""
        run = self.simulate(steps)
        self.verdicts[_key(steps)] = run.enough
        if self.best is None or run.rank > self.best.rank:
            self.best = run
        return self.best


def _key(steps: Steps) -> _Key:
    return tuple((at, tuple(counts.items())) for at, counts in steps)
