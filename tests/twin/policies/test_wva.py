"""llm-d's token analyzer by hand: 80 % of 70,400 KV tokens are 56,320 a replica unless a queue shows less."""

from __future__ import annotations

import pytest

from tests.twin.policies.fluid import Fluid
from tests.twin.policies.views import pod, view
from weft.twin.policies.wva import SAMPLE, WvaOptions

AT_ONCE = WvaOptions(behavior=SAMPLE, tolerance=0.0)


@pytest.mark.parametrize(
    ("count", "kv", "wanted"),
    [(4, 0.75, 5), (4, 1.0, 6), (4, 0.60, 4), (4, 0.25, 2), (4, 0.0, 1)],
    # 4 x 52,800 / 0.85 - 225,280 = 23,191; 4 x 70,400 / 0.85 - 225,280 = 106,014; 225,280 - 70,400 / 0.70 = 124,709
    ids=["grows", "grows by what is missing", "between the bounds", "shrinks by what is spare", "one is left"],
)
def test_tokens_in_use_are_held_against_what_replicas_hold(count: int, kv: float, wanted: int) -> None:
    assert {"chat": wanted} == AT_ONCE.policy().counts(0.0, (view(*[pod(kv=kv)] * count),))


def test_the_queue_is_demand_by_its_mean_prompt() -> None:
    # 4 x (42,240 + 4 x 1,000) / 0.85 = 217,600 fits; with 5 x 1,000 the compute bound is what is in use
    assert {"chat": 4} == AT_ONCE.policy().counts(0.0, (view(*[pod(waiting=4.0, kv=0.6)] * 4),))
    assert {"chat": 6} == AT_ONCE.policy().counts(0.0, (view(*[pod(waiting=5.0, kv=0.6)] * 4),))


def test_what_a_replica_with_a_queue_holds_is_remembered_for_answers_of_like_length() -> None:
    policy = AT_ONCE.policy()
    assert {"chat": 5} == policy.counts(0.0, (view(*[pod(waiting=5.0, kv=0.5)] * 3),))  # 120,600 / 0.85 - 105,600
    assert {"chat": 4} == policy.counts(30.0, (view(*[pod(kv=0.5)] * 3),))  # still 35,200 a replica
    assert {"chat": 3} == policy.counts(60.0, (view(*[pod(kv=0.5, answer=600.0)] * 3),))
    assert {"chat": 3} == AT_ONCE.policy().counts(0.0, (view(*[pod(kv=0.5)] * 3),))


def test_replicas_that_start_count_before_more_are_added_and_not_before_some_are_removed() -> None:
    assert {"chat": 5} == AT_ONCE.policy().counts(0.0, (view(*[pod(kv=0.75)] * 4, count=5),))
    assert {"chat": 3} == AT_ONCE.policy().counts(0.0, (view(*[pod(kv=0.25)] * 4, count=5),))


def test_the_tolerance_of_the_hpa_swallows_a_step_of_a_large_pool() -> None:
    seen = view(*[pod(kv=0.69)] * 20)  # 971,520 / 0.85 - 1,126,400: one more is wanted
    assert {"chat": 20} == WvaOptions(behavior=SAMPLE).policy().counts(0.0, (seen,))
    assert {"chat": 21} == AT_ONCE.policy().counts(0.0, (seen,))


def test_the_hpa_of_the_chart_waits_for_four_minutes_and_moves_ten_pods_at_most() -> None:
    policy = WvaOptions(tolerance=0.0).policy()
    seen = view(*[pod(kv=1.0)] * 40)
    answers = [policy.counts(15.0 * tick, (seen,))["chat"] for tick in range(17)]
    assert [40] * 16 == answers[:16]
    assert 50 == answers[16]  # of 59 that it wants


def test_the_gauge_is_set_every_30_seconds_and_read_every_15() -> None:
    policy = AT_ONCE.policy()
    assert {"chat": 4} == policy.counts(0.0, (view(*[pod(kv=0.6)] * 4),))
    assert {"chat": 4} == policy.counts(15.0, (view(*[pod(kv=1.0)] * 4),))
    assert {"chat": 6} == policy.counts(30.0, (view(*[pod(kv=1.0)] * 4),))


def test_without_metrics_the_gauge_stays() -> None:
    policy = AT_ONCE.policy()
    assert {} == policy.counts(0.0, (view(pod(), blind=True),))
    assert {"chat": 5} == policy.counts(15.0, (view(*[pod(kv=0.75)] * 4),))
    assert {"chat": 5} == policy.counts(60.0, (view(*[pod(kv=0.75)] * 5, blind=True),))


def test_replicas_that_do_not_answer_count_as_free() -> None:
    assert {"chat": 2} == AT_ONCE.policy().counts(0.0, (view(*[pod(kv=0.5)] * 2, ready=4),))


def test_it_settles_where_one_count_lies_between_the_bounds() -> None:
    assert 1 == len(set(Fluid(WvaOptions().policy(), lambda _: 90.0).run(7200.0).last_counts))


def test_tokens_in_use_shrink_faster_than_replicas_grow_so_it_flaps() -> None:
    """Six look like four too many: with steps that are faster, the same requests leave the cache sooner."""
    assert {4, 6} == set(Fluid(WvaOptions().policy(), lambda _: 30.0).run(7200.0).last_counts)
