"""One pool for each way to build a replica, by the name of its golden file."""

from __future__ import annotations

from dataclasses import replace

from tests.render.amd_shapes import AMD_SHAPES
from tests.render.nim_shapes import NIM_SHAPES
from tests.render.option_shapes import OPTION_SHAPES
from tests.render.pools import (
    DEEPSEEK,
    LLAMA,
    RELEASE,
    behind_a_gateway,
    over_nvlink,
    plan,
    pool,
    queued,
    shape,
    sharing,
    spec,
)
from tests.render.sglang_shapes import SGLANG_SHAPES
from tests.render.tensorrt_llm_shapes import TENSORRT_LLM_SHAPES
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, EngineRelease
from weft.domain.spec import (
    Balancing,
    EngineSpec,
    KVSpec,
    ModelSource,
    ModelSpec,
    PlacementSpec,
    PodSpec,
    RolloutSpec,
    SchedulerName,
    SourceKind,
    Toleration,
)
from weft.domain.status import Handover
from weft.domain.workload import Role

_PVC = ModelSource(SourceKind.PVC, "weights", "deepseek/v3")
_GATED = ModelSource(
    SourceKind.HuggingFace, "meta-llama/Llama-3.3-70B-Instruct", revision="6f6073b", token_secret=("hub", "token")
)
_WARM = ModelSource(SourceKind.HuggingFace, LLAMA, warm_up=True)
_KUEUE = PlacementSpec(scheduler=SchedulerName.Kueue, queue="inference", node_selector=(("tier", "gold"),))
_GB200 = ("nvidia.com/gpu.product", ("NVIDIA-GB200",))
_CLIQUE = "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1"
_WITH_RAY = EngineRelease(EngineName.VLLM, "0.32.0", "registry.example/vllm-with-ray:v0.32.0")
_WITH_EFA = EngineRelease(EngineName.VLLM, "0.32.0", "registry.example/vllm-with-efa:v0.32.0")
_EFA = (("memory", "256Gi"), ("hugepages-2Mi", "5120Mi"), ("vpc.amazonaws.com/efa", "16"))
_TWO_STAGES = shape(8, "GB200", Precision.FP8, pipeline_parallel=2, gpus_per_pod=4)

