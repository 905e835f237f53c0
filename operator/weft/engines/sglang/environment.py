"""Environment variables of an SGLang container."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engines.kv.disks import disk_variables
from weft.engines.kv.libfabric import BACKEND, over_efa
from weft.engines.pods.environment import POD_IP, between_pods, hub, transports, with_users
from weft.engines.sglang import arguments
from weft.engines.terms.launch import EnvValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.engines.terms.launch import LaunchRequest


def variables(request: LaunchRequest) -> tuple[EnvValue, ...]:
    """Weft's variables merged with the user's, which take precedence."""
    return with_users(_ours(request), request.spec.engine)


def _ours(request: LaunchRequest) -> Iterator[EnvValue]:
    yield EnvValue(arguments.OWN_ADDRESS, field=POD_IP)
    yield from hub(request.spec)
    yield from _kv_transfer(request)
    yield from between_pods(request)
    yield from disk_variables(request)
    secret = request.spec.router.api_key_secret
    if secret is not None:
        yield EnvValue(arguments.API_KEY, secret=secret)


def _kv_transfer(request: LaunchRequest) -> Iterator[EnvValue]:
    """Variables for KV transfer: NIXL uses UCX's transports; Mooncake looks for RDMA devices unless told not to."""
    if not request.spec.role.is_half:
        return
    kv = request.spec.kv
    if kv.connector == "NIXL":
        yield from transports(request)
        if over_efa(request.spec):
            yield EnvValue("SGLANG_DISAGGREGATION_NIXL_BACKEND", BACKEND)
    elif kv.transport == "TCP":
        yield EnvValue("MC_FORCE_TCP", "1")
