"""The wires that NIXL may take: with the copies that the halves' accelerators have."""

from __future__ import annotations

import pytest

from tests.render.pools import plan, shape, spec
from weft.domain.shape import EngineName
from weft.domain.spec import EngineSpec, KVSpec, ModelSource, ModelSpec, SourceKind
from weft.domain.workload import Role
from weft.engines import adapter_for
from weft.engines.pods.environment import transports
from weft.engines.terms.launch import LaunchRequest
from weft.engines.vllm.environment import variables


@pytest.mark.parametrize(
    ("accelerator", "transport", "wires", "piece"),
    [
        ("H200", "TCP", "tcp,cuda_copy,cuda_ipc,sm,self", "64k"),
        ("MI300X", "TCP", "tcp,rocm_copy,rocm_ipc,sm,self", "64k"),
        ("MI300X", "RDMA", "^tcp", None),
        ("cpu", "TCP", "tcp,self,sm", None),
        ("H200", "Auto", None, "64k"),
    ],
)
def test_ucx_has_the_copies_of_the_accelerator_beside_the_wire(
    accelerator: str, transport: str, wires: str | None, piece: str | None
) -> None:
    half = spec(Role.Decode, kv=KVSpec(transport=transport))
    told = {each.name: each.value for each in transports(LaunchRequest(half, plan(shape(accelerator=accelerator))))}
    wanted = {"UCX_TLS": wires, "UCX_TCP_TX_SEG_SIZE": piece}
    assert told == {name: value for name, value in wanted.items() if value is not None}


@pytest.mark.parametrize(
    ("kv", "seconds"),
    [
        (KVSpec(), "20s"),
        (KVSpec(transport="TCP"), "20s"),
        (KVSpec(transport="NVLink"), "20s"),
        (KVSpec(transport="RDMA"), None),
        (KVSpec(transport="EFA"), None),
        (KVSpec(connector="Mooncake"), None),
    ],
)
def test_an_engine_stops_waiting_for_a_machine_that_is_gone(kv: KVSpec, seconds: str | None) -> None:
    """`e2e/test_lost_prefill.py` pulls the cable: over TCP, the kernel alone would go on for a quarter of an hour."""
    assert told(EngineSpec(), kv).get("UCX_TCP_USER_TIMEOUT") == seconds


def test_a_user_may_say_how_long_an_engine_waits_for_one() -> None:
    asked = EngineSpec(env=(("UCX_TCP_USER_TIMEOUT", "1m"),))
    assert told(asked, KVSpec())["UCX_TCP_USER_TIMEOUT"] == "1m"


@pytest.mark.parametrize("engine", EngineName)
@pytest.mark.parametrize(("drafts_with", "offline"), [("team/llama-eagle3", None), ("/model/eagle3", "1")])
def test_a_drafting_model_is_downloaded_though_the_weights_are_on_a_claim(
    engine: EngineName, drafts_with: str, offline: str | None
) -> None:
    """Told that it is offline, an engine would end for want of a repository that nothing has downloaded."""
    source = ModelSource(SourceKind.PVC, "weights")
    drafting = EngineSpec(speculative_json=f'{{"method":"EAGLE3","model":"{drafts_with}","tokens":3}}')
    wanted = spec(model=ModelSpec("meta-llama/Llama-3.1-8B-Instruct", source=source), engine=drafting)
    launch = adapter_for(engine).launch(LaunchRequest(wanted, plan(shape(engine=engine))))
    assert {each.name: each.value for each in launch.env}.get("HF_HUB_OFFLINE") == offline


def told(engine: EngineSpec, kv: KVSpec) -> dict[str, str | None]:
    """The variables of a decode engine of vLLM."""
    request = LaunchRequest(spec(Role.Decode, engine=engine, kv=kv), plan())
    return {each.name: each.value for each in variables(request, ready_seconds=600)}


@pytest.mark.parametrize(
    ("role", "model", "layout"),
    [
        (Role.Prefill, "Qwen/Qwen3-Next-80B-A3B-Instruct", "DS"),
        (Role.Decode, "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "DS"),
        (Role.Aggregated, "Qwen/Qwen3-Next-80B-A3B-Instruct", None),
        (Role.Prefill, "meta-llama/Llama-3.1-8B-Instruct", None),
    ],
)
def test_halves_that_keep_states_lay_them_out_as_nixl_moves_them(role: Role, model: str, layout: str | None) -> None:
    """Without it vLLM ends at its start."""
    half = spec(role, model=ModelSpec(model))
    found = {each.name: each.value for each in variables(LaunchRequest(half, plan()), 600)}
    assert found.get("VLLM_SSM_CONV_STATE_LAYOUT") == layout


def test_mooncake_moves_states_as_they_are() -> None:
    half = spec(Role.Prefill, model=ModelSpec("Qwen/Qwen3-Next-80B-A3B-Instruct"), kv=KVSpec(connector="Mooncake"))
    assert "VLLM_SSM_CONV_STATE_LAYOUT" not in {each.name for each in variables(LaunchRequest(half, plan()), 600)}
