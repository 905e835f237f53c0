"""AIBrix's APA by hand, with the two defects that its users get."""

from __future__ import annotations

import pytest

from tests.twin.policies.fluid import Fluid
from tests.twin.policies.views import pod, view
from weft.domain.workload import Role
from weft.twin.policies.aibrix import AibrixOptions
from weft.twin.policies.horizontal import Behavior, Controller, wanted_by_pods
from weft.twin.policies.signals import Signal


@pytest.mark.parametrize(
    ("count", "kv", "wanted"),
    [(4, 0.75, 6), (4, 1.0, 8), (8, 0.3, 5), (8, 0.05, 4), (4, 0.54, 4), (4, 0.46, 4), (7, 0.1, 3)],
    ids=["up", "at most twice", "down", "at least half", "within the band", "within it below", "half rounded down"],
)
def test_replicas_follow_the_ratio_within_a_factor_of_two(count: int, kv: float, wanted: int) -> None:
    assert {"chat": wanted} == AibrixOptions().policy().counts(0.0, (view(*[pod(kv=kv)] * count),))


def test_it_averages_over_180_seconds() -> None:
    policy = AibrixOptions().policy()
    for tick in range(9):
        assert {"chat": 4} == policy.counts(10.0 * tick, (view(*[pod(kv=0.5)] * 4),))
    answers = [policy.counts(10.0 * tick, (view(*[pod(kv=0.7)] * 4),))["chat"] for tick in range(9, 14)]
    assert [4, 4, 4, 5, 5] == answers  # the mean of 9 at 0.5 and 3 at 0.7 is 0.55, that of one more 0.557


def test_a_look_of_exactly_180_seconds_ago_still_counts() -> None:
    """AIBrix e3e10f9e, types/metrics.go: a bucket of a second goes when it is older than the window."""
    answers = []
    for last in (180.0, 181.0):
        policy = AibrixOptions().policy()
        policy.counts(0.0, (view(*[pod(kv=1.0)] * 4),))
        answers.append(policy.counts(last, (view(*[pod(kv=0.5)] * 4),))["chat"])
    assert [6, 4] == answers


def test_a_short_dip_is_replayed_minutes_later_where_kubernetes_would_not() -> None:
    """Defect a: to shrink it takes the least wish of 300 s."""
    policy, kubernetes = AibrixOptions(window_seconds=5.0).policy(), Controller(Behavior())
    looks = ((0.0, 10, 0.5), (10.0, 10, 0.05), (20.0, 5, 1.0), (250.0, 10, 0.44), (320.0, 10, 0.44))
    answers, sound = [], []
    for now, count, kv in looks:
        seen = view(*[pod(kv=kv)] * count)
        answers.append(policy.counts(now, (seen,))["chat"])
        sound.append(kubernetes.count(now, seen, wanted_by_pods(seen, (kv,) * count, 0.5) or 0))
    assert [10, 5, 10, 5, 9] == answers
    assert 10 == sound[3]


def test_it_grows_again_while_replicas_start() -> None:
    """Defect e: what was asked for is multiplied by the ratio of those that serve."""
    policy = AibrixOptions().policy()
    seen = [view(*[pod(kv=1.0)] * 2, count=count) for count in (2, 4, 8)]
    assert [4, 8, 16] == [policy.counts(10.0 * tick, (each,))["chat"] for tick, each in enumerate(seen)]


def test_it_scales_on_what_it_is_told_to() -> None:
    policy = AibrixOptions(signal=Signal.Running, target=16.0).policy()
    assert {"chat": 8} == policy.counts(0.0, (view(*[pod(running=32.0)] * 4),))


def test_a_prefill_pool_is_scaled_on_its_queue() -> None:
    seen = view(*[pod(waiting=3.0, kv=0.0)] * 4, role=Role.Prefill)
    assert {"chat": 6} == AibrixOptions().policy().counts(0.0, (seen,))


def test_without_metrics_it_holds() -> None:
    assert {} == AibrixOptions().policy().counts(0.0, (view(pod(), blind=True),))
    assert {} == AibrixOptions().policy().counts(0.0, (view(pod(kv=None)),))


def test_both_defects_together_swing_between_the_bounds() -> None:
    fluid = Fluid(AibrixOptions().policy(), lambda _: 30.0).run(7200.0)
    assert (2, fluid.most) == (min(fluid.last_counts), max(fluid.last_counts))


def test_it_settles_where_what_it_found_is_enough() -> None:
    fluid = Fluid(AibrixOptions(target=0.2).policy(), lambda _: 12.0).run(7200.0)
    assert 1 == len(set(fluid.last_counts))
