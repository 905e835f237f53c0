"""Arguments and variables of `trtllm-serve` that Weft decides, and the field to use instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engines.options.owned import BY_SHAPE, BY_WEFT, SEEN_DEVICES, OwnedFlags, env_conflict
from weft.engines.options.settings import settings_conflict, without_settings
from weft.engines.tensorrt_llm import world

if TYPE_CHECKING:
    from weft.domain.reasons import Explanation
    from weft.domain.shape import Shape

_KV_FRACTION = f"{BY_WEFT}, to what memory is planned with"
_PLAIN_HTTP = "probes, metrics and fronts speak plain HTTP"
_FILE = "Weft writes this file, whose settings win over arguments"
_NO_CLUSTER = "Weft starts no cluster of servers"

_OWNED = {
    "--tensor-parallel-size": f"{BY_SHAPE}.tensorParallel",
    "--tp-size": f"{BY_SHAPE}.tensorParallel",
    "--pipeline-parallel-size": f"{BY_SHAPE}.pipelineParallel",
    "--pp-size": f"{BY_SHAPE}.pipelineParallel",
    "--context-parallel-size": BY_SHAPE,
    "--cp-size": BY_SHAPE,
    "--moe-expert-parallel-size": f"{BY_SHAPE}.expertParallel",
    "--ep-size": f"{BY_SHAPE}.expertParallel",
    "--moe-cluster-parallel-size": BY_SHAPE,
    "--cluster-size": BY_SHAPE,
    "--enable-attention-dp": f"{BY_SHAPE}.dataParallel",
    "--gpus-per-node": BY_SHAPE,
    "--host": BY_WEFT,
    "--port": BY_WEFT,
    "--backend": BY_WEFT,
    "--grpc": _PLAIN_HTTP,
    "--config": _FILE,
    "--extra-llm-api-options": _FILE,
    "--free-gpu-memory-fraction": _KV_FRACTION,
    "--kv-cache-free-gpu-memory-fraction": _KV_FRACTION,
    "--kv-cache-dtype": "use spec.kvCache.precision",
    "--max-seq-len": "use spec.model.maxModelLen",
    "--revision": "use spec.model.source.huggingFace.revision",
    "--hf-revision": "use spec.model.source.huggingFace.revision",
    "--served-model-name": "use spec.model.servedNames",
    "--server-role": "use spec.role",
    "--disagg-cluster-uri": _NO_CLUSTER,
    "--metadata-server-config-file": _NO_CLUSTER,
}

OWNED_ENV = frozenset(
    {
        *SEEN_DEVICES,
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "SLURM_PROCID",
        "TLLM_DISABLE_MPI",
        "TLLM_SPAWN_PROXY_PROCESS",
        *world.OWNED_ENV,
    }
)

_FLAGS = OwnedFlags(_OWNED, {})


def tensorrt_llm_argument_conflict(args: tuple[str, ...], shape: Shape) -> Explanation | None:
    """Why the first argument that sets what Weft decides is refused, with underscores or dashes; None without one."""
    return settings_conflict(args) or _FLAGS.conflict(without_settings(args), shape)


def tensorrt_llm_env_conflict(names: tuple[str, ...]) -> Explanation | None:
    """Why the first variable that Weft sets, or that joins the server to another MPI world, is refused, or None."""
    return env_conflict(names, OWNED_ENV)
