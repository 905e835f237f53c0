"""Environment variables of a vLLM container."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.units import GIB, parse_quantity
from weft.engines import vllm_arguments as arguments
from weft.engines.launch import EnvValue
from weft.engines.vllm_connectors import uses_mooncake
from weft.engines.vllm_model import needs_the_hub

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.engines.launch import LaunchRequest

NIXL_PORT = 5600
MOONCAKE_PORT = 8998
POD_IP = "status.podIP"
# UCX on an accelerator needs its copy transports beside the wire; without a GPU there are none.
_UCX_TLS = {"TCP": "tcp,cuda_copy,cuda_ipc,sm,self", "RDMA": "^tcp"}
_UCX_TLS_ON_CPU = "tcp,self,sm"
_CPU_KV_FRACTION = 0.25  # of the pod's memory, where the user named it


def variables(request: LaunchRequest, ready_seconds: int) -> tuple[EnvValue, ...]:
    """Ours, and the user's over those of ours that are not refused; names are unique."""
    users = tuple(EnvValue(name, value) for name, value in request.spec.engine.env)
    theirs = {value.name for value in users}
    ours = (value for value in _ours(request, ready_seconds) if value.name not in theirs)
    return (*ours, *users)


def _ours(request: LaunchRequest, ready_seconds: int) -> Iterator[EnvValue]:
    yield EnvValue("VLLM_HOST_IP", field=POD_IP)
    yield EnvValue("VLLM_NO_USAGE_STATS", "1")
    yield EnvValue("VLLM_ENGINE_READY_TIMEOUT_S", str(ready_seconds))
    yield from _hub(request)
    yield from _kv_transfer(request)
    if request.plan.shape.pods > 1:
        yield EnvValue("GLOO_SOCKET_IFNAME", "eth0")
        yield EnvValue("NCCL_SOCKET_IFNAME", "eth0")
    if request.on_cpu:
        yield EnvValue("VLLM_CPU_KVCACHE_SPACE", str(_cpu_kv_gib(request)))
    secret = request.spec.router.api_key_secret
    if secret is not None:
        yield EnvValue("VLLM_API_KEY", secret=secret)


def _hub(request: LaunchRequest) -> Iterator[EnvValue]:
    model = request.spec.model
    if not needs_the_hub(model):
        yield EnvValue("HF_HUB_OFFLINE", "1")
    if model.source is not None and model.source.token_secret is not None:
        yield EnvValue("HF_TOKEN", secret=model.source.token_secret)


def _kv_transfer(request: LaunchRequest) -> Iterator[EnvValue]:
    if not arguments.moves_kv(request):
        return
    if uses_mooncake(request):
        yield EnvValue("VLLM_MOONCAKE_BOOTSTRAP_PORT", str(MOONCAKE_PORT))
        return
    yield EnvValue("VLLM_NIXL_SIDE_CHANNEL_HOST", field=POD_IP)
    yield EnvValue("VLLM_NIXL_SIDE_CHANNEL_PORT", str(NIXL_PORT))
    transports = _UCX_TLS_ON_CPU if request.on_cpu else _UCX_TLS.get(request.spec.kv.transport)
    if transports is not None:
        yield EnvValue("UCX_TLS", transports)


def _cpu_kv_gib(request: LaunchRequest) -> int:
    """Whole GiB of KV cache in a CPU pod's memory, at least one."""
    memory = dict(request.spec.engine.resources).get("memory")
    return max(1, int(_CPU_KV_FRACTION * parse_quantity(memory) / GIB)) if memory else 1
