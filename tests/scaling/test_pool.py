"""How many replicas one pool gets, over whole trajectories."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.scaling.cases import AUTO, Pool, reason, seen
from weft.domain.reasons import Reason
from weft.domain.scaling_spec import ScalingMode
from weft.domain.workload import Role

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolObservation


def test_a_new_pool_starts_with_what_was_declared() -> None:
    """5 requests/s with 10 % headroom over 2 per replica."""
    pool = Pool(declared_rate=5.0)
    answer = pool.step(None)
    assert answer.desired == 3
    assert answer.changed is not None
    assert (
        answer.changed.message
        == "0 -> 3 replicas: 5 requests/s declared, with 10% headroom, one replica serves 2 requests/s"
    )


@pytest.mark.parametrize(("headroom", "rate"), [(0.6, 1.9), (0.0, 2.5)])
def test_a_headroom_is_told_where_there_is_one(headroom: float, rate: float) -> None:
    """1.9 requests/s alone would not need a second replica of 2, and nothing else says why there is one."""
    pool = Pool().configured(headroom=headroom)
    pool.step(None)
    changes = [pool.step(seen(rate, 1)).changed for _ in range(6)]
    (told,) = [each.message for each in changes if each is not None]
    assert told.startswith("1 -> 2 replicas: ")
    assert ("waiting), with 60% headroom" in told) == (headroom > 0.0)
    assert ("headroom" in told) == (headroom > 0.0)


def test_demand_over_capacity_sets_the_count_in_one_decision() -> None:
    pool = Pool()
    pool.step(None)
    assert pool.step(seen(9.0, 1)).desired == 5


def test_replicas_that_start_are_counted_and_not_asked_for_again() -> None:
    """0 to 20 requests/s with starts of 110 s: the rate is asked for once, and the backlog does not double it.

    While only one replica runs it answers 2/s; the rest of 20/s piles up for two minutes.
    """
    pool = Pool(capacity=2.0).configured(max_replicas=40)
    pool.step(None)
    waiting = 0.0
    for _ in range(11):
        waiting += 18.0 * 10
        pool.step(seen(2.0, 1, waiting=waiting, running=30.0))
    assert pool.history[3] == pytest.approx(11, abs=1)
    assert pool.history[-1] <= 17
    grown = [later - earlier for earlier, later in zip(pool.history[3:], pool.history[4:], strict=False)]
    assert all(0 <= step <= 1 for step in grown)


def test_constant_load_never_flaps() -> None:
    pool = Pool(declared_rate=5.0)
    pool.step(None)
    pool.run(seen(5.0, 3, running=9.0), 1200)
    assert set(pool.history) == {3}
    assert reason(pool) is Reason.Steady


def test_load_that_hovers_between_two_counts_keeps_the_larger_and_says_steady() -> None:
    pool = Pool(declared_rate=5.0)
    pool.step(None)
    pool.run(seen(5.0, 3), 400)
    reasons = set()
    for index in range(60):
        pool.step(seen(3.5 if index % 2 else 3.8, 3))
        reasons.add(reason(pool))
    assert set(pool.history) == {3}
    assert reasons == {Reason.Steady}


def test_a_saturated_pool_grows_although_it_answers_no_more_than_before() -> None:
    pool = Pool(capacity=4.0)
    pool.current = 2
    pool.run(seen(4.0, 2, waiting=40.0), 120)
    assert pool.current > 2


def test_a_capacity_that_was_predicted_too_high_is_corrected_by_saturation() -> None:
    """Predicted 4 per replica, 2 replicas answer 4 in all and queue: one serves 2, so 2 replicas cannot be enough."""
    pool = Pool(capacity=4.0)
    pool.current = 2
    pool.step(seen(4.0, 2, waiting=10.0))
    assert pool.current == 2
    pool.run(seen(4.0, 2, waiting=10.0), 60)
    assert pool.current == 3


def test_a_pool_that_works_off_its_backlog_teaches_nothing_about_its_capacity() -> None:
    """Six replicas answer 12/s while 1000 requests leave the queues: those that came last have none to answer."""
    pool = Pool(capacity=4.0).configured(max_replicas=40)
    pool.current = 6
    for waiting in range(1000, 0, -100):
        pool.step(seen(12.0, 6, waiting=float(waiting)))
    assert set(pool.history) == {6}


def test_neither_a_pool_that_changes_nor_half_a_minute_of_saturation_shows_a_capacity() -> None:
    pool = Pool(capacity=4.0).configured(max_replicas=40)
    pool.current = 3
    pool.run(seen(6.0, 3, waiting=20.0), 60)
    pool.step(seen(6.0, 2, waiting=20.0))
    pool.run(seen(6.0, 3, waiting=20.0), 50)
    assert set(pool.history) == {3}


def test_a_backlog_keeps_a_pool_from_shrinking() -> None:
    pool = Pool()
    pool.current = 5
    pool.run(seen(1.0, 5, waiting=6.0), 1000)
    assert set(pool.history) == {5}


def test_scale_down_goes_to_the_most_of_the_last_window() -> None:
    pool = Pool()
    pool.current = 8
    pool.run(seen(14.0, 8), 400)
    pool.run(seen(5.0, 8), 60)
    pool.step(seen(9.0, 8))
    pool.run(seen(2.5, 8), 230)
    assert pool.current == 8
    assert reason(pool) is Reason.HoldStabilizing
    pool.run(seen(2.5, 8), 60)
    assert pool.current == 5, "9 requests/s were seen within the window"
    pool.run(seen(2.5, 5), 420)
    assert pool.current == 2


def test_a_dip_inside_the_window_is_not_followed() -> None:
    pool = Pool()
    pool.current = 5
    pool.run(seen(8.5, 5), 400)
    pool.run(seen(0.0, 5), 120)
    pool.run(seen(8.5, 5), 600)
    assert set(pool.history) == {5}


def test_nothing_shrinks_before_this_process_has_seen_one_window() -> None:
    pool = Pool()
    pool.current = 5
    pool.run(seen(1.0, 5), 300)
    assert pool.current == 5
    assert reason(pool) is Reason.HoldAfterStart
    pool.step(seen(1.0, 5))
    assert pool.current == 1


@pytest.mark.parametrize("unseen", [None, seen(1.0, 5, waiting=None)], ids=["absent", "incomplete"])
def test_the_window_after_a_start_begins_with_the_first_complete_metrics(unseen: PoolObservation | None) -> None:
    pool = Pool()
    pool.current = 5
    pool.run(unseen, 600)
    pool.run(seen(1.0, 5), 300)
    assert pool.current == 5
    assert reason(pool) is Reason.HoldAfterStart
    pool.step(seen(1.0, 5))
    assert pool.current == 1


def test_a_gap_in_the_metrics_starts_the_window_anew() -> None:
    pool = Pool()
    pool.current = 5
    pool.run(seen(1.0, 5), 250)
    pool.run(None, 100)
    pool.run(seen(1.0, 5), 300)
    assert pool.current == 5
    pool.step(seen(1.0, 5))
    assert pool.current == 1


def test_one_missed_scrape_is_no_news() -> None:
    """Neither the count nor the reason changes, so nothing is written."""
    pool = Pool(declared_rate=5.0)
    pool.current = 3
    pool.run(seen(5.0, 3), 400)
    before = pool.answer
    pool.step(None)
    assert before is not None
    assert pool.answer is not None
    assert pool.answer.explanation == before.explanation
    pool.run(None, 70)
    assert reason(pool) is Reason.HoldMetricsMissing


@pytest.mark.parametrize(
    "broken",
    [
        None,
        seen(math.nan, 5),
        seen(-1.0, 5),
        seen(math.inf, 5),
        seen(None, 5),
        replace(seen(0.0, 5), age_seconds=3600.0),
        replace(seen(0.0, 5), age_seconds=math.nan),
        seen(0.0, 5, answered=0),
        seen(0.0, 0),
        seen(0.0, 5, answered=4),
        seen(0.0, 5, waiting=None),
        seen(0.0, 5, waiting=math.nan),
        seen(0.0, 5, running=-3.0),
    ],
    ids=[
        "absent", "rate NaN", "rate negative", "rate infinite", "rate missing", "stale", "age NaN", "nobody answered",
        "nobody ready", "one did not answer", "queue missing", "queue NaN", "running negative",
    ],
)  # fmt: skip
def test_broken_metrics_hold_the_count(broken: PoolObservation | None) -> None:
    pool = Pool()
    pool.current = 5
    pool.run(seen(8.5, 5), 400)
    pool.run(broken, 2000)
    assert set(pool.history) == {5}
    assert reason(pool) is Reason.HoldMetricsMissing


def test_a_partial_answer_may_still_ask_for_more() -> None:
    """Four of five replicas already report more than five can serve: their sum is a lower bound."""
    pool = Pool()
    pool.current = 5
    pool.step(seen(15.0, 5, answered=4))
    assert pool.current == 9


def test_zero_requests_are_a_measurement_and_shrink_to_the_minimum() -> None:
    pool = Pool().configured(min_replicas=2)
    pool.current = 5
    pool.run(seen(0.0, 5), 400)
    assert pool.current == 2
    assert reason(pool) is Reason.AtMinimum
    assert pool.answer is not None
    assert pool.answer.explanation.message == "demand needs fewer than minReplicas 2"


def test_bounds_hold_whatever_is_wanted() -> None:
    pool = Pool().configured(max_replicas=4)
    pool.step(seen(1e30, 1))
    assert (pool.current, reason(pool)) == (4, Reason.AtMaximum)
    pool.configured(max_gpus=20)
    pool.step(seen(1e30, 4))
    assert (pool.current, reason(pool)) == (2, Reason.BudgetExhausted)


def test_a_budget_below_one_replica_wins_over_the_minimum() -> None:
    pool = Pool().configured(max_gpus=7)
    pool.step(None)
    pool.step(None)
    assert (pool.current, reason(pool)) == (0, Reason.BudgetExhausted)
    assert pool.answer is not None
    assert pool.answer.shortfall == pool.answer.explanation
    assert (
        pool.answer.explanation.message == "spec.scaling.maxGPUs 7 allows 0 replicas of 8 GPUs: raise it to at least 8"
    )


def test_a_budget_below_the_minimum_says_how_far_to_raise_it() -> None:
    pool = Pool().configured(max_gpus=17, min_replicas=3)
    answer = pool.step(None)
    assert pool.current == 2
    assert answer.shortfall is not None
    assert answer.shortfall.message == (
        "spec.scaling.maxGPUs 17 allows 2 replicas of 8 GPUs, fewer than minReplicas 3: "
        "raise it to 24 or lower minReplicas"
    )
    assert pool.configured(max_gpus=24).step(None).shortfall is None


def test_max_step_limits_each_minute_and_not_each_pass() -> None:
    pool = Pool().configured(max_step=2)
    pool.current = 1
    pool.run(seen(1.0, 1), 60)
    pool.step(seen(100.0, 1))
    assert (pool.current, reason(pool)) == (3, Reason.StepLimited)
    pool.run(seen(100.0, 3), 50)
    assert pool.current == 3
    pool.step(seen(100.0, 3))
    assert pool.current == 5
    answer = pool.configured(max_step=1).step(seen(100.0, 5), seconds=60.0)
    assert answer.explanation.message == "maxStep 1 allows 1 replica a minute; demand needs more than 6"


def test_a_restart_is_no_new_minute_for_max_step() -> None:
    """The count may have changed the moment before: four replicas came within one minute."""
    pool = Pool(declared_rate=6.0).configured(max_step=2)
    pool.step(None)
    assert pool.current == 4, "the first count of a new pool waits for nothing"
    pool.run(seen(30.0, 4), 60)
    assert pool.current == 6
    pool.answer = None  # all memory is lost
    pool.run(seen(30.0, 6), 60)
    assert (pool.current, reason(pool)) == (6, Reason.StepLimited)
    pool.step(seen(30.0, 6))
    assert pool.current == 8


def test_external_mode_leaves_the_count_to_its_owner_and_recommends() -> None:
    pool = Pool().configured(mode=ScalingMode.External, replicas=4)
    answer = pool.step(seen(9.0, 4))
    assert (answer.desired, answer.recommended) == (4, 5)
    assert answer.explanation.reason is Reason.OwnedExternally
    assert answer.changed is None
    pool.configured(replicas=50)
    bounded = pool.step(seen(9.0, 4))
    assert bounded.desired == 10
    assert "spec.scaling.replicas is 50, which the bounds make 10" == bounded.explanation.message


def test_a_request_that_waits_for_its_kv_is_no_decode_backlog() -> None:
    """50 requests in `deferred`, an empty cache: more decode GPUs would not bring their KV sooner."""
    waiting_for_transfer = replace(seen(1.0, 1, waiting=50.0), kv_usage=0.2)
    decode = Pool(role=Role.Decode)
    decode.current = 1
    decode.run(waiting_for_transfer, 200)
    assert set(decode.history) == {1}
    decode.run(replace(waiting_for_transfer, kv_usage=0.9), 200)
    assert decode.current > 1


def test_kv_under_way_fills_the_memory_of_decode_without_any_backlog() -> None:
    """50 prompts have reserved what is held, one runs; others wait for memory that transfers keep, not engines."""
    full = replace(seen(1.0, 1, waiting=40.0, running=1.0), kv_usage=0.99, waiting_for_kv=50.0)
    decode = Pool(role=Role.Decode)
    decode.current = 1
    decode.run(full, 200)
    assert set(decode.history) == {1}
    decode.run(replace(full, waiting_for_kv=0.0), 200)
    assert decode.current > 1


def test_an_unknown_capacity_holds() -> None:
    pool = Pool(capacity=0.0)
    pool.step(None)
    assert pool.current == AUTO.min_replicas
    pool.current = 4
    pool.run(seen(9.0, 4), 600)
    assert pool.current == 4


def test_the_same_question_twice_has_the_same_answer_and_remembers_nothing_new() -> None:
    pool = Pool(declared_rate=5.0)
    for observation in (None, seen(9.0, 3), seen(1.0, 5), None):
        first = pool.step(observation)
        pool.accept(first)
        second = pool.step(observation, seconds=0.0)
        assert second == replace(first, changed=None)


def test_a_ramp_is_followed_by_the_count_of_the_last_seconds() -> None:
    """The minute's mean lags behind a ramp; what surely came in lately does not, and small counts buy nothing."""
    pool = Pool(capacity=5.0).configured(max_replicas=40)
    pool.step(None)
    pool.step(replace(seen(4.0, 1, running=10.0), arrivals=600.0, arrival_seconds=15.0))
    assert 8 <= pool.history[-1] <= 9
    quiet = Pool(capacity=5.0).configured(max_replicas=40)
    quiet.step(None)
    quiet.step(replace(seen(1.0, 1, running=1.0), arrivals=9.0, arrival_seconds=2.0))
    assert quiet.history[-1] == 1


def test_a_peak_of_seconds_counts_by_how_long_requests_stay() -> None:
    """20/s, then 24 for 15 s, of which 22 surely came: answers of a second meet all of it, of a minute little."""

    def count_after(running: float) -> int:
        pool = Pool(capacity=0.1).configured(max_replicas=400, headroom=0.0, risk=0.5)
        pool.current = 200
        pool.run(replace(seen(20.0, 200, running=running), arrivals=300.0, arrival_seconds=15.0), 300)
        before = pool.current
        pool.step(replace(seen(20.0, 200, running=running), arrivals=360.0, arrival_seconds=15.0))
        return pool.current - before

    assert count_after(running=20.0) >= 20
    assert count_after(running=1200.0) <= 6


def test_a_backlog_that_is_worked_off_is_no_demand() -> None:
    """6 requests/s are answered of which 2 were waiting."""
    pool = Pool(capacity=1.0).configured(max_replicas=40, headroom=0.0)
    pool.current = 6
    for index in range(60):
        pool.step(seen(6.0, 6, running=max(0.0, 1200.0 - 20.0 * index)))
    assert pool.current <= 6
