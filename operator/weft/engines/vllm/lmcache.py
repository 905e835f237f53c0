"""LMCache inside vLLM's processes: KV of an Aggregated pool in host memory, and on disks behind it.

Read from packages: up to vLLM 0.22.1 `--kv-offloading-backend lmcache` means LMCache inside each rank. From 0.23.0 on
it means a server beside the engine, which Weft does not start, so the connector is named instead (seen up to 0.33.0).
In LMCache 0.3.9 to 0.5.6 each rank has a disk limit of its own, and deletes the least recently used before it writes
more; before 0.5.5 a chunk that is written twice is counted twice, until nothing new is kept.

A store outside the pods, which `LMCACHE_REMOTE_URL` in `engine.env` names, is shared by all replicas that name it. Its
keys have the model's name or path, the size of the world and the rank, the hash of the tokens and the dtype (package
0.5.6, `CacheEngineKey`); what else KV depends on is in the seed with which those hashes begin.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.texts.units import GIB
from weft.engines.kv.disks import FILLED, disk_bytes, refuse_beside_disks
from weft.engines.kv.host_memory import offloaded_bytes
from weft.engines.model.speculative import speculative_wish
from weft.engines.terms.launch import DISK_PATH, EnvValue
from weft.engines.terms.versions import parse_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.hardware import Precision
    from weft.domain.shape import Shape
    from weft.domain.spec import ModelSource, PoolSpec
    from weft.engines.terms.launch import LaunchRequest
    from weft.engines.terms.versions import Version

MEANS_A_SERVER: Version = (0, 23, 0)  # vLLM pull request 42865
SEED = "PYTHONHASHSEED"  # hash seed; without it the processes of one rank have different ones
SEED_BYTES = 4  # Python takes whole numbers below 2^32
_SETTINGS = "LMCACHE_"  # prefix of variables, any of which may name a store, if only in a file of settings
_DISK_VARIABLES = ("LMCACHE_LOCAL_DISK", "LMCACHE_MAX_LOCAL_DISK_SIZE")


def keeps_by_lmcache(spec: PoolSpec) -> bool:
    """Whether KV is offloaded with LMCache."""
    return bool(json.loads(spec.kv.offload_json or "{}").get("backend") == "LMCache")


def names_lmcache(request: LaunchRequest) -> bool:
    """Whether LMCache's connector has to be named, as the offloading flags mean something else in this version."""
    if request.spec.role.is_half or not keeps_by_lmcache(request.spec):
        return False
    return means_a_server(request.plan.engine.version)


def means_a_server(version: str) -> bool:
    """Whether this vLLM's offloading flags require an LMCache server beside it: without one they end the engine."""
    return parse_version(version) >= MEANS_A_SERVER


def lmcache(request: LaunchRequest) -> dict[str, Any]:
    """LMCache's connector with the limits of each rank; sizes are GiB.

    Scheduler and ranks are processes that look up KV by hash: Python's default hashes would differ between them.
    """
    spec, shape = request.spec, request.plan.shape
    keeps: dict[str, Any] = {
        "lmcache.local_cpu": True,
        "lmcache.max_local_cpu_size": offloaded_bytes(spec) / shape.gpus / GIB,
        "lmcache.pre_caching_hash_algorithm": "sha256_cbor",
    }
    on_disk = disk_bytes(spec, shape)
    if on_disk:
        refuse_beside_disks(spec, (), _DISK_VARIABLES)
        keeps["lmcache.local_disk"] = f"{DISK_PATH}/"
        keeps["lmcache.max_local_disk_size"] = on_disk * FILLED / shape.gpus_per_pod / GIB
    return {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both", "kv_connector_extra_config": keeps}


def lmcache_variables(request: LaunchRequest) -> Iterator[EnvValue]:
    """Variables that give all processes of a rank one hash seed, and turn off LMCache's usage reports."""
    if names_lmcache(request):
        yield EnvValue(SEED, str(seed(request)))
        yield EnvValue("LMCACHE_TRACK_USAGE", "false")


def seed(request: LaunchRequest) -> int:
    """The hash seed: 0, or below 2^32 and of its own for all that KV depends on where a store may outlive the replica.

    In one store TP 4 and TP 2 x PP 2 have the same keys, as have two models at one path and two revisions of a model.
    """
    if not any(name.startswith(_SETTINGS) for name, _ in request.spec.engine.env):
        return 0
    text = json.dumps(_what_kv_depends_on(request), sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:SEED_BYTES])


def _what_kv_depends_on(request: LaunchRequest) -> dict[str, Any]:
    """What decides whether the KV of one replica is of use to another, as plain JSON.

    Its form is a promise to stores that outlive an operator (ADR 0062): names are spelled out here and not taken from
    classes or from what people read. What is added leaves itself out where it is unset, so that other seeds stay.
    """
    model, release = request.spec.model, request.plan.engine
    return {
        # vLLM scales positions by the longest context where a model has two ways to (LongRoPE)
        "model": {"id": model.model_id, "maxModelLen": model.max_context_tokens},
        "weights": _weights(model.source),
        "release": {"version": release.version, "image": release.image},
        "shape": _sizes(request.plan.shape),
        "kvPrecision": _word(request.spec.kv.precision),
        "args": list(request.spec.engine.args),
        "env": dict(request.spec.engine.env),  # names are unique, and their order means nothing to a process
        "speculative": _drafting(request.spec.engine.speculative_json),
    }


def _weights(source: ModelSource | None) -> dict[str, str | None] | None:
    if source is None:
        return None
    return {
        "kind": source.kind.value,
        "location": source.location,
        "path": source.path,
        "revision": source.revision,
    }


def _sizes(shape: Shape) -> dict[str, str | int]:
    """All of a shape but how many of its GPUs share a pod, on which no KV depends."""
    return {
        "accelerator": shape.accelerator,
        "precision": shape.precision.value,
        "tensor": shape.tensor_parallel,
        "pipeline": shape.pipeline_parallel,
        "expert": shape.expert_parallel,
        "data": shape.data_parallel,
        "decodeContext": shape.decode_context_parallel,
        "prefillContext": shape.prefill_context_parallel,
    }


def _drafting(wish_json: str | None) -> dict[str, str | int | None] | None:
    wish = speculative_wish(wish_json)
    return {"method": wish.method, "model": wish.model, "tokens": wish.tokens} if wish is not None else None


def _word(precision: Precision | None) -> str | None:
    return precision.value if precision is not None else None


def refuse_adapters_beside_lmcache(spec: PoolSpec) -> None:
    """Raise `Invalid` for adapters beside LMCache: it looks up KV by tokens alone, so answers would be wrong."""
    if spec.model.adapters and keeps_by_lmcache(spec):
        raise Invalid(
            Reason.FeatureUnsupported,
            "spec.kvCache.offload.backend LMCache beside spec.model.adapters is not "
            "supported: it would give the KV of one "
            "adapter to another; use Native",
        )
