"""The wires that NIXL may take: with the copies that the halves' accelerators have."""

from __future__ import annotations

import pytest

from tests.render.pools import plan, shape, spec
from weft.domain.spec import KVSpec
from weft.domain.workload import Role
from weft.engines.environment import transports
from weft.engines.launch import EnvValue, LaunchRequest


@pytest.mark.parametrize(
    ("accelerator", "transport", "wires"),
    [
        ("H200", "TCP", "tcp,cuda_copy,cuda_ipc,sm,self"),
        ("MI300X", "TCP", "tcp,rocm_copy,rocm_ipc,sm,self"),
        ("MI300X", "RDMA", "^tcp"),
        ("cpu", "TCP", "tcp,self,sm"),
    ],
)
def test_ucx_has_the_copies_of_the_accelerator_beside_the_wire(accelerator: str, transport: str, wires: str) -> None:
    half = spec(Role.Decode, kv=KVSpec(transport=transport))
    assert [*transports(LaunchRequest(half, plan(shape(accelerator=accelerator))))] == [EnvValue("UCX_TLS", wires)]


def test_nothing_is_said_where_the_engine_may_choose() -> None:
    assert [*transports(LaunchRequest(spec(Role.Decode), plan(shape(accelerator="MI300X"))))] == []
