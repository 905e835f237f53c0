"""Kubernetes' HPA by hand: ratios, tolerance, pods that start or are silent, steps, and the window of 300 s."""

from __future__ import annotations

import pytest

from tests.twin.policies.fluid import Fluid
from tests.twin.policies.views import pod, view
from weft.twin.policies.horizontal import Behavior, Controller, Pace, wanted_by_pods, wanted_by_total
from weft.twin.policies.hpa import HpaOptions


@pytest.mark.parametrize(
    ("waiting", "wanted"),
    [(3.0, 6), (2.2, 4), (2.1, 4), (1.9, 4), (2.3, 5), (1.0, 2), (0.0, 0)],
    ids=["half more", "at the tolerance", "within it", "within it below", "beyond it", "half", "idle"],
)
def test_replicas_follow_the_ratio_beyond_a_tenth(waiting: float, wanted: int) -> None:
    assert wanted == wanted_by_pods(view(*[pod()] * 4), (waiting,) * 4, 2.0)


def test_pods_that_start_count_as_idle_where_the_pool_would_grow() -> None:
    half_ready = view(*[pod()] * 4, count=8)
    assert 8 == wanted_by_pods(half_ready, (3.0,) * 4, 2.0)  # 12 / 8 = 1.5: below the target, so nothing changes
    assert 20 == wanted_by_pods(half_ready, (10.0,) * 4, 2.0)


def test_pods_that_start_are_on_target_where_the_pool_would_shrink() -> None:
    """Kubernetes v1.37.2, `groupPods` of replica_calculator.go: a running pod without the metric is missing."""
    half_ready = view(*[pod()] * 4, count=8)
    assert 6 == wanted_by_pods(half_ready, (1.0,) * 4, 2.0)  # (4 x 1 + 4 x 2) / 2
    assert 8 == wanted_by_pods(half_ready, (1.7,) * 4, 2.0)  # 0.925 is within the tolerance


def test_a_silent_pod_is_on_target_where_the_pool_would_shrink_and_idle_where_it_would_grow() -> None:
    assert 3 == wanted_by_pods(view(*[pod()] * 3, ready=4), (0.35,) * 3, 0.7)  # (3 x 0.35 + 0.7) / 0.7 = 2.5
    assert 6 == wanted_by_pods(view(*[pod()] * 2, ready=4), (6.0,) * 2, 2.0)


def test_silence_never_turns_growing_into_shrinking() -> None:
    assert 10 == wanted_by_pods(view(pod(), ready=10), (3.0,), 2.0)


@pytest.mark.parametrize(("total", "wanted"), [(22.0, 20), (23.0, 23), (18.0, 20), (17.0, 17)])
def test_an_external_total_is_divided_by_its_average(total: float, wanted: int) -> None:
    assert wanted == wanted_by_total(view(*[pod()] * 20), total, 1.0)


def test_it_grows_by_four_pods_or_to_twice_the_count_in_15_seconds() -> None:
    controller = Controller(Behavior())
    assert [5, 5, 10, 20] == [
        controller.count(0.0, view(pod()), 100),
        controller.count(10.0, view(*[pod()] * 5), 100),  # the four of this period are spent
        controller.count(15.0, view(*[pod()] * 5), 100),
        controller.count(30.0, view(*[pod()] * 10), 100),
    ]


def test_it_shrinks_to_the_most_that_the_last_300_seconds_wanted() -> None:
    controller = Controller(Behavior())
    ten = view(*[pod()] * 10)
    assert 10 == controller.count(0.0, ten, 10)
    wants = {15.0: 2, 150.0: 6, 285.0: 2, 300.0: 2, 435.0: 2, 450.0: 2}
    assert [10, 10, 10, 6, 6, 2] == [controller.count(now, ten, wanted) for now, wanted in wants.items()]


def test_the_count_that_it_finds_is_its_first_recommendation() -> None:
    controller = Controller(Behavior())
    assert [10, 10, 1] == [controller.count(now, view(*[pod()] * 10), 0) for now in (0.0, 285.0, 300.0)]


def test_a_window_for_growing_takes_the_least() -> None:
    controller = Controller(Behavior(up=Pace(60.0, pods=100)))
    four = view(*[pod()] * 4)
    assert [4, 4, 8] == [controller.count(now, four, wanted) for now, wanted in ((0.0, 9), (45.0, 8), (60.0, 12))]


