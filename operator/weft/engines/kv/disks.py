"""KV cache on node disks: how much, where, and which settings are refused because a disk could fill up.

Read from SGLang's packages 0.5.13, 0.5.14, 0.5.15 and 0.5.23: `--hicache-storage-backend file` writes pages below one
directory. From 0.5.14 on each rank deletes its least recently used pages before it exceeds a size. What vLLM keeps on
disk is in `vllm/lmcache.py`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.texts.units import GIB
from weft.engines.options.given import given
from weft.engines.terms.launch import DISK_PATH, EnvValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.shape import Shape
    from weft.domain.spec import PoolSpec
    from weft.engines.terms.launch import LaunchRequest

EPHEMERAL = "ephemeral-storage"
# Fraction of the volume: past its limit the kubelet evicts the pod, and files take whole blocks.
FILLED = 0.95
_BACKEND = "--hicache-storage-backend"
_FLAGS = (_BACKEND, f"{_BACKEND}-extra-config")  # the latter also sets sizes, and takes precedence
_VARIABLES = "SGLANG_HICACHE_FILE_BACKEND_"


def disk_bytes(spec: PoolSpec, shape: Shape) -> int:
    """Bytes of KV that each pod of a replica may keep on the disk of its node; 0 if KV is not kept on disk."""
    kept = json.loads(spec.kv.offload_json or "{}").get("diskGiB") or 0
    return kept * GIB // shape.pods


def disk_arguments(request: LaunchRequest) -> tuple[str, ...]:
    """Arguments for SGLang's disk tier behind host memory; raises `Invalid` for user settings that contradict it."""
    if not disk_bytes(request.spec, request.plan.shape):
        return ()
    refuse_beside_disks(request.spec, _FLAGS, (_VARIABLES,))
    return (_BACKEND, "file")


def disk_variables(request: LaunchRequest) -> Iterator[EnvValue]:
    """Variables for the directory of the disk tier and the size limit of each rank."""
    shape = request.plan.shape
    kept = disk_bytes(request.spec, shape)
    if kept:
        yield EnvValue(f"{_VARIABLES}STORAGE_DIR", DISK_PATH)
        yield EnvValue(f"{_VARIABLES}MAX_SIZE", str(int(kept * FILLED / shape.gpus_per_pod)))


def refuse_beside_disks(spec: PoolSpec, flags: tuple[str, ...], variables: tuple[str, ...]) -> None:
    """Raise `Invalid` for user settings that decide the same as Weft; `variables` are prefixes of variable names."""
    users = [
        *(f"spec.engine.args {flag}" for flag in flags if given(spec.engine.args, flag)),
        *(f"spec.engine.env {name}" for name, _ in spec.engine.env if name.startswith(variables)),
    ]
    if users:
        message = f"{users[0]} contradicts spec.kvCache.offload.diskGiB, which decides it: remove one of the two"
        raise Invalid(Reason.SpecInvalid, message)
