"""HeteroScale by hand: at a load of 0.8 a replica of 6 requests/s with 200 tokens is to make 960 tokens/s."""

from __future__ import annotations

import pytest

from tests.twin.policies.fluid import Fluid
from tests.twin.policies.views import CAPACITY, pod, view
from weft.domain.capacity import Capacity
from weft.domain.workload import Role
from weft.twin.policies.heteroscale import HeteroScaleOptions


@pytest.mark.parametrize(
    ("rate", "wanted"),
    [(5.0, 4), (5.2, 4), (5.3, 5), (6.0, 5), (4.4, 4), (4.3, 4), (3.0, 3), (0.0, 1)],
    # 4 x 5.2 x 200 / 3,840 = 1.083; 5.3: 1.104, and 4.42 replicas; 4.3: 0.896, but 3.58 replicas
    ids=["near", "within", "beyond", "a quarter more", "within below", "beyond, rounded up", "fewer", "none"],
)
def test_decode_tokens_are_followed_beyond_a_tenth(rate: float, wanted: int) -> None:
    policy = HeteroScaleOptions().policy()
    assert {"chat": wanted} == policy.counts(0.0, (view(*[pod(rate=rate)] * 4, role=Role.Decode),))


def test_prefill_follows_decode_at_a_fixed_ratio() -> None:
    pools = (
        view(*[pod()] * 9, role=Role.Prefill, name="prefill"),
        view(*[pod(rate=6.0)] * 4, role=Role.Decode, name="decode"),
    )
    assert {"decode": 5, "prefill": 3} == HeteroScaleOptions(ratio=0.5).policy().counts(0.0, pools)
    assert {"decode": 5, "prefill": 5} == HeteroScaleOptions().policy().counts(0.0, pools)  # both serve 6 requests/s


def test_prefill_that_shares_a_queue_has_the_ratio_of_as_many_as_the_declared_rate_takes() -> None:
    """At 60 requests/s and a load of 0.8 each of seven or more serves 12 requests/s, and one of decode 6."""
    together = Capacity(CAPACITY, (1.0, 1.2, 1.4, 1.6, 1.8, 1.9, 2.0))
    pools = (
        view(*[pod()] * 9, role=Role.Prefill, name="prefill", capacity=together),
        view(*[pod(rate=6.0)] * 4, role=Role.Decode, name="decode"),
    )
    assert {"decode": 5, "prefill": 3} == HeteroScaleOptions().policy().counts(0.0, pools)


def test_late_tokens_add_a_fifth_of_what_serves() -> None:
    late = view(*[pod(rate=5.0)] * 10, role=Role.Decode, tpot=0.037)  # the target is 30 ms
    in_time = view(*[pod(rate=5.0)] * 10, role=Role.Decode, tpot=0.036)
    assert {"chat": 12} == HeteroScaleOptions().policy().counts(0.0, (late,))
    assert {"chat": 10} == HeteroScaleOptions().policy().counts(0.0, (in_time,))


def test_late_tokens_add_nothing_twice_while_replicas_start_and_forbid_shrinking() -> None:
    starting = view(*[pod(rate=5.0)] * 10, count=12, role=Role.Decode, tpot=0.1)
    idle = view(*[pod(rate=1.0)] * 10, count=14, role=Role.Decode, tpot=0.1)
    assert {"chat": 12} == HeteroScaleOptions().policy().counts(0.0, (starting,))
    assert {"chat": 14} == HeteroScaleOptions().policy().counts(0.0, (idle,))


def test_it_may_pause_after_it_changed_in_each_direction() -> None:
    pausing, at_once = HeteroScaleOptions(pause_up=180.0, pause_down=600.0).policy(), HeteroScaleOptions().policy()
    busy, idle = (view(*[pod(rate=rate)] * 4, role=Role.Decode) for rate in (60.0, 1.0))
    looks = ((0.0, busy), (120.0, busy), (180.0, busy), (240.0, idle), (840.0, idle))
    assert [50, 4, 50, 1, 1] == [pausing.counts(now, (seen,))["chat"] for now, seen in looks[:5]]
    assert [4, 1] == [pausing.counts(now, (idle,))["chat"] for now in (1380.0, 1440.0)]
    assert [50, 50] == [at_once.counts(now, (busy,))["chat"] for now in (0.0, 30.0)]


def test_a_paused_decode_pool_pauses_its_prefill_pool() -> None:
    policy = HeteroScaleOptions(ratio=0.5, pause_up=180.0).policy()
    pools = (
        view(*[pod()] * 2, role=Role.Prefill, name="prefill"),
        view(*[pod(rate=6.0)] * 4, role=Role.Decode, name="decode"),
    )
    assert [3, 2] == [policy.counts(now, pools)["prefill"] for now in (0.0, 120.0)]


def test_without_metrics_it_holds_both_pools() -> None:
    pools = (
        view(pod(), role=Role.Prefill, name="prefill"),
        view(pod(), role=Role.Decode, name="decode", blind=True),
    )
    assert {} == HeteroScaleOptions().policy().counts(0.0, pools)


@pytest.mark.parametrize(("rate", "count"), [(12.0, 3), (30.0, 7), (90.0, 19)])
def test_it_settles(rate: float, count: int) -> None:
    assert {count} == set(Fluid(HeteroScaleOptions().policy(), lambda _: rate).run(7200.0).last_counts)


def test_a_saturated_pool_makes_as_many_tokens_as_it_can_so_a_high_target_never_grows() -> None:
    """Its signal ends at the true capacity: aimed above it, only the guard for late tokens adds replicas."""
    blind_guard = HeteroScaleOptions(load=1.3, guard=10.0)
    fluid = Fluid(blind_guard.policy(), lambda _: 60.0).run(3600.0)
    assert {4} == set(fluid.counts)
    assert fluid.backlog > 10_000
