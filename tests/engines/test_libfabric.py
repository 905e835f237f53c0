"""KV over Amazon's EFA: what both engines are told, what is refused before a pod exists, and that halves agree."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engines.wires import assert_it_meets_no_half_over_another_wire, launched, refusal
from tests.render.pools import spec
from weft.domain.errors import Invalid
from weft.domain.shape import EngineName
from weft.domain.spec import EngineSpec, KVSpec, PoolSpec
from weft.domain.workload import Role
from weft.engines.terms.launch import EnvValue

IMAGE = "registry.example/engine-with-efa:1"
DEVICES = (("vpc.amazonaws.com/efa", "4"),)
LOUD = {EnvValue("FI_PROVIDER", "efa"), EnvValue("FI_EFA_USE_DEVICE_RDMA", "1")}


def half(role: Role = Role.Prefill, **others: Any) -> PoolSpec:  # noqa: ANN401 - fields of PoolSpec
    parts = {"engine": EngineSpec(image=IMAGE, resources=DEVICES), "kv": KVSpec(transport="EFA"), **others}
    return spec(role, **parts)


def connector(wanted: PoolSpec) -> Any:  # noqa: ANN401 - JSON
    words = launched(wanted).command
    return json.loads(words[words.index("--kv-transfer-config") + 1])


@pytest.mark.parametrize("role", [Role.Prefill, Role.Decode])
def test_vllm_is_told_the_backend_and_a_device_that_fails_is_no_reason_for_tcp(role: Role) -> None:
    assert connector(half(role))["kv_connector_extra_config"] == {"backends": ["LIBFABRIC"]}
    env = launched(half(role)).env
    assert set(env) >= LOUD
    assert not any(each.name == "UCX_TLS" for each in env)


def test_beside_host_memory_the_backend_is_that_of_nixl_alone() -> None:
    kv = KVSpec(transport="EFA", offload_json='{"size": "4Gi"}')
    first, second = connector(half(kv=kv))["kv_connector_extra_config"]["connectors"]
    assert first["kv_connector_extra_config"] == {"backends": ["LIBFABRIC"]}
    assert "backends" not in second["kv_connector_extra_config"]


def test_sglang_takes_it_from_its_environment() -> None:
    launch = launched(half(Role.Decode), EngineName.SGLang)
    assert set(launch.env) >= {*LOUD, EnvValue("SGLANG_DISAGGREGATION_NIXL_BACKEND", "LIBFABRIC")}
    assert "nixl" in launch.command


def test_users_have_the_last_word_on_variables() -> None:
    engine = EngineSpec(image=IMAGE, resources=DEVICES, env=(("FI_EFA_USE_DEVICE_RDMA", "0"),))
    values = {each.name: each.value for each in launched(half(engine=engine)).env}
    assert values["FI_EFA_USE_DEVICE_RDMA"] == "0"


def test_a_pool_that_moves_no_kv_is_not_concerned() -> None:
    aggregated = launched(spec(kv=KVSpec(transport="EFA")))
    assert "--kv-transfer-config" not in aggregated.command
    assert not any(each.name.startswith("FI_") for each in aggregated.env)


@pytest.mark.parametrize(
    ("engine", "wanted", "named"),
    [
        (EngineName.VLLM, half(kv=KVSpec(connector="Mooncake", transport="EFA")), "connector Mooncake"),
        (EngineName.SGLang, half(kv=KVSpec(connector="Mooncake", transport="EFA")), "connector Mooncake"),
        (
            EngineName.VLLM,
            half(engine=EngineSpec(image=IMAGE)),
            "vpc.amazonaws.com/efa and a count in spec.engine.resource",
        ),
        (
            EngineName.VLLM,
            half(engine=EngineSpec(image=IMAGE, resources=(("rdma/hca", "4"),))),
            "pods have no such device",
        ),
        (EngineName.VLLM, half(engine=EngineSpec(resources=DEVICES)), "vllm-openai:v0.32.0 has no libfabric"),
        (EngineName.SGLang, half(engine=EngineSpec(resources=DEVICES)), "sglang:v0.5.23 has no libfabric"),
    ],
)
def test_what_would_end_or_go_over_tcp_is_refused_by_name(engine: EngineName, wanted: PoolSpec, named: str) -> None:
    assert named in refusal(wanted, engine)


def test_tensorrt_llm_is_refused() -> None:
    with pytest.raises(Invalid, match=r"kvTransfer\.transport EFA is not supported on TensorRT-LLM 1\.2\.1"):
        launched(half(), EngineName.TensorRTLLM)


def test_halves_over_other_networks_never_meet() -> None:
    assert_it_meets_no_half_over_another_wire(half())
