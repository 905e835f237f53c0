"""The search for the oracle's counts: few runs, the cheapest that is enough, and orders early rather than many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from weft.twin.hindsight.oracle import PoolNeed, Terms, oracle_hours
from weft.twin.hindsight.search import LATE, MOST_RUNS, Run, cheapest_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.twin.hindsight.oracle import OracleHours, Steps

REQUESTS = np.ones(12)
PEAK = PoolNeed("pool", 1, np.array([4.0] * 6 + [8.0] + [4.0] * 5))
TERMS = Terms(60.0, 100.0, attainment=1.0)


def plan(slack: float, late: float) -> OracleHours:
    """A peak of one bin after six minutes, to be ordered 100 s or more before."""
    starts = (1.0 + late) * TERMS.start_up_seconds
    return oracle_hours([PEAK], REQUESTS, Terms(60.0, starts, attainment=1.0), slack)


def most(steps: Steps) -> int:
    return max((each["pool"] for _, each in steps), default=0)


class Simulated:
    """Runs that are asked for, at the price of what is held; `attained` says what part of the requests is in time."""

    def __init__(self, attained: Callable[[Steps], float]) -> None:
        self.attained, self.runs = attained, list[Run["Steps"]]()

    def __call__(self, steps: Steps) -> Run[Steps]:
        ends = [at for at, _ in steps[1:]] + [720.0]
        hours = sum((end - at) * each["pool"] for (at, each), end in zip(steps, ends, strict=False)) / 3600.0
        attained = self.attained(steps)
        self.runs.append(Run(steps, hours, attained, attained >= 0.99))
        return self.runs[-1]


@pytest.mark.parametrize("least", [3, 5, 7, 8, 9, 11, 13, 20])
def test_the_least_that_is_enough_is_found_whether_it_is_more_or_less_than_needed(least: int) -> None:
    simulated = Simulated(lambda steps: 0.999 if most(steps) >= least else 0.9)
    assert least == most(cheapest_run(plan, simulated).outcome)


@pytest.mark.parametrize("least", [1, 5, 11, 33, 100])
def test_few_are_simulated_and_nothing_twice(least: int) -> None:
    simulated = Simulated(lambda steps: 0.999 if most(steps) >= least else 0.9)
    cheapest_run(plan, simulated)
    asked = [str(run.outcome) for run in simulated.runs]
    assert len(set(asked)) == len(asked) <= MOST_RUNS


def test_what_comes_too_late_is_ordered_sooner_and_not_held_all_the_time() -> None:
    """A start that takes 10 s more than the median is too late for the peak."""

    def attained(steps: Steps) -> float:
        return 0.999 if any(each["pool"] >= 8 and at <= 360.0 - 110.0 for at, each in steps) else 0.6

    found = cheapest_run(plan, Simulated(attained))
    assert 8 == most(found.outcome)
    assert found.outcome == plan(1.0, 0.1).steps
    assert found.hours < 8 * 0.2


def test_the_cheapest_of_all_runs_that_are_enough_is_taken() -> None:
    """More is worse in places, so that halving ends beside the least."""
    simulated = Simulated(lambda steps: 0.999 if most(steps) in {8, 6, 12} else 0.9)
    found = cheapest_run(plan, simulated)
    assert found.enough
    assert found.hours == min(run.hours for run in simulated.runs if run.enough)


def test_where_nothing_is_enough_it_is_the_cheapest_of_those_that_are_nearest_to_it() -> None:
    simulated = Simulated(lambda steps: 0.9 if most(steps) >= 12 else 0.5)
    found = cheapest_run(plan, simulated)
    assert 0.9 == found.attainment
    assert found.hours == min(run.hours for run in simulated.runs if run.attainment == found.attainment)
    assert len(simulated.runs) <= MOST_RUNS


def test_where_no_order_is_of_use_none_is_given() -> None:
    simulated = Simulated(lambda _: 0.9)
    assert () == cheapest_run(plan, simulated).outcome
    assert len(simulated.runs) <= MOST_RUNS


def test_the_longest_starts_are_tried_before_runs_are_used_up() -> None:
    """Each start may use up to nine."""
    longest = max(LATE)

    def attained(steps: Steps) -> float:
        sooner = any(each["pool"] > 4 and at <= 360.0 - (1.0 + longest) * 100.0 for at, each in steps)
        return 0.999 if sooner else 0.6

    assert cheapest_run(plan, Simulated(attained)).enough
