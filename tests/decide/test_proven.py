"""Replicas that meet their targets are counted on for what they carry, also after a restart and in a prefill half."""

from __future__ import annotations

import math
from dataclasses import astuple, replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.test_learning import RATE, SPEC, Serving, replica_of
from tests.decide.test_splits import half, split_world
from tests.decide.world import WORKLOAD
from weft.domain.shape import Calibration
from weft.domain.workload import Role, Slo
from weft.perf import at_engine, at_rate

if TYPE_CHECKING:
    from weft.domain.snapshot import Buckets, PoolObservation
    from weft.domain.workload import Workload

SHARES = (500.0, 900.0, 950.0, 990.0)


class Counted(Serving):
    """Engines that count latencies by buckets with an edge at each percentile, and at three times the longest."""

    def seen(self, name: str, load_of: Workload = WORKLOAD) -> PoolObservation:
        seen, plan = super().seen(name, load_of), self.world.status(name).plan
        assert plan is not None
        true = replace(replica_of(plan.shape), calibration=self.truth[name], wire=self.wire)
        at_present = replace(load_of, requests_per_second=RATE)
        found = self.counted(true, at_present, self.roles.get(name, Role.Aggregated))
        assert found is not None
        return replace(seen, ttft_buckets=_edges(astuple(found[0])), tpot_buckets=_edges(astuple(found[1])))


def _edges(latency: tuple[float, ...]) -> Buckets:
    if latency[1] <= 0.0:
        return ()
    return (*zip(latency[1:], SHARES, strict=True), (3.0 * latency[-1], 1000.0), (math.inf, 1000.0))


def proven_in(serving: Serving, name: str) -> float:
    found = serving.world.status(name).proven
    return 0.0 if found is None else found.rate


def test_a_pool_in_time_is_proven_and_stays_so_after_a_restart() -> None:
    serving = Counted.of(Calibration(), "chat")
    serving.run(8)
    assert proven_in(serving, "chat") == pytest.approx(RATE, rel=0.01)
    known = serving.world.status("chat").proven
    assert known is not None
    assert known.subject.startswith(SPEC.model.model_id)
    serving.world.memory.clear()
    serving.run(1)
    assert serving.world.status("chat").proven == known


def test_a_pool_that_misses_a_target_is_proven_by_nothing() -> None:
    serving = Counted.of(Calibration(4.0, 4.0), "chat")
    serving.run(8)
    assert proven_in(serving, "chat") == 0.0


@pytest.mark.parametrize("spare", [0.5, 0.95, 1.1])
def test_a_prefill_replica_has_so_much_less_time_as_the_transfer_takes_after_it(spare: float) -> None:
    """Over TCP. The target is longer than the engine's own percentile by a part of the transfer, or by more than it."""
    prefill, decode = (half(role, 1) for role in (Role.Prefill, Role.Decode))
    plain = split_world(prefill, decode)
    plain.turn(8)
    plan = plain.status("pd-prefill").plan
    assert plan is not None
    true = replace(replica_of(plan.shape), wire="TCP")
    load = replace(WORKLOAD, requests_per_second=RATE)
    own, whole = at_engine(true, load, Role.Prefill), at_rate(true, load, Role.Prefill)
    assert own is not None
    assert whole is not None
    target = own[0].p95 + spare * (whole[0].p95 - own[0].p95)
    slo = Slo(ttft=((95, target),))
    world = split_world(replace(prefill, slo=slo), replace(decode, slo=slo))
    world.turn(8)
    serving = Counted(world, {"pd-prefill": Calibration()}, {"pd-prefill": Role.Prefill}, wire="TCP")
    serving.run(8)
    assert (proven_in(serving, "pd-prefill") > 0.0) == (spare > 1.0)