def test_a_pace_of_so_many_pods_binds_shrinking_too() -> None:
    controller = Controller(Behavior(down=Pace(0.0, 150.0, pods=2)))
    assert [8, 8, 6] == [
        controller.count(0.0, view(*[pod()] * 10), 1),
        controller.count(135.0, view(*[pod()] * 8), 1),
        controller.count(150.0, view(*[pod()] * 8), 1),
    ]


def test_a_period_of_growing_begins_after_what_an_older_one_of_shrinking_took() -> None:
    """Kubernetes v1.37.2, horizontal.go: both directions are counted over the period of the policy that limits."""
    controller = Controller(Behavior(up=Pace(0.0, 60.0, pods=4), down=Pace(0.0, 120.0, pods=1)))
    assert [9, 13] == [
        controller.count(0.0, view(*[pod()] * 10), 1),
        controller.count(90.0, view(*[pod()] * 9), 100),
    ]


def test_what_was_removed_in_the_period_may_come_back_beside_its_growth() -> None:
    controller = Controller(Behavior(up=Pace(0.0, 60.0, pods=4), down=Pace(0.0, 120.0, pods=1)))
    assert [9, 14] == [
        controller.count(0.0, view(*[pod()] * 10), 1),
        controller.count(45.0, view(*[pod()] * 9), 100),
    ]


def test_of_two_metrics_the_larger_answer_wins() -> None:
    policy = HpaOptions(queue=2.0, kv=0.5).policy()
    assert {"chat": 6} == policy.counts(0.0, (view(*[pod(waiting=3.0, kv=0.25)] * 4),))
    assert {"chat": 8} == policy.counts(15.0, (view(*[pod(waiting=0.0, kv=1.0)] * 4),))


def test_requests_that_wait_for_kv_are_in_its_queue() -> None:
    waits = pod(waiting=1.0)
    assert {"chat": 2} == HpaOptions(kv=None).policy().counts(0.0, (view(waits, waits),))


def test_with_a_metric_missing_it_grows_by_the_other_and_never_shrinks() -> None:
    busy, idle = (view(*[pod(waiting=waiting, kv=None)] * 4) for waiting in (3.0, 0.0))
    assert {"chat": 6} == HpaOptions().policy().counts(0.0, (busy,))
    assert {} == HpaOptions().policy().counts(0.0, (idle,))


def test_without_metrics_it_holds() -> None:
    assert {} == HpaOptions().policy().counts(0.0, (view(pod(), blind=True),))
    assert {} == HpaOptions().policy().counts(0.0, (view(ready=4),))


def test_an_hpa_needs_a_metric() -> None:
    with pytest.raises(ValueError, match="needs a metric"):
        HpaOptions(queue=None, kv=None)


def test_it_stays_where_one_count_is_within_the_tolerance_and_need_not_find_it() -> None:
    """From 4 it shrinks past the 2 that fit, as all of the window wants 1, and comes back by way of 5 for ever."""
    there, above = (Fluid(HpaOptions(queue=None).policy(), lambda _: 12.0, count=count) for count in (2, 4))
    assert {2} == set(there.run(7200.0).counts)
    assert {1, 2, 3, 4, 5} == set(above.run(7200.0).last_counts)


def test_a_queue_is_no_measure_of_load_below_saturation_so_it_flaps() -> None:
    """It is 0 up to the cliff and then grows without end: the pool shrinks until it falls off, and shoots up again."""
    fluid = Fluid(HpaOptions(kv=None).policy(), lambda _: 30.0).run(7200.0)
    assert 4 >= min(fluid.last_counts)
    assert fluid.most == max(fluid.last_counts)


def test_kv_use_is_not_proportional_to_load_so_it_flaps() -> None:
    """More replicas make steps faster, which empties caches beyond proportion: 8 look like 3, and 3 are too few."""
    fluid = Fluid(HpaOptions(queue=None).policy(), lambda _: 30.0).run(7200.0)
    assert (3, 8) == (min(fluid.last_counts), max(fluid.last_counts))
    assert max(fluid.backlogs[-240:]) > 100
