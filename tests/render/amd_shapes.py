"""Pools on AMD's GPUs, by the name of their golden file."""

from __future__ import annotations

from tests.render.pools import DEEPSEEK, plan, pool, shape, spec
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, EngineRelease
from weft.domain.spec import EngineSpec, KVSpec, ModelSource, ModelSpec, PodSpec, SourceKind
from weft.domain.workload import Role

_PVC = ModelSource(SourceKind.PVC, "weights", "deepseek/v3")
_ROCM = EngineRelease(EngineName.VLLM, "0.32.0", "vllm/vllm-openai-rocm:v0.32.0")
_SGLANG = EngineRelease(EngineName.SGLang, "0.5.12", "lmsysorg/sglang:v0.5.12-rocm720-mi30x")

AMD_SHAPES = {
    "aggregated-mi300x": pool(spec(pod=PodSpec(groups=(44, 109))), plan(shape(1, "MI300X"), _ROCM), ("node-a",)),
    "experts-mi355x": pool(
        spec(model=ModelSpec(DEEPSEEK, source=_PVC)),
        plan(shape(1, "MI355X", Precision.FP8, data_parallel=8, expert_parallel=8), _ROCM, weight_bytes=680e9),
        ("node-a",),
    ),
    "prefill-mi300x-rdma": pool(
        spec(
            Role.Prefill,
            kv=KVSpec(Precision.FP8, transport="RDMA"),
            engine=EngineSpec(resources=(("rdma/hca", "1"),)),
        ),
        plan(shape(2, "MI300X", Precision.FP8), _ROCM),
        ("node-a",),
    ),
    "decode-mi300x": pool(spec(Role.Decode), plan(shape(4, "MI300X"), _ROCM), ("node-a",)),
    "sglang-mi300x": pool(
        spec(engine=EngineSpec(image=_SGLANG.image)),
        plan(shape(8, "MI300X", Precision.FP8, EngineName.SGLang), _SGLANG, weight_bytes=70e9),
        ("node-a",),
    ),
}
