"""`--kv-transfer-config` of vLLM: what transfers KV between the halves of a split, to host memory and to disks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.texts.units import parse_quantity
from weft.domain.workload import Role
from weft.engines.kv.handover import wire_of
from weft.engines.kv.libfabric import BACKEND, over_efa, refuse_what_lacks_efa
from weft.engines.kv.nvlink import refuse_what_lacks_nvlink
from weft.engines.terms.versions import parse_version
from weft.engines.vllm.arguments import compact_json
from weft.engines.vllm.lmcache import lmcache, names_lmcache

if TYPE_CHECKING:
    from weft.engines.terms.launch import LaunchRequest
    from weft.engines.terms.versions import Version

RECOMPUTES_LOST_KV: Version = (0, 13, 0)
BRINGS_MOONCAKE: Version = (0, 17, 0)  # in its image; the connector itself is older
# Where both connectors and MultiConnector support every kind of KV cache; Mooncake beside host memory was read in no
# earlier release. A producer that is not asked for blocks before it sends them all, and a consumer that comes first.
OFFLOADS_BESIDE: dict[str, Version] = {"NIXL": (0, 22, 0), "Mooncake": (0, 33, 0)}


def kv_transfer(request: LaunchRequest) -> tuple[str, ...]:
    """Arguments for the connector; empty for a pool that needs none. Raises `Invalid` if the release lacks it.

    A prompt whose KV does not arrive is computed again instead of failing its request, if the version can. Host
    memory is a connector too, the second of two in a half.
    """
    if request.spec.role.is_half:
        config = _of_a_half(request)
    elif names_lmcache(request):
        config = lmcache(request)
    else:
        return ()
    if parse_version(request.plan.engine.version) >= RECOMPUTES_LOST_KV:
        config["kv_load_failure_policy"] = "recompute"
    return ("--kv-transfer-config", compact_json(config))


def uses_mooncake(request: LaunchRequest) -> bool:
    """Whether KV is transferred over Mooncake, whose prefill side listens where routers ask for its engines."""
    return request.spec.role.is_half and request.spec.kv.connector == "Mooncake"


def _of_a_half(request: LaunchRequest) -> dict[str, Any]:
    _refuse_what_lacks(request)
    config = _mooncake(request) if uses_mooncake(request) else _nixl(request)
    if request.spec.kv.offload_json is None:
        return config
    both = {"connectors": [config, _host_memory(request)]}
    return {"kv_connector": "MultiConnector", "kv_role": config["kv_role"], "kv_connector_extra_config": both}


def _refuse_what_lacks(request: LaunchRequest) -> None:
    kv, role = request.spec.kv, request.spec.role
    refuse_what_lacks_efa(request)
    refuse_what_lacks_nvlink(request)
    if kv.connector == "LMCache":
        raise Invalid(
            Reason.FeatureUnsupported,
            f"spec.kvTransfer.connector LMCache is not supported in a {role.value} pool: it needs a proxy of "
            "its own, which vllm-router and llm-d's sidecar are not; use NIXL, and spec.kvCache.offload beside "
            "it where prefixes come again",
        )
    if kv.connector == "Mooncake":
        _refuse_older(request, BRINGS_MOONCAKE, "brings no Mooncake", "use NIXL")
        if request.on_cpu:
            raise Invalid(Reason.FeatureUnsupported, "spec.kvTransfer.connector Mooncake needs accelerators: use NIXL")
    if kv.offload_json is not None:
        _refuse_joined(request, json.loads(kv.offload_json).get("backend", "Native"))


def _refuse_joined(request: LaunchRequest, backend: str) -> None:
    """Raise `Invalid` for two connectors that do not work together."""
    connector = request.spec.kv.connector
    if backend != "Native":
        raise Invalid(
            Reason.FeatureUnsupported,
            f"spec.kvCache.offload.backend {backend} is not supported in a half of a split: with its connector vLLM "
            "turns off its hybrid memory, and halves that differ in that refuse each other's KV; use Native",
        )
    _refuse_older(request, OFFLOADS_BESIDE[connector], f"takes no spec.kvCache.offload beside {connector}", "remove it")


def _refuse_older(request: LaunchRequest, since: Version, lacks: str, instead: str) -> None:
    version = request.plan.engine.version
    if parse_version(version) < since:
        oldest = ".".join(map(str, since))
        raise Invalid(Reason.EngineUnsupported, f"version {version} {lacks}; allowed: {oldest} or later, or {instead}")


def _nixl(request: LaunchRequest) -> dict[str, Any]:
    """The NIXL connector, the same on both sides, since either may pull; with PCP, prefill is a producer."""
    shares_prompts = request.plan.shape.prefill_context_parallel > 1  # which vLLM allows for producers only
    buffer = {"kv_buffer_device": "cpu"} if request.on_cpu else {}
    backend = {"kv_connector_extra_config": {"backends": [BACKEND]}} if over_efa(request.spec) else {}
    kv_role = "kv_producer" if shares_prompts else "kv_both"
    return {"kv_connector": "NixlConnector", "kv_role": kv_role, **buffer, **backend}


def _mooncake(request: LaunchRequest) -> dict[str, Any]:
    """The Mooncake connector: prefill pushes, decode receives. Its default is RDMA, so TCP has to be named."""
    over_tcp = wire_of(request.spec) == "TCP"
    extra = {"kv_connector_extra_config": {"mooncake_protocol": "tcp"}} if over_tcp else {}
    kv_role = "kv_producer" if request.spec.role is Role.Prefill else "kv_consumer"
    return {"kv_connector": "MooncakeConnector", "kv_role": kv_role, **extra}


def _host_memory(request: LaunchRequest) -> dict[str, Any]:
    """The connector behind `--kv-offloading-size`, which alone would replace NIXL's. Bytes are per rank."""
    size_bytes = parse_quantity(json.loads(request.spec.kv.offload_json or "{}")["size"])
    of_rank = {"cpu_bytes_to_use": int(size_bytes / request.plan.shape.data_parallel)}
    return {"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": of_rank}
