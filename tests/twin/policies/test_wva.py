"""llm-d's token analyzer by hand: 80 % of 70,400 KV tokens are 56,320 a replica unless a queue shows less."""

from __future__ import annotations

import pytest

from tests.twin.policies.fluid import Fluid
from tests.twin.policies.views import pod, view
from weft.domain.workload import Role
from weft.twin.policies.wva import GUIDE, SAMPLE, WvaOptions

AT_ONCE = WvaOptions(behavior=SAMPLE, tolerance=0.0)


@pytest.mark.parametrize(
    ("count", "kv", "wanted"),
    [(4, 0.75, 5), (4, 1.0, 6), (4, 0.60, 4), (4, 0.25, 2), (4, 0.0, 1)],
    # 4 x 52,800 / 0.85 - 225,280 = 23,191; 4 x 70,400 / 0.85 - 225,280 = 106,014; 225,280 - 70,400 / 0.70 = 124,709
    ids=["grows", "grows by what is missing", "between the bounds", "shrinks by what is spare", "one is left"],
)
def test_tokens_in_use_are_held_against_what_replicas_hold(count: int, kv: float, wanted: int) -> None:
    assert {"chat": wanted} == AT_ONCE.policy().counts(0.0, (view(*[pod(kv=kv)] * count),))


@pytest.mark.parametrize(("role", "wanted"), [(Role.Aggregated, 5), (Role.Decode, 5), (Role.Prefill, 4)])
def test_the_queue_is_demand_by_its_mean_prompt_and_answer_and_in_prefill_by_its_prompt(
    role: Role, wanted: int
) -> None:
    """WVA v0.9.0, saturation_v2/analyzer.go, `waitingQueueDemand`."""
    # 4 x (43,648 + 4 x 1,200) / 0.85 - 225,280 = 2,710; with 4 x 1,000 it fits
    seen = view(*[pod(waiting=4.0, kv=0.62)] * 4, role=role)
    assert {"chat": wanted} == AT_ONCE.policy().counts(0.0, (seen,))


def test_with_a_queue_of_five_what_is_in_use_is_the_compute_bound() -> None:
    # 4 x (42,240 + 5 x 1,200) / 0.85 - 168,960 = 58,052
    assert {"chat": 6} == AT_ONCE.policy().counts(0.0, (view(*[pod(waiting=5.0, kv=0.6)] * 4),))


def test_what_a_replica_with_a_queue_holds_is_remembered_for_answers_of_like_length() -> None:
    policy = AT_ONCE.policy()
    assert {"chat": 5} == policy.counts(0.0, (view(*[pod(waiting=5.0, kv=0.5)] * 3),))  # 123,600 / 0.85 - 105,600
    assert {"chat": 4} == policy.counts(60.0, (view(*[pod(kv=0.5)] * 3),))  # still 35,200 a replica
    assert {"chat": 3} == policy.counts(75.0, (view(*[pod(kv=0.5, answer=600.0)] * 3),))
    assert {"chat": 3} == AT_ONCE.policy().counts(0.0, (view(*[pod(kv=0.5)] * 3),))


def test_each_gauge_is_the_most_of_the_last_minute_even_if_the_two_were_apart() -> None:
    """WVA v0.9.0, collector/registration/saturation.go: `max_over_time(...[1m])` of KV use and of waiting requests."""
    policy = AT_ONCE.policy()
    looks = ((0.0, 0.62, 0.0), (15.0, 0.30, 4.0), (59.0, 0.30, 0.0), (60.0, 0.30, 0.0), (75.0, 0.30, 0.0))
    seen = [(now, view(*[pod(waiting=waiting, kv=kv)] * 4)) for now, kv, waiting in looks]
    assert [4, 5, 5, 3, 3] == [policy.counts(now, (each,))["chat"] for now, each in seen]


