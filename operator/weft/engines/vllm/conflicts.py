"""Arguments and variables of vLLM that Weft decides, and the field to use instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.engines.options.batches import batch_conflict
from weft.engines.options.given import given
from weft.engines.options.owned import BY_SHAPE, BY_WEFT, SEEN_DEVICES, OwnedFlags, env_conflict, without_every_address
from weft.engines.options.prefixes import prefix_conflict

if TYPE_CHECKING:
    from weft.domain.shape import Shape
    from weft.domain.spec import PoolSpec

BY_BALANCING = "use spec.shape.dataParallelBalancing"

_SPECULATIVE = "use spec.engine.speculative"

_OWNED = {
    "--tensor-parallel-size": f"{BY_SHAPE}.tensorParallel",
    "--pipeline-parallel-size": f"{BY_SHAPE}.pipelineParallel",
    "--data-parallel-size": f"{BY_SHAPE}.dataParallel",
    "--enable-expert-parallel": f"{BY_SHAPE}.expertParallel",
    "--decode-context-parallel-size": f"{BY_SHAPE}.decodeContextParallel",
    "--prefill-context-parallel-size": f"{BY_SHAPE}.prefillContextParallel",
    "--data-parallel-size-local": BY_SHAPE,
    "--data-parallel-start-rank": BY_SHAPE,
    "--data-parallel-rank": BY_SHAPE,
    "--data-parallel-address": BY_WEFT,
    "--data-parallel-rpc-port": BY_WEFT,
    "--data-parallel-backend": BY_WEFT,
    "--data-parallel-hybrid-lb": BY_BALANCING,
    "--data-parallel-external-lb": BY_BALANCING,
    "--data-parallel-multi-port-external-lb": BY_BALANCING,
    "--data-parallel-supervisor-port": BY_WEFT,
    "--nnodes": BY_WEFT,
    "--node-rank": BY_WEFT,
    "--master-addr": BY_WEFT,
    "--master-port": BY_WEFT,
    "--headless": BY_WEFT,
    "--distributed-executor-backend": "use spec.engine.distributed",
    "--device-ids": BY_WEFT,
    "--host": "it listens on every IPv4 address; allowed: --host ::, with which it listens on IPv6 too",
    "--port": BY_WEFT,
    "--uds": BY_WEFT,
    "--grpc": BY_WEFT,
    "--ssl-keyfile": "probes and metrics speak plain HTTP inside the cluster",
    "--ssl-certfile": "probes and metrics speak plain HTTP inside the cluster",
    "--config": "list its arguments in spec.engine.args, where they can be checked",
    "--shutdown-timeout": "use spec.rollout.drainTimeout",
    "--disable-log-stats": "scaling and readiness of the SLO need the engine's metrics",
    "--model": "use spec.model.id or spec.model.source",
    "--revision": "use spec.model.source.huggingFace.revision",
    "--served-model-name": "use spec.model.servedNames",
    "--max-model-len": "use spec.model.maxModelLen",
    "--dtype": "use spec.model.precision",
    "--quantization": "use spec.model.precision",
    "--enable-lora": "use spec.model.adapters",
    "--lora-modules": "use spec.model.adapters",
    "--kv-cache-dtype": "use spec.kvCache.precision",
    "--kv-offloading-size": "use spec.kvCache.offload",
    "--kv-offloading-backend": "use spec.kvCache.offload",
    "--kv-transfer-config": "use spec.kvTransfer",
    **dict.fromkeys(("--speculative-config", "--spec-method", "--spec-model", "--spec-tokens"), _SPECULATIVE),
    "--api-key": "use spec.router.apiKeySecretRef",
}
_SHORT = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-ep": "--enable-expert-parallel",
    "-dcp": "--decode-context-parallel-size",
    "-pcp": "--prefill-context-parallel-size",
    "-dpl": "--data-parallel-size-local",
    "-dpr": "--data-parallel-start-rank",
    "-dpn": "--data-parallel-rank",
    "-dpa": "--data-parallel-address",
    "-dpp": "--data-parallel-rpc-port",
    "-dpb": "--data-parallel-backend",
    "-dph": "--data-parallel-hybrid-lb",
    "-dpe": "--data-parallel-external-lb",
    "-dpm": "--data-parallel-multi-port-external-lb",
    "-n": "--nnodes",
    "-r": "--node-rank",
    "-q": "--quantization",
    "-sc": "--speculative-config",
}

OWNED_ENV = frozenset(
    {
        "VLLM_HOST_IP",
        "VLLM_PORT",
        "VLLM_NIXL_SIDE_CHANNEL_HOST",
        "VLLM_NIXL_SIDE_CHANNEL_PORT",
        "VLLM_MOONCAKE_BOOTSTRAP_PORT",
        "VLLM_ENGINE_READY_TIMEOUT_S",
        "VLLM_API_KEY",
        # Without --data-parallel-size vLLM takes ranks from these (ParallelConfig in vllm/config/parallel.py)
        *("VLLM_DP_SIZE", "VLLM_DP_RANK", "VLLM_DP_RANK_LOCAL", "VLLM_DP_MASTER_IP", "VLLM_DP_MASTER_PORT"),
        *SEEN_DEVICES,
    }
)


_FLAGS = OwnedFlags(_OWNED, _SHORT)


def vllm_argument_conflict(args: tuple[str, ...], shape: Shape) -> Explanation | None:
    """Why the first argument that sets what Weft decides is refused, however it is spelled; None if there is none."""
    return _FLAGS.conflict(without_every_address(args), shape)


def vllm_env_conflict(names: tuple[str, ...]) -> Explanation | None:
    """Why the first variable that Weft sets itself is refused; None if there is none."""
    return env_conflict(names, OWNED_ENV)


def vllm_prefix_conflict(spec: PoolSpec) -> Explanation | None:
    """Why the prefix cache may not be off, as the plan assumes hits, or None."""
    off = given(spec.engine.args, "--enable-prefix-caching") == "false"
    return prefix_conflict(spec, "--no-enable-prefix-caching" if off else None)


def vllm_batch_conflict(spec: PoolSpec) -> Explanation | None:
    """Why the user's limits on a step contradict each other; None if they do not."""
    message = batch_conflict(spec.engine.args)
    return Explanation(Reason.ArgumentConflict, message) if message else None
