"""Checks of KV offload: to host memory, where some engines require more than on the GPUs, and to disks."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from weft.catalog.limits import numbers
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import EngineName
from weft.domain.texts.units import GIB, MIB
from weft.engines.kv.disks import disk_bytes
from weft.engines.kv.host_memory import offloaded_bytes
from weft.engines.vllm.lmcache import SEED, keeps_by_lmcache, means_a_server
from weft.perf import footprint, sequence_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.model import Architecture
    from weft.domain.shape import Shape
    from weft.domain.spec import PoolSpec
    from weft.shaping.case import ShapeCase

# In SGLang's packages too small a host cache is an assertion up to 0.5.14, and a warning from 0.5.15 on.
TAKES_LESS_THAN_THE_GPU = (0, 5, 15)
PIECE_TOKENS = 256  # what LMCache keeps as one by default; blocks and pages of others are smaller


def refuse_a_host_cache_that_keeps_nothing(spec: PoolSpec, architecture: Architecture) -> None:
    """Raise `Invalid` (SpecInvalid) if all host memory of a replica holds less than one piece of KV, or a mean prompt.

    So small a tier gives back nothing whatever the shape, and is usually a number whose unit was forgotten.
    """
    if spec.kv.offload_json is None:
        return
    tokens = min(spec.workload.input_tokens, PIECE_TOKENS)
    needed = sequence_bytes(architecture, spec.kv.precision or Precision.BF16, tokens)
    if offloaded_bytes(spec) >= needed:
        return
    raise Invalid(
        Reason.SpecInvalid,
        f"spec.kvCache.offload.size {json.loads(spec.kv.offload_json)['size']} does not hold the KV of {tokens:.0f} "
        f"tokens; allowed: at least {math.ceil(needed / MIB)}Mi for {architecture.model_id}, where a number without a "
        "unit is bytes",
    )


def the_host_keeps_more_kv_than_the_gpus(case: ShapeCase) -> Explanation | None:
    """Refuse a host cache so small, beside the predicted KV of its GPUs, that the engine would not start."""
    spec, shape = case.request.spec, case.option.shape
    version = numbers(case.engine_version)
    if spec.kv.offload_json is None or shape.engine is not EngineName.SGLang:
        return None
    if version is None or version >= TAKES_LESS_THAN_THE_GPU:
        return None
    room, kept = footprint(case.replica).room_bytes, offloaded_bytes(spec) / shape.gpus
    if kept > room:
        return None
    return Explanation(
        Reason.ShapeInvalid,
        f"{case.release} ends where spec.kvCache.offload keeps no more KV than the GPUs: "
        f"{kept / GIB:.1f} GiB beside each, "
        f"which has about {room / GIB:.1f}; allowed: above {room * shape.gpus / GIB:.0f}Gi in all, or 0.5.15 or later",
    )


def the_release_keeps_kv_on_disks_within_a_size(case: ShapeCase) -> Explanation | None:
    """Refuse a release that would fill the disks of nodes without bound, or cannot use them."""
    able, spec, shape = case.limits.kv_disk, case.request.spec, case.option.shape
    if not disk_bytes(spec, shape):
        return None
    by_itself = shape.engine is EngineName.VLLM and not keeps_by_lmcache(spec)
    if able and not by_itself and able.include(case.engine_version):
        return None
    lmcache = f"spec.kvCache.offload.backend LMCache with {able}, " if by_itself else ""
    allowed = able if able and not by_itself else f"none of it, {lmcache}or spec.engine.name SGLang"
    return Explanation(
        Reason.EngineUnsupported,
        f"{case.release} keeps no KV on disks within a size, as "
        f"spec.kvCache.offload.diskGiB asks for; allowed: {allowed}",
    )


def lmcache_reuses_its_own_kv(case: ShapeCase) -> Explanation | None:
    """Refuse a replica in which LMCache could not reuse its KV, or would use that of another rank."""
    spec, shape = case.request.spec, case.option.shape
    if spec.role.is_half or shape.engine is not EngineName.VLLM or not keeps_by_lmcache(spec):
        return None
    why = next((sentence for wrong, sentence in _lmcache_claims(case) if wrong), None)
    return Explanation(Reason.ShapeInvalid, f"spec.kvCache.offload.backend LMCache {why}") if why is not None else None


def lmcache_finds_what_it_keeps(case: ShapeCase) -> Explanation | None:
    """Refuse ranks of several GPUs whose processes hash apart, but for a pool that runs such replicas (ADR 0062).

    What no release can do is left to the next check, as no other release would help.
    """
    spec, shape = case.request.spec, case.option.shape
    if spec.role.is_half or shape.engine is not EngineName.VLLM or not keeps_by_lmcache(spec):
        return None
    in_no_release = case.request.architecture.keeps_states or (spec.shape.decode_context_parallel or 1) > 1
    if in_no_release or SEED in dict(spec.engine.env) or not _hashes_apart(shape, case.engine_version):
        return None
    running = case.request.incumbent
    if running is not None and _hashes_apart(running.shape, running.engine.version):
        return None
    return Explanation(
        Reason.EngineUnsupported,
        f"spec.kvCache.offload.backend LMCache finds nothing again in {case.release}, where each process of a rank has "
        "keys of its own; allowed: one GPU for each rank, 0.23.0 or later, or Native",
    )


def _hashes_apart(shape: Shape, version: str) -> bool:
    """Whether scheduler and ranks are several processes, each with a hash of its own."""
    several = shape.gpus > shape.data_parallel
    return shape.engine is EngineName.VLLM and several and not means_a_server(version)


def _lmcache_claims(case: ShapeCase) -> Iterator[tuple[bool, str]]:
    """Yield (whether it applies, message) for each problem. Read from LMCache 0.3.9 to 0.5.6.

    Configurations that merely miss the cache and served before stay allowed. KV of the first stage alone is only looked
    up where all processes share a seed; then other stages compute with missing KV.
    """
    shape, architecture, spec = case.option.shape, case.request.architecture, case.request.spec
    instead, named = "allowed: 1, or Native", means_a_server(case.engine_version)
    yield named and shape.ranks_per_pod == 0, f"asks the GPUs of one pod alone; pods of a rank: {instead}"
    latent_stages = architecture.is_latent and shape.pipeline_parallel > 1
    is_asked_for = named or SEED in dict(spec.engine.env)
    yield (
        latent_stages and is_asked_for,
        (f"keeps latent KV of the first stage alone; spec.shape.pipelineParallel: {instead}"),
    )
    shared = shape.decode_context_parallel > 1
    yield shared, f"knows no KV cache that GPUs share; spec.shape.decodeContextParallel: {instead}"
    recurs = architecture.keeps_states
    yield recurs, f"does not start for a model with recurrences as {architecture.model_id}; allowed: Native"
    if disk_bytes(spec, shape):
        several = shape.ranks_per_pod > 1
        yield several, "has one folder for all ranks of a pod; data-parallel ranks of a pod with diskGiB: allowed: 1"
        others = case.option.accelerator.vendor != "nvidia"
        yield others, "keeps within diskGiB in images for NVIDIA GPUs alone; allowed: those, or none of it"