SHAPES = {
    **SGLANG_SHAPES,
    **NIM_SHAPES,
    "aggregated-tp1": pool(
        spec(
            engine=EngineSpec(
                args=("--max-num-seqs", "128"), env=(("LOG", "1"),), resources=(("cpu", "8"), ("memory", "64Gi"))
            ),
            placement=PlacementSpec(tolerations=(Toleration("team", "Equal", "llm", "NoSchedule"),)),
            pod=PodSpec(
                (("team", "llm"),),
                (("note", "x"),),
                "engines",
                ("pull",),
                runtime_class="nvidia",
                priority_class="high",
            ),
        ),
        plan(),
        ("node-a",),
    ),
    "aggregated-tp8-fp8": pool(
        spec(
            model=ModelSpec("meta-llama/Llama-3.3-70B-Instruct", ("chat", "llama"), _GATED, max_context_tokens=32768),
            kv=KVSpec(Precision.FP8),
            rollout=RolloutSpec(drain_timeout_seconds=60),
        ),
        plan(shape(8, precision=Precision.FP8), weight_bytes=70e9),
        ("node-a",),
    ),
    "two-pods-tp16": pool(
        spec(model=ModelSpec(DEEPSEEK, source=_PVC)),
        plan(shape(16, "GB200", Precision.FP8, gpus_per_pod=8), weight_bytes=680e9),
        ("tray-0", "tray-1"),
    ),
    "prefill": pool(spec(Role.Prefill), plan(shape(2)), ("node-a",)),
    "prefill-offload": pool(
        spec(Role.Prefill, kv=KVSpec(offload_json='{"size": "64Gi"}')), plan(shape(2)), ("node-a",)
    ),
    "decode-mooncake-offload": pool(
        spec(Role.Decode, kv=KVSpec(connector="Mooncake", offload_json='{"size":"64Gi"}')),
        plan(shape(2), replace(RELEASE, version="0.33.0", image="vllm/vllm-openai:v0.33.0")),
        ("node-a",),
    ),
    "prefill-mooncake": pool(spec(Role.Prefill, kv=KVSpec(connector="Mooncake")), plan(shape(2)), ("node-a",)),
    "prefill-efa": pool(
        spec(Role.Prefill, kv=KVSpec(transport="EFA"), engine=EngineSpec(image=_WITH_EFA.image, resources=_EFA)),
        plan(shape(4), _WITH_EFA),
        ("node-a",),
    ),
    "prefill-nvlink": over_nvlink(
        pool(spec(Role.Prefill), plan(shape(4, "GB200", Precision.FP8)), ("tray-0",)), _CLIQUE
    ),
    "decode-nvlink-two-pods": over_nvlink(
        pool(
            spec(Role.Decode, model=ModelSpec(DEEPSEEK, source=_PVC)),
            plan(shape(8, "GB200", Precision.FP8, gpus_per_pod=4), weight_bytes=680e9),
            ("tray-1", "tray-2"),
        ),
        *(2 * (_CLIQUE,)),
    ),
    "prefill-rdma-relaxed": pool(
        spec(
            Role.Prefill,
            kv=KVSpec(transport="RDMA"),
            engine=EngineSpec(resources=(("rdma/hca", "1"),)),
            pod=PodSpec(relaxations=("RunAsRoot", "IPCLock"), permitted=("RunAsRoot", "IPCLock")),
        ),
        plan(shape(2)),
        ("node-a",),
    ),
    "decode-cpu": pool(
        spec(Role.Decode, engine=EngineSpec(resources=(("memory", "16Gi"),))),
        plan(shape(1, "cpu", Precision.FP32)),
        ("node-a",),
    ),
    "decode-at-a-gateway": behind_a_gateway(pool(spec(Role.Decode), plan(shape(2)), ("node-a",))),
    "prefill-at-a-gateway-two-pods": behind_a_gateway(
        pool(
            spec(Role.Prefill, model=ModelSpec(LLAMA, source=_WARM)),
            plan(shape(16, "GB200", Precision.FP8, gpus_per_pod=8), weight_bytes=16e9),
            ("tray-0", "tray-1"),
        )
    ),
    "experts-one-pod": pool(
        spec(model=ModelSpec(DEEPSEEK, source=_PVC)),
        plan(shape(1, "H200", Precision.FP8, data_parallel=8, expert_parallel=8), weight_bytes=680e9),
        ("node-a",),
    ),
    "experts-two-pods": pool(
        spec(model=ModelSpec(DEEPSEEK, source=_PVC)),
        plan(shape(2, "GB200", Precision.FP8, data_parallel=4, expert_parallel=8, gpus_per_pod=4), weight_bytes=680e9),
        ("tray-0", "tray-1"),
    ),
    "experts-hybrid": pool(
        spec(model=ModelSpec(DEEPSEEK, source=_PVC), balancing=Balancing.Hybrid),
        plan(shape(2, "GB200", Precision.FP8, data_parallel=4, expert_parallel=8, gpus_per_pod=4), weight_bytes=680e9),
        ("tray-0", "tray-1"),
    ),
    "experts-external-decode": pool(
        spec(Role.Decode, model=ModelSpec(DEEPSEEK, source=_PVC), balancing=Balancing.External),
        plan(shape(4, "GB200", Precision.FP8, data_parallel=2, expert_parallel=8, gpus_per_pod=4), weight_bytes=680e9),
        ("tray-0", "tray-1"),
    ),
    "experts-multi-port": pool(
        spec(model=ModelSpec(DEEPSEEK, source=_PVC), balancing=Balancing.MultiPort),
        plan(shape(2, "GB200", Precision.FP8, data_parallel=4, expert_parallel=8, gpus_per_pod=4), weight_bytes=680e9),
        ("tray-0", "tray-1"),
    ),
    "ray-two-pods": pool(
        spec(model=ModelSpec(DEEPSEEK, source=_PVC), engine=EngineSpec(image=_WITH_RAY.image, distributed="Ray")),
        plan(shape(8, "GB200", Precision.FP8, pipeline_parallel=2, gpus_per_pod=8), _WITH_RAY, weight_bytes=680e9),
        ("tray-0", "tray-1"),
    ),
    "ray-experts": pool(
        spec(model=ModelSpec(DEEPSEEK, source=_PVC), engine=EngineSpec(image=_WITH_RAY.image, distributed="Ray")),
        plan(
            shape(2, "GB200", Precision.FP8, data_parallel=4, expert_parallel=8, gpus_per_pod=4),
            _WITH_RAY,
            weight_bytes=680e9,
        ),
        ("tray-0", "tray-1"),
    ),
    "shared-context": pool(
        spec(model=ModelSpec(DEEPSEEK, source=_PVC)),
        plan(shape(8, "H200", Precision.FP8, decode_context_parallel=8), weight_bytes=680e9),
        ("node-a",),
    ),
    "shared-prompts-two-pods": pool(
        spec(Role.Prefill, model=ModelSpec(DEEPSEEK, source=_PVC)),
        plan(
            shape(4, "GB200", Precision.FP8, prefill_context_parallel=2, expert_parallel=8, gpus_per_pod=4),
            weight_bytes=680e9,
        ),
        ("tray-0", "tray-1"),
    ),
    "compute-domain": sharing(
        pool(
            spec(model=ModelSpec(DEEPSEEK, source=_PVC)),
            plan(shape(8, "GB200", Precision.FP8, gpus_per_pod=4), weight_bytes=680e9),
            ("tray-0", "tray-1"),
        ),
        *(2 * (_CLIQUE,)),
    ),
    "compute-domain-stages": sharing(
        pool(
            spec(model=ModelSpec(DEEPSEEK, source=_PVC)),
            plan(_TWO_STAGES, weight_bytes=680e9),
            ("tray-0", "tray-1", "other-0", "other-1"),
        ),
        *(_CLIQUE, _CLIQUE, "", ""),
    ),
    "kueue-one-pod": queued(
        pool(spec(placement=_KUEUE), plan(shape(8))),
        Handover(
            SchedulerName.Kueue,
            "inference",
            1,
            "kubernetes.io/hostname",
            1,
            ("nvidia.com/gpu.product", ("NVIDIA-H200", "NVIDIA-H200-141GB")),
        ),
    ),
    "kueue-one-domain": queued(
        pool(
            spec(model=ModelSpec(DEEPSEEK, source=_PVC), placement=_KUEUE, pod=PodSpec((), (("note", "x"),))),
            plan(shape(16, "GB200", Precision.FP8, gpus_per_pod=8), weight_bytes=680e9),
        ),
        Handover(SchedulerName.Kueue, "inference", 2, "nvidia.com/gpu.clique", 2, _GB200),
    ),
    "kueue-stages": queued(
        pool(spec(model=ModelSpec(DEEPSEEK, source=_PVC), placement=_KUEUE), plan(_TWO_STAGES, weight_bytes=680e9)),
        Handover(SchedulerName.Kueue, "inference", 4, "nvidia.com/gpu.clique", 2, _GB200),
    ),
    **TENSORRT_LLM_SHAPES,
    **OPTION_SHAPES,
    **AMD_SHAPES,
}
