"""A rule of others sees what a pool serves in company, if its router is of Weft's choice."""

from __future__ import annotations

from dataclasses import replace

from tests.twin.simulated import chat, setting, trace
from weft.domain.spec import RouterKind, RouterSpec
from weft.domain.workload import Slo
from weft.twin.policies.static import StaticOptions
from weft.twin.simulation import simulate

RATE = 10.0


def counted(router: RouterSpec) -> float:
    """GPU-seconds of `static`, which has as many replicas as it is told that the declared rate needs."""
    pool = chat(max_replicas=24)
    assert pool.spec is not None
    workload = replace(pool.spec.workload, requests_per_second=RATE)
    spec = replace(pool.spec, workload=workload, slo=Slo(tpot=((95, 0.03),)), router=router)
    outcome = simulate(setting(trace((30.0, 1.0)), replace(pool, spec=spec)), StaticOptions(part=1.0).policy())
    return outcome.pools[0].gpu_seconds


def test_a_static_fleet_is_smaller_behind_a_router_of_wefts_choice() -> None:
    managed = RouterSpec(RouterKind.Managed)
    assert counted(managed) < counted(RouterSpec())
    assert counted(replace(managed, image="example.org/router:1")) == counted(RouterSpec())