def test_while_one_half_of_a_split_grows_the_other_is_not_shrunk() -> None:
    """WVA v0.9.0, pipeline/cost_aware_optimizer.go: any role that requires more keeps all from shrinking."""
    idle = view(*[pod(kv=0.1)] * 4, role=Role.Prefill, name="prefill")
    full, steady = (view(*[pod(kv=kv)] * 4, role=Role.Decode, name="decode") for kv in (1.0, 0.6))
    alone = view(*[pod(kv=0.1)] * 4, name="other")
    assert {"prefill": 4, "decode": 6, "other": 1} == AT_ONCE.policy().counts(0.0, (alone, idle, full))
    assert {"prefill": 1, "decode": 4} == AT_ONCE.policy().counts(0.0, (idle, steady))
    assert {"prefill": 1} == AT_ONCE.policy().counts(0.0, (idle,))


def test_replicas_that_start_count_before_more_are_added_and_not_before_some_are_removed() -> None:
    assert {"chat": 5} == AT_ONCE.policy().counts(0.0, (view(*[pod(kv=0.75)] * 4, count=5),))
    assert {"chat": 3} == AT_ONCE.policy().counts(0.0, (view(*[pod(kv=0.25)] * 4, count=5),))


def test_the_tolerance_of_the_hpa_swallows_a_step_of_a_large_pool() -> None:
    seen = view(*[pod(kv=0.69)] * 20)  # 971,520 / 0.85 - 1,126,400: one more is wanted
    assert {"chat": 20} == WvaOptions(behavior=SAMPLE).policy().counts(0.0, (seen,))
    assert {"chat": 21} == AT_ONCE.policy().counts(0.0, (seen,))


def test_the_hpa_of_the_guide_waits_for_two_minutes_and_then_doubles_at_most() -> None:
    """llm-d 739e6a61, guides/workload-autoscaling/optimized-baseline-autoscaling/hpa.yaml."""
    policy = WvaOptions(grow_at=0.3, behavior=GUIDE, tolerance=0.0).policy()
    seen = view(*[pod(kv=1.0)] * 4)
    answers = [policy.counts(15.0 * tick, (seen,))["chat"] for tick in range(9)]
    assert [4] * 8 == answers[:8]
    assert 8 == answers[8]  # of 17 that it wants


def test_the_hpa_of_the_samples_moves_ten_pods_at_once() -> None:
    assert {"chat": 50} == AT_ONCE.policy().counts(0.0, (view(*[pod(kv=1.0)] * 40),))  # of 59 that it wants


def test_without_metrics_the_gauge_stays() -> None:
    policy = AT_ONCE.policy()
    assert {} == policy.counts(0.0, (view(pod(), blind=True),))
    assert {"chat": 5} == policy.counts(15.0, (view(*[pod(kv=0.75)] * 4),))
    assert {"chat": 5} == policy.counts(60.0, (view(*[pod(kv=0.75)] * 5, blind=True),))


def test_replicas_that_do_not_answer_have_neither_capacity_nor_demand() -> None:
    """WVA v0.9.0, `aggregateByVariant`: the replicas of a pool are those with metrics."""
    assert {"chat": 4} == AT_ONCE.policy().counts(0.0, (view(*[pod(kv=0.5)] * 2, ready=4),))
    assert {"chat": 5} == AT_ONCE.policy().counts(0.0, (view(*[pod(kv=0.8)] * 2, ready=4),))


@pytest.mark.parametrize(("rate", "count"), [(30.0, 5), (60.0, 10)])
def test_it_settles_where_one_count_lies_between_the_bounds(rate: float, count: int) -> None:
    assert {count} == set(Fluid(WvaOptions().policy(), lambda _: rate).run(7200.0).last_counts)


def test_tokens_in_use_shrink_faster_than_replicas_grow_so_the_hpa_of_the_guide_flaps() -> None:
    """Six look like four too many: with steps that are faster, the same requests leave the cache sooner."""
    waits = WvaOptions(behavior=GUIDE)
    assert {4, 6} == set(Fluid(waits.policy(), lambda _: 30.0).run(7200.0).last_counts)


def test_a_queue_makes_the_compute_bound_so_small_that_it_overshoots() -> None:
    """What is in use when a queue is seen is taken for all that fits: 10 would do, and it asks for all 60."""
    assert 60 == max(Fluid(WvaOptions().policy(), lambda _: 60.0).run(3600.0).counts)
