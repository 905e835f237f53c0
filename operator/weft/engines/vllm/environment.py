"""Environment variables of a vLLM container."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.texts.units import GIB, parse_quantity
from weft.engines.kv.libfabric import over_efa
from weft.engines.pods.environment import POD_IP, between_pods, hub, transports, with_users
from weft.engines.terms.launch import EnvValue
from weft.engines.terms.mixers import keeps_states
from weft.engines.vllm.connectors import uses_mooncake
from weft.engines.vllm.lmcache import lmcache_variables
from weft.engines.vllm.ray import on_ray

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.engines.terms.launch import LaunchRequest

NIXL_PORT = 5600
MOONCAKE_PORT = 8998
# A lost machine neither acknowledges nor refuses anything: by default Linux would retransmit for a quarter of
# an hour, and a decode request would wait that long for KV that is lost.
UNACKNOWLEDGED_SECONDS = 20
_CPU_KV_FRACTION = 0.25  # of the pod's memory, if the user set it


def variables(request: LaunchRequest, ready_seconds: int) -> tuple[EnvValue, ...]:
    """Weft's variables merged with the user's, which take precedence."""
    return with_users(_ours(request, ready_seconds), request.spec.engine)


def _ours(request: LaunchRequest, ready_seconds: int) -> Iterator[EnvValue]:
    yield EnvValue("VLLM_HOST_IP", field=POD_IP)
    yield EnvValue("VLLM_NO_USAGE_STATS", "1")
    if on_ray(request):
        yield EnvValue("RAY_USAGE_STATS_ENABLED", "0")
    yield EnvValue("VLLM_ENGINE_READY_TIMEOUT_S", str(ready_seconds))
    yield from hub(request.spec)
    yield from _kv_transfer(request)
    yield from between_pods(request)
    yield from lmcache_variables(request)
    if request.on_cpu:
        yield EnvValue("VLLM_CPU_KVCACHE_SPACE", str(_cpu_kv_gib(request)))
    secret = request.spec.router.api_key_secret
    if secret is not None:
        yield EnvValue("VLLM_API_KEY", secret=secret)


def _kv_transfer(request: LaunchRequest) -> Iterator[EnvValue]:
    if not request.spec.role.is_half:
        return
    if uses_mooncake(request):
        yield EnvValue("VLLM_MOONCAKE_BOOTSTRAP_PORT", str(MOONCAKE_PORT))
        return
    yield EnvValue("VLLM_NIXL_SIDE_CHANNEL_HOST", field=POD_IP)
    yield EnvValue("VLLM_NIXL_SIDE_CHANNEL_PORT", str(NIXL_PORT))
    if keeps_states(request.spec.model):
        yield EnvValue("VLLM_SSM_CONV_STATE_LAYOUT", "DS")  # the only one that NIXL moves, and not the default on GPUs
    yield from transports(request)
    if not over_efa(request.spec) and request.spec.kv.transport != "RDMA":
        yield EnvValue("UCX_TCP_USER_TIMEOUT", f"{UNACKNOWLEDGED_SECONDS}s")


def _cpu_kv_gib(request: LaunchRequest) -> int:
    """Whole GiB of KV cache in a CPU pod's memory, at least one."""
    memory = dict(request.spec.engine.resources).get("memory")
    return max(1, int(_CPU_KV_FRACTION * parse_quantity(memory) / GIB)) if memory else 1
