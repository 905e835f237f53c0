"""One pool of TensorRT-LLM for each way to build a replica, by the name of its golden file."""

from __future__ import annotations

from typing import Any

from tests.render.pools import DEEPSEEK, plan, pool, shape, spec
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, EngineRelease, Plan
from weft.domain.spec import EngineSpec, KVSpec, ModelSource, ModelSpec, PodSpec, SourceKind
from weft.domain.workload import Role

V1_3 = EngineRelease(EngineName.TensorRTLLM, "1.3.0rc14", "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc14")
_PVC = ModelSource(SourceKind.PVC, "weights", "deepseek/v3")
_70B = "nvidia/Llama-3.3-70B-Instruct"


def planned(
    tensor: int = 1,
    accelerator: str = "H200",
    precision: Precision = Precision.BF16,
    *,
    release: EngineRelease | None = None,
    weight_bytes: float = 16e9,
    **rest: Any,  # noqa: ANN401 - fields of Shape
) -> Plan:
    """A plan of TensorRT-LLM."""
    return plan(shape(tensor, accelerator, precision, EngineName.TensorRTLLM, **rest), release, weight_bytes)


TENSORRT_LLM_SHAPES = {
    "tensorrt-llm-balanced-experts": pool(
        spec(
            model=ModelSpec(DEEPSEEK),
            engine=EngineSpec(
                args=(
                    *("--set", "guided_decoding_backend=xgrammar", "--max_batch_size", "512"),
                    *("--set", "moe_config.load_balancer.num_slots=288"),
                    "--set=moe_config.load_balancer.layer_updates_per_iter=2",
                )
            ),
        ),
        planned(1, "H200", Precision.FP8, weight_bytes=680e9, data_parallel=8, expert_parallel=8),
        ("node-a",),
    ),
    "trtllm-tp1": pool(
        spec(
            engine=EngineSpec(args=("--max_batch_size", "256"), env=(("LOG", "1"),), resources=(("memory", "64Gi"),)),
            pod=PodSpec(annotations=(("note", "x"),)),
        ),
        planned(),
        ("node-a",),
    ),
    "trtllm-tp8-fp8": pool(
        spec(model=ModelSpec(f"{_70B}-FP8", max_context_tokens=32768), kv=KVSpec(Precision.FP8)),
        planned(8, precision=Precision.FP8, weight_bytes=70e9),
        ("node-a",),
    ),
    "trtllm-tp8-nvfp4-1.3": pool(
        spec(model=ModelSpec(f"{_70B}-FP4", ("llama",))),
        planned(8, "B200", Precision.NVFP4, release=V1_3, weight_bytes=40e9),
        ("node-a",),
    ),
    "trtllm-experts": pool(
        spec(
            model=ModelSpec(DEEPSEEK, source=_PVC),
            kv=KVSpec(offload_json='{"size": "512Gi"}'),
            engine=EngineSpec(speculative_json='{"method": "MTP", "tokens": 2}'),
        ),
        planned(1, "B200", Precision.FP8, data_parallel=8, expert_parallel=8, release=V1_3, weight_bytes=680e9),
        ("node-a",),
    ),
    "trtllm-context": pool(
        spec(Role.Prefill, model=ModelSpec(_70B, max_context_tokens=16384), kv=KVSpec(transport="TCP")),
        planned(2),
        ("node-a",),
    ),
    "trtllm-two-pods-stages": pool(
        spec(
            model=ModelSpec(f"{_70B}-FP8", max_context_tokens=32768),
            engine=EngineSpec(args=("--reasoning_parser", "a b")),
        ),
        planned(8, precision=Precision.FP8, pipeline_parallel=2, gpus_per_pod=8, weight_bytes=70e9),
        ("node-a", "node-b"),
    ),
    "trtllm-two-pods-experts-1.3": pool(
        spec(Role.Decode, model=ModelSpec(DEEPSEEK, source=_PVC)),
        planned(
            1,
            "GB200",
            Precision.FP8,
            data_parallel=8,
            expert_parallel=8,
            gpus_per_pod=4,
            release=V1_3,
            weight_bytes=680e9,
        ),
        ("tray-0", "tray-1"),
    ),
    "trtllm-generation-1.3": pool(spec(Role.Decode), planned(4, release=V1_3), ("node-a",)),
}
