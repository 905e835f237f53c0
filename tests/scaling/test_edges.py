"""Moments on the edge of a window, clocks that were set back, and what counts while part of the sight is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.scaling.cases import Pool, reason, seen
from tests.scaling.test_at_front import at_front
from weft.domain.pool_memory import LoadSample, ScaleMemory
from weft.domain.reasons import Reason
from weft.domain.snapshot import PodObservation, PoolObservation
from weft.scaling.forecasting.learning import MOST_RATE
from weft.scaling.sight import look

WINDOW = 300.0  # the delay of scaling down in `Pool`


def remembering(pool: Pool, **fields: object) -> Pool:
    """The pool with other things in its memory."""
    assert pool.answer is not None
    pool.answer = replace(pool.answer, memory=replace(pool.answer.memory, **fields))  # type: ignore[arg-type]
    return pool


def settled(rate: float = 3.0, replicas: int = 2) -> Pool:
    pool = Pool()
    pool.current = replicas
    pool.run(seen(rate, replicas), 600)
    return pool


def test_a_freeze_is_over_at_the_second_that_it_names() -> None:
    pool = Pool()
    pool.current = 2
    pool.configured(freeze_until=pool.now + 10)
    pool.step(seen(15.0, 2))
    assert (pool.current > 2, reason(pool) is Reason.Frozen) == (True, False)


def test_a_step_of_the_future_holds_nobody_up() -> None:
    """The clock was set back by an hour, and `maxStep` would wait for it."""
    pool = settled().configured(max_step=1)
    remembering(pool, stepped=pool.now + 3600.0)
    pool.step(seen(30.0, 2))
    assert pool.current == 3


@pytest.mark.parametrize(("ago", "stays"), [(WINDOW, True), (WINDOW + 1.0, False), (-3600.0, False)])
def test_what_was_wanted_counts_for_one_window_and_never_from_the_future(ago: float, stays: bool) -> None:  # noqa: FBT001 - a case
    pool = settled()
    now = pool.now + 10.0
    remembering(pool, wanted=((now - ago, 9), (pool.now, 2)))
    answer = pool.step(seen(3.0, 2))
    assert (now - ago in {at for at, _ in answer.memory.wanted}) == stays


def test_while_only_a_front_tells_no_less_is_kept_than_was_wanted() -> None:
    """No engine answers: what demand needed before is what keeps the count when they do again."""
    pool = settled(rate=14.0, replicas=8)
    remembering(pool, wanted=((pool.now, 8),), with_chance=())
    blind = at_front(seen(None, 8, answered=0), 1.0)
    answer = pool.step(blind)
    assert max(count for _, count in answer.memory.with_chance) >= 8


def test_a_gap_of_a_minute_is_no_news() -> None:
    pool = settled()
    before = pool.answer
    assert before is not None
    assert pool.step(seen(None, 2, answered=0), 60.0).explanation == before.explanation
    assert pool.step(seen(None, 2, answered=0), 1.0).explanation.reason is Reason.HoldMetricsMissing


def test_sight_that_began_in_the_future_begins_now() -> None:
    """A clock that was set back by an hour would keep the pool from shrinking for as long."""
    pool = remembering(settled(), since=2_000_000.0)
    assert pool.step(seen(3.0, 2)).memory.since == pool.now


def test_an_exchange_of_the_future_makes_replicas_no_others() -> None:
    pool = settled()
    remembering(pool, exchanged=pool.now + 3600.0)
    assert look(pool.request(seen(3.0, 2))).same_replicas


@pytest.mark.parametrize(("names", "lacks"), [("a b", False), ("a b c", False), ("a c", True), ("a", True)])
def test_answers_are_missing_only_where_a_replica_left(names: str, lacks: bool) -> None:  # noqa: FBT001 - a case
    """One that is added takes none with it."""
    pool = Pool()
    pool.current = 2
    pool.run(with_pods("a b"), 120)
    assert look(pool.request(with_pods(names))).lacks_some == lacks


def with_pods(names: str) -> PoolObservation:
    each = tuple(PodObservation(name, 5.0, requests_per_second=1.0) for name in names.split())
    return replace(seen(float(len(each)), len(each)), pods=each)


def memory(now: float, lasting: float, front: float | None, **fields: object) -> ScaleMemory:
    """Of a pool that answers 20 requests a second and has had these two replicas for a minute."""
    loads = tuple(LoadSample(now - ago, 0.0, 2400.0, 2, front) for ago in (70.0, 40.0, 10.0))
    known = ScaleMemory(since=0.0, seen=now - 10.0, loads=loads, lasting=lasting)
    return replace(known, **fields)  # type: ignore[arg-type]


def lasting_after(
    rate: float, before: float, *, front: float | None = None, waiting: float = 0.0, parted: bool = False
) -> float:
    """What comes, averaged over stays of two minutes, after one more look at `rate` requests a second."""
    pool = Pool(capacity=20.0)
    observation = seen(rate, 2, waiting=waiting, running=120.0 * rate)
    observation = observation if front is None else at_front(observation, front)
    at = pool.now - 20.0 if parted else None
    request = replace(
        pool.request(observation), current=2, memory=memory(pool.now, before, front, parted=at, exchanged=at)
    )
    found = look(request).memory.lasting
    assert found is not None
    return found


def test_a_backlog_is_no_long_stay() -> None:
    """Engines that are full answer slowly: what comes then counts as it comes."""
    assert 20.0 < lasting_after(20.0, 60.0) < 60.0
    assert lasting_after(20.0, 60.0, waiting=500.0) == pytest.approx(20.0 + 500.0 / 70.0)


def test_what_comes_never_seems_less_while_answers_of_some_that_left_are_missing() -> None:
    """Unless a front counts all of it."""
    assert lasting_after(10.0, 30.0) < 30.0
    assert lasting_after(10.0, 30.0, parted=True) == 30.0
    assert lasting_after(10.0, 30.0, front=10.0, parted=True) < 30.0


def test_a_rate_that_nobody_can_have_is_cut_before_it_is_averaged() -> None:
    assert lasting_after(20.0, 30.0, front=1e300) <= MOST_RATE
