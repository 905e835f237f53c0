"""KV over NVLink between nodes: what vLLM is told, what is refused before a pod exists, and that halves agree."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines.wires import assert_it_meets_no_half_over_another_wire, launched, refusal
from tests.render.pools import spec
from weft.domain.errors import Invalid
from weft.domain.shape import EngineName
from weft.domain.spec import EngineSpec, KVSpec, PoolSpec
from weft.domain.workload import Role
from weft.engines.kv.handover import wire_of
from weft.engines.terms.launch import EnvValue


def half(role: Role = Role.Prefill, **others: Any) -> PoolSpec:  # noqa: ANN401 - fields of PoolSpec
    return spec(role, **{"kv": KVSpec(transport="NVLink"), **others})


@pytest.mark.parametrize("role", [Role.Prefill, Role.Decode])
def test_vllm_allocates_what_other_nodes_can_map_and_ucx_is_told_to_use_it(role: Role) -> None:
    """RDMA is left out: what cannot go over NVLink is seen by its time, and TCP carries what UCX has to say."""
    launch = launched(half(role))
    assert "--enable-cumem-allocator" in launch.command
    told = {EnvValue("UCX_CUDA_IPC_ENABLE_MNNVL", "y"), EnvValue("UCX_TLS", "tcp,cuda_copy,cuda_ipc,sm,self")}
    assert set(launch.env) >= told


@pytest.mark.parametrize("transport", ["Auto", "RDMA", "TCP"])
def test_over_other_wires_nothing_changes(transport: str) -> None:
    launch = launched(half(kv=KVSpec(transport=transport)))
    assert "--enable-cumem-allocator" not in launch.command
    assert not any(each.name == "UCX_CUDA_IPC_ENABLE_MNNVL" for each in launch.env)


def test_a_pool_that_moves_no_kv_is_not_concerned() -> None:
    assert launched(spec()).command == launched(spec(kv=KVSpec(transport="NVLink"))).command


def test_users_have_the_last_word_on_variables() -> None:
    engine = EngineSpec(env=(("UCX_TLS", "all"),))
    values = {each.name: each.value for each in launched(half(engine=engine)).env}
    assert values["UCX_TLS"] == "all"


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        (
            half(kv=KVSpec(connector="Mooncake", transport="NVLink")),
            "connector Mooncake does not use it here; use NIXL",
        ),
        (half(engine=EngineSpec(args=("--no-enable-cumem-allocator",))), "--no-enable-cumem-allocator takes memory"),
    ],
)
def test_what_would_go_over_tcp_is_refused_by_name(wanted: PoolSpec, named: str) -> None:
    assert named in refusal(wanted)


@pytest.mark.parametrize("engine", [EngineName.SGLang, EngineName.TensorRTLLM])
def test_other_engines_are_refused(engine: EngineName) -> None:
    with pytest.raises(Invalid, match=r"kvTransfer\.transport NVLink is not supported"):
        launched(half(), engine)


def test_halves_over_other_networks_never_meet() -> None:
    assert_it_meets_no_half_over_another_wire(half())


def test_the_status_names_it() -> None:
    assert "NVLink" == wire_of(half())
