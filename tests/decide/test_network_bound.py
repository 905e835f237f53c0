"""When KV transfers, and not engines, are what a split waits for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from weft.decide.measured.network import network_bound
from weft.domain.snapshot import PoolObservation
from weft.domain.status import FALSE, TRUE, UNKNOWN
from weft.domain.workload import Role, Slo

LATE = Slo(ttft=((95, 2.0),))


def full(running: float, under_way: float, transfer_seconds: float) -> PoolObservation:
    """Decode whose memory is held, by requests that run and by KV that is under way; first tokens come 2 s too late."""
    return PoolObservation(
        *(1, 1, 5.0),
        requests_per_second=10.0,
        running=running,
        waiting_for_kv=under_way,
        kv_usage=0.95,
        transfer_seconds=transfer_seconds,
        ttft=((95, 4.0),),
        ttft_mean=2.0,
    )


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        (full(40.0, 160.0, 0.05), TRUE),
        (full(140.0, 60.0, 0.05), FALSE),
        (full(140.0, 60.0, 1.5), TRUE),
        (full(200.0, 0.0, 1.5), FALSE),
    ],
    ids=["most wait for KV", "most run, and KV comes at once", "most run, and KV takes most of it", "all run"],
)
def test_who_holds_the_memory_says_what_is_waited_for(seen: PoolObservation, status: str) -> None:
    assert network_bound(Role.Decode, LATE, seen).status == status


def roomy(**figures: Any) -> PoolObservation:  # noqa: ANN401 - any figure of an observation
    """Decode with room, whose median is well and whose 99th percentile is not; most transfers take 50 ms."""
    usual = PoolObservation(
        *(2, 2, 5.0),
        requests_per_second=10.0,
        running=40.0,
        waiting=0.0,
        waiting_for_kv=1.0,
        kv_usage=0.3,
        transfer_seconds=0.1,
        ttft=((50, 0.3), (90, 0.6), (95, 2.5), (99, 4.0)),
        ttft_mean=0.6,
        transfers=((50, 0.05), (90, 0.1), (95, 2.0), (99, 3.2)),
    )
    return replace(usual, **figures)


STRICT = Slo(ttft=((50, 1.0), (99, 2.0)))
QUICK = ((50, 0.05), (90, 0.1), (95, 0.2), (99, 0.4))  # transfers, the longest prompts eight times as long


def told(seen: PoolObservation, slo: Slo = STRICT, role: Role = Role.Decode) -> str:
    return network_bound(role, slo, seen).status


def test_a_few_transfers_that_are_slow_are_told_although_all_means_look_fine() -> None:
    assert TRUE == told(roomy())
    assert "slow KV transfers" in network_bound(Role.Decode, STRICT, roomy()).explanation.message


def test_a_tail_of_long_prompts_is_not_one_of_the_network() -> None:
    """Their KV takes longer as well, by what its length takes and no more."""
    assert FALSE == told(roomy(transfers=QUICK))


def test_transfers_that_are_less_than_half_of_a_tail_are_not_its_reason() -> None:
    """The tail is 3.7 s behind the median, of which slow transfers are 1.5 s: most of what misses the target only."""
    assert FALSE == told(roomy(transfers=((50, 0.05), (99, 1.5))))
    assert TRUE == told(roomy(transfers=((50, 0.05), (99, 2.0))))


def test_a_median_that_is_nearly_as_late_tells_of_no_tail() -> None:
    """All requests wait, and most of them for something else than a slow transfer."""
    late = roomy(ttft=((50, 1.2), (99, 2.2)), transfer_seconds=0.05)
    assert FALSE == told(late)
    assert TRUE == told(replace(late, ttft=((50, 1.0), (99, 2.2))))


def test_an_engine_that_counts_no_transfers_by_bucket_is_judged_by_its_mean_alone() -> None:
    assert FALSE == told(roomy(transfers=()))
    assert TRUE == told(roomy(transfers=(), transfer_seconds=0.4))


def test_a_saturated_pool_is_not_bound_by_the_network_however_slow_its_transfers_are() -> None:
    """Its memory is held by those who run, or more wait for a seat than for KV."""
    assert FALSE == told(roomy(kv_usage=0.9))
    assert FALSE == told(roomy(waiting=30.0))
    assert TRUE == told(roomy(waiting=2.0)), "one for each replica waits for a step"


def test_who_meets_the_targets_waits_for_nothing() -> None:
    assert FALSE == told(roomy(), Slo(ttft=((50, 1.0), (99, 5.0))))
    assert FALSE == told(roomy(), Slo(tpot=((99, 0.01),)))


def test_slow_transfers_of_another_percentile_than_the_one_that_is_missed_are_no_reason() -> None:
    """One in a hundred is slow, and the target is for nine in ten."""
    late = roomy(ttft=((50, 0.3), (90, 1.5), (95, 2.5), (99, 4.0)))
    assert FALSE == told(late, Slo(ttft=((90, 1.0),)))


def test_requests_that_line_up_before_quick_transfers_wait_for_the_network() -> None:
    """Thirty of them at ten a second: three seconds in line each, of which a transfer itself takes a tenth."""
    lined_up = roomy(transfers=QUICK, transfer_seconds=0.05, waiting_for_kv=30.0, running=10.0)
    assert TRUE == told(lined_up)
    assert FALSE == told(replace(lined_up, kv_usage=0.95, running=35.0)), "they may wait for memory"
    assert FALSE == told(replace(lined_up, running=40.0)), "more run than wait"


FAST = Slo(tpot=((99, 0.05),))  # no target for the first token


def test_without_a_target_for_the_first_token_memory_full_of_kv_under_way_tells() -> None:
    assert TRUE == network_bound(Role.Decode, FAST, full(40.0, 160.0, 0.05)).status
    assert TRUE == network_bound(Role.Prefill, FAST, full(40.0, 160.0, 0.05)).status
    assert FALSE == network_bound(Role.Decode, FAST, full(140.0, 60.0, 1.5)).status, "most run"


def test_without_a_target_for_the_first_token_a_longer_line_for_kv_than_runs_tells() -> None:
    lined_up = roomy(waiting_for_kv=30.0, running=10.0)
    assert TRUE == told(lined_up, FAST)
    assert "in line for KV" in network_bound(Role.Decode, FAST, lined_up).explanation.message
    assert FALSE == told(lined_up, FAST, role=Role.Prefill), "prompts run for moments only"
    assert FALSE == told(replace(lined_up, running=40.0), FAST)
    assert FALSE == told(roomy(waiting_for_kv=2.0, running=0.0), FAST), "one for each replica is on its way, as always"
    assert FALSE == told(replace(lined_up, waiting=60.0), FAST), "more wait for a seat"
    assert FALSE == told(roomy(), FAST)


def test_what_no_engine_tells_is_unknown_and_what_moves_no_kv_is_not_bound() -> None:
    assert UNKNOWN == told(roomy(transfer_seconds=None))
    assert FALSE == told(roomy(), role=Role.Aggregated)
