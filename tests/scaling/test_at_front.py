"""What a front counts and what engines count, while replicas come and go: whom a pool believes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.scaling.cases import Pool, seen
from weft.scaling.forecasting.forecast import expected

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolObservation


def at_front(observation: PoolObservation, arriving: float) -> PoolObservation:
    """The same, where the front counts so many requests per second."""
    return replace(observation, arrivals=arriving * 10.0, arrival_seconds=10.0, arrivals_at_front=True)


def test_what_draining_replicas_answer_is_missed_by_none_that_counts_at_the_front() -> None:
    """A rollout of ten replicas: half of the answers are those of replicas that leave."""
    pool = Pool(capacity=2.5).configured(max_replicas=40, headroom=0.5)
    pool.current = 12
    pool.run(at_front(seen(20.0, 10), 20.0), 600)
    before = pool.current
    pool.run(at_front(seen(9.4, 10), 20.0), 900)
    assert pool.current == before


def test_what_the_front_counts_is_learnt_from_while_some_replicas_have_not_told_yet() -> None:
    """Of ten that serve one is always new: whoever scales out would else foretell nothing just then."""
    told, untold = Pool(capacity=2.5).configured(max_replicas=40), Pool(capacity=2.5).configured(max_replicas=40)
    told.current = untold.current = 10
    some = seen(18.0, 10, answered=9)
    learnt = told.run(at_front(some, 20.0), 600).memory.forecast
    assert learnt is not None
    assert expected(learnt) == pytest.approx(20.0, rel=0.05)
    unknown = untold.run(some, 600).memory.forecast
    assert unknown is None


def test_without_a_front_nothing_shrinks_while_replicas_leave_and_for_a_window_after() -> None:
    pool = Pool(capacity=2.2).configured(max_replicas=40)
    pool.current = 10
    pool.run(seen(20.0, 10), 600)
    before = pool.current
    for index in range(30):
        pool.run(seen(9.4, 10 + index % 2), 30)
    pool.run(seen(9.4, 10), 300)
    assert pool.current == before
    pool.run(seen(9.4, 10), 120)
    assert pool.current < before


@pytest.mark.parametrize("fronted", [False, True])
def test_load_that_moves_to_the_replica_that_stays_is_no_growth(*, fronted: bool) -> None:
    """One of two leaves: the other one answers 0.5 requests/s yet and fills with what both had inside."""
    pool = Pool(capacity=1.6).configured(headroom=0.0)
    pool.current = 1
    for rate, replicas, running in ((0.5, 2, 6.0), (0.47, 1, 3.0), (0.47, 1, 60.0)):
        observation = seen(rate, replicas, running=running)
        pool.run(at_front(observation, 1.0) if fronted else observation, 20)
    assert set(pool.history) == {1}


def test_what_no_front_counts_is_seen_at_the_engines() -> None:
    """Only one in four requests goes through the front."""
    pool = Pool().configured(headroom=0.0)
    pool.current = 4
    pool.run(at_front(seen(8.0, 4), 2.0), 900)
    assert set(pool.history) == {4}
