"""Arguments and variables of vLLM that Weft decides, and the field to use instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from weft.domain.shape import Shape

_BY_SHAPE = "use spec.shape"
_BY_WEFT = "Weft sets it"
_OWNED = {
    "--tensor-parallel-size": f"{_BY_SHAPE}.tensorParallel",
    "--pipeline-parallel-size": f"{_BY_SHAPE}.pipelineParallel",
    "--data-parallel-size": f"{_BY_SHAPE}.dataParallel",
    "--enable-expert-parallel": f"{_BY_SHAPE}.expertParallel",
    "--decode-context-parallel-size": f"{_BY_SHAPE}.decodeContextParallel",
    "--prefill-context-parallel-size": f"{_BY_SHAPE}.prefillContextParallel",
    "--data-parallel-size-local": _BY_SHAPE,
    "--data-parallel-start-rank": _BY_SHAPE,
    "--data-parallel-rank": _BY_SHAPE,
    "--data-parallel-address": _BY_WEFT,
    "--data-parallel-rpc-port": _BY_WEFT,
    "--data-parallel-backend": _BY_WEFT,
    "--data-parallel-hybrid-lb": _BY_WEFT,
    "--data-parallel-external-lb": _BY_WEFT,
    "--data-parallel-multi-port-external-lb": _BY_WEFT,
    "--nnodes": _BY_WEFT,
    "--node-rank": _BY_WEFT,
    "--master-addr": _BY_WEFT,
    "--master-port": _BY_WEFT,
    "--headless": _BY_WEFT,
    "--distributed-executor-backend": "use spec.engine.distributed",
    "--device-ids": _BY_WEFT,
    "--host": _BY_WEFT,
    "--port": _BY_WEFT,
    "--uds": _BY_WEFT,
    "--grpc": _BY_WEFT,
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
    "--speculative-config": "use spec.engine.speculative",
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
_SHORTEST_ABBREVIATION = len("--xxx")

OWNED_ENV = frozenset(
    {
        "VLLM_HOST_IP",
        "VLLM_PORT",
        "VLLM_NIXL_SIDE_CHANNEL_HOST",
        "VLLM_NIXL_SIDE_CHANNEL_PORT",
        "VLLM_ENGINE_READY_TIMEOUT_S",
        "VLLM_API_KEY",
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
    }
)


def vllm_argument_conflict(args: tuple[str, ...], shape: Shape) -> Explanation | None:
    """The first argument that decides what Weft decides, however it is spelled."""
    for argument in args:
        owned = _owned_by_weft(argument)
        if owned is not None:
            shaped = f"; this replica is {shape}" if _OWNED[owned].startswith(_BY_SHAPE) else ""
            return Explanation(
                Reason.ArgumentConflict, f"engine.args may not contain {argument}: {_OWNED[owned]}{shaped}"
            )
    return None


def vllm_env_conflict(names: tuple[str, ...]) -> Explanation | None:
    """The first variable that Weft sets itself."""
    taken = [name for name in names if name in OWNED_ENV]
    return Explanation(Reason.ArgumentConflict, f"engine.env may not set {taken[0]}: {_BY_WEFT}") if taken else None


def _owned_by_weft(argument: str) -> str | None:
    """The owned flag behind an argument: `--flag=value`, `--some_flag`, `--no-flag`, `--json.key`, abbreviated."""
    if not argument.startswith("-") or argument in {"-", "--"}:
        return None
    name = argument.split("=", 1)[0]
    if not name.startswith("--"):
        return _SHORT.get(name)
    flag = name.split(".", 1)[0].replace("_", "-")
    for spelling in (flag, flag.replace("--no-", "--", 1)):
        if spelling in _OWNED:
            return spelling
    if len(flag) < _SHORTEST_ABBREVIATION:
        return None
    # argparse accepts an unambiguous beginning of a flag
    return next((owned for owned in _OWNED if owned.startswith(flag)), None)
