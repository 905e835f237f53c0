"""LMCache in the processes of vLLM: KV of an Aggregated pool in host memory, and on disks behind it.

Read from packages: up to vLLM 0.22.1 `--kv-offloading-backend lmcache` means LMCache inside each rank. From 0.23.0 on
it means a server beside the engine, which nobody starts, so there the connector is named (up to 0.33.0 it is there).
In LMCache 0.3.9 to 0.5.6 each rank has a size of its own on the disk, and deletes what was used least recently before
it writes more; before 0.5.5 a chunk that is written once more is counted once more, until nothing new is kept.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.units import GIB
from weft.engines.disk_kv import FILLED, disk_bytes, refuse_beside_disks
from weft.engines.host_memory import offloaded_bytes
from weft.engines.launch import DISK_PATH, EnvValue
from weft.engines.versions import parse_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.spec import PoolSpec
    from weft.engines.launch import LaunchRequest
    from weft.engines.versions import Version

MEANS_A_SERVER: Version = (0, 23, 0)  # vLLM pull request 42865
SEED = "PYTHONHASHSEED"  # of hashes, without which processes of one rank have seeds of their own
_DISK_VARIABLES = ("LMCACHE_LOCAL_DISK", "LMCACHE_MAX_LOCAL_DISK_SIZE")


def keeps_by_lmcache(spec: PoolSpec) -> bool:
    """Whether KV is offloaded, and by LMCache."""
    return bool(json.loads(spec.kv.offload_json or "{}").get("backend") == "LMCache")


def names_lmcache(request: LaunchRequest) -> bool:
    """Whether its connector has to be named, as the flags of offloading mean another thing."""
    if request.spec.role.is_half or not keeps_by_lmcache(request.spec):
        return False
    return means_a_server(request.plan.engine.version)


def means_a_server(version: str) -> bool:
    """Whether the flags of this vLLM end an engine that has no server beside it, so that none of them ever served."""
    return parse_version(version) >= MEANS_A_SERVER


def lmcache(request: LaunchRequest) -> dict[str, Any]:
    """The connector with what each rank keeps; sizes are GiB.

    Scheduler and ranks are processes that find KV by hashes of their own: Python's, the default, differ between them.
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
    """One seed of hashes for all processes of a rank, and nothing told to LMCache's makers."""
    if names_lmcache(request):
        yield EnvValue(SEED, "0")
        yield EnvValue("LMCACHE_TRACK_USAGE", "false")


def refuse_adapters_beside_lmcache(spec: PoolSpec) -> None:
    """Raise `Invalid` where answers would be wrong: it finds KV by tokens alone, whichever adapter it was made with."""
    if spec.model.adapters and keeps_by_lmcache(spec):
        raise Invalid(
            Reason.FeatureUnsupported,
            "kvCache.offload.backend LMCache beside model.adapters is not supported: it would give the KV of one "
            "adapter to another; use Native",
        )
