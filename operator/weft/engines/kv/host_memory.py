"""Host memory of an engine pod that offloads KV to it: how much, where, and what is refused as it would run out.

Read from packages: from 0.27.0 on vLLM on NVIDIA GPUs keeps it in `/dev/shm`, in each pod of a rank a file of the
rank's full size, and ends if there is too little room. SGLang (0.5.9 to 0.5.23) leaves 10 GiB of memory to others.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.texts.units import GIB, parse_quantity
from weft.engines.kv.disks import EPHEMERAL, disk_bytes
from weft.engines.terms.launch import LaunchRequest
from weft.engines.terms.sizing import SHARED_MEMORY_BYTES_PER_GPU, shared_memory_bytes
from weft.engines.terms.versions import parse_version

if TYPE_CHECKING:
    from weft.domain.shape import Plan
    from weft.domain.spec import Pairs, PoolSpec
    from weft.engines.terms.versions import Version

SHARES_OFFLOAD: Version = (0, 27, 0)
SGLANG_LEAVES_BYTES = 10 * GIB


def offloaded_bytes(spec: PoolSpec) -> float:
    """Bytes of KV that a replica keeps in host memory, 0 without offloading."""
    return parse_quantity(json.loads(spec.kv.offload_json)["size"]) if spec.kv.offload_json is not None else 0.0


def pod_needs(spec: PoolSpec, plan: Plan) -> Pairs:
    """What each pod needs besides accelerators; where it requests no memory, that for offloaded KV is added.

    So no replica goes to a node with less memory in total. Unlike this memory, KV on disk is in the pod's requests.
    """
    kept = disk_bytes(spec, plan.shape)
    needs = (*spec.pod_needs, (EPHEMERAL, str(kept))) if kept else spec.pod_needs
    if spec.kv.offload_json is None or "memory" in dict(needs):
        return needs
    return (*needs, ("memory", f"{_needed_bytes(LaunchRequest(spec, plan)):.0f}"))


def pod_memory(spec: PoolSpec, plan: Plan) -> int:
    """Bytes of its node's memory that each pod needs, as `pod_needs` says; 0 where it names none."""
    if spec.kv.offload_json is None and not spec.pod_needs:
        return 0
    return math.ceil(parse_quantity(dict(pod_needs(spec, plan)).get("memory", "0")))


def memory_for_vllm(request: LaunchRequest) -> int:
    """Bytes of `/dev/shm`: the usual size plus the KV of the ranks in it; a size that the user sets is the total."""
    usual = shared_memory_bytes(request)
    return usual if request.spec.engine.shared_memory is not None else usual + int(_shared_bytes(request))


def refuse_too_little_memory(request: LaunchRequest) -> None:
    """Raise `Invalid` if KV in host memory needs more than the pod's memory, or than its `/dev/shm`.

    The kubelet makes that no larger than the pod's memory, and vLLM ends unless there is room for its whole file.
    """
    spec = request.spec
    if spec.kv.offload_json is None:
        return
    memory, needed = dict(spec.engine.resources).get("memory"), _needed_bytes(request)
    if memory is not None and parse_quantity(memory) < needed:
        raise Invalid(
            Reason.SpecInvalid,
            f"spec.kvCache.offload keeps {offloaded_bytes(spec) / GIB:.0f} GiB of a replica "
            "on the host, for which each pod "
            f"needs {needed / GIB:.0f} GiB, and spec.engine.resources.memory is {memory}: ask "
            "for more, or offload less",
        )
    shared, usual = _shared_bytes(request), shared_memory_bytes(request)
    if spec.engine.shared_memory is not None and shared > usual:
        raise Invalid(
            Reason.SpecInvalid,
            f"vLLM keeps spec.kvCache.offload in /dev/shm, {shared / GIB:g} GiB in each pod, and "
            f"spec.engine.resources.sharedMemory is {spec.engine.shared_memory}: unset it, or make it larger",
        )


def _needed_bytes(request: LaunchRequest) -> float:
    """Bytes that one pod needs: its part of the KV, room for queues and buffers, and what the engine leaves free.

    Where each pod has a file for all of a rank, that is more than its part.
    """
    spec, shape = request.spec, request.plan.shape
    wish = parse_quantity(spec.engine.shared_memory) if spec.engine.shared_memory else 0.0
    beside = SHARED_MEMORY_BYTES_PER_GPU * shape.gpus_per_pod
    beside += SGLANG_LEAVES_BYTES if shape.engine is EngineName.SGLang else 0
    return max(wish, offloaded_bytes(spec) / shape.pods + beside, memory_for_vllm(request))


def _shared_bytes(request: LaunchRequest) -> float:
    """Bytes of KV in a pod's `/dev/shm`: whole ranks, as each pod of a rank has a file for all of it."""
    spec, shape = request.spec, request.plan.shape
    native = json.loads(spec.kv.offload_json or "{}").get("backend", "Native") == "Native"
    if shape.engine is not EngineName.VLLM or not native or parse_version(request.plan.engine.version) < SHARES_OFFLOAD:
        return 0.0
    return offloaded_bytes(spec) * max(1, shape.ranks_per_pod) / shape.data_parallel
