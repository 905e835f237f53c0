"""KV beside the GPUs: more in host memory than they have, where the engine ends else, and on disks within a size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog.limits import numbers
from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import EngineName
from weft.domain.units import GIB
from weft.engines.disk_kv import disk_bytes
from weft.engines.host_memory import offloaded_bytes
from weft.perf import footprint

if TYPE_CHECKING:
    from weft.shaping.case import Case

# SGLang's packages: an assertion up to 0.5.14, a warning from 0.5.15 on.
TAKES_LESS_THAN_THE_GPU = (0, 5, 15)


def host_kv_conflict(case: Case) -> Explanation | None:
    """Why the engine would not start with so little beside the KV of its GPUs, as large as that is predicted to be."""
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
        f"{case.release} ends where kvCache.offload keeps no more KV than the GPUs: {kept / GIB:.1f} GiB beside each, "
        f"which has about {room / GIB:.1f}; allowed: above {room * shape.gpus / GIB:.0f}Gi in all, or 0.5.15 or later",
    )


def disk_kv_conflict(case: Case) -> Explanation | None:
    """Why the release would fill the disks of nodes, or keeps nothing there."""
    able = case.limits.kv_disk
    if not disk_bytes(case.request.spec, case.option.shape) or (able and able.include(case.engine_version)):
        return None
    allowed = "none of it, or engine.name SGLang" if able is None else able
    return Explanation(
        Reason.EngineUnsupported,
        f"{case.release} keeps no KV on disks within a size, as kvCache.offload.diskGiB asks for; allowed: {allowed}",
    )
