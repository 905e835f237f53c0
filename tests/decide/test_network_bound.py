"""When KV transfers, and not engines, are what a split waits for (design 8)."""

from __future__ import annotations

import pytest

from weft.decide.conditions import FALSE, TRUE, network_bound
from weft.domain.snapshot import PoolObservation
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
