"""Pools on SGLang, by the name of their golden file."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.render.pools import DEEPSEEK, SGLANG, plan, pool, shape, spec
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName
from weft.domain.spec import (
    EngineSpec,
    KVSpec,
    ModelSource,
    ModelSpec,
    RolloutSpec,
    RouterSpec,
    ShapePins,
    SourceKind,
)
from weft.domain.workload import Role

_PVC = ModelSource(SourceKind.PVC, "weights", "deepseek/v3")
_GATED = ModelSource(
    SourceKind.HuggingFace, "meta-llama/Llama-3.3-70B-Instruct", revision="6f6073b", token_secret=("hub", "token")
)
_OLD = replace(SGLANG, version="0.5.3.post3", image="lmsysorg/sglang:v0.5.3.post3")
_WITH_EFA = replace(SGLANG, image="registry.example/sglang-with-efa:v0.5.23")
_shape = partial(shape, engine=EngineName.SGLang)

SGLANG_SHAPES = {
    "sglang-tp1": pool(
        spec(
            engine=EngineSpec(args=("--max-running-requests", "128"), resources=(("cpu", "8"), ("memory", "64Gi"))),
            router=RouterSpec(api_key_secret=("keys", "api")),
        ),
        plan(_shape()),
        ("node-a",),
    ),
    "sglang-tp8-fp8": pool(
        spec(
            model=ModelSpec(
                *("meta-llama/Llama-3.3-70B-Instruct", ("chat",), _GATED),
                max_context_tokens=32768,
                adapters=(("legal", "acme/legal"), ("code", "/adapters/code")),
            ),
            engine=EngineSpec(speculative_json='{"method":"EAGLE3","model":"acme/eagle","tokens":3}'),
            kv=KVSpec(Precision.FP8, offload_json='{"size":"1024G","backend":"Native"}'),
            rollout=RolloutSpec(drain_timeout_seconds=60),
        ),
        plan(_shape(8, precision=Precision.FP8), weight_bytes=70e9),
        ("node-a",),
    ),
    "sglang-two-pods-tp16": pool(
        spec(model=ModelSpec(DEEPSEEK, source=_PVC)),
        plan(_shape(16, "GB200", Precision.FP8, gpus_per_pod=8), weight_bytes=680e9),
        ("tray-0", "tray-1"),
    ),
    "sglang-experts-two-pods": pool(
        spec(model=ModelSpec(DEEPSEEK, source=_PVC), engine=EngineSpec(speculative_json='{"method":"MTP","tokens":1}')),
        plan(_shape(2, "GB200", Precision.FP8, data_parallel=4, expert_parallel=8, gpus_per_pod=4), weight_bytes=680e9),
        ("tray-0", "tray-1"),
    ),
    "sglang-shared-context": pool(
        spec(model=ModelSpec(DEEPSEEK, source=_PVC), shape=ShapePins(decode_context_parallel=8)),
        plan(_shape(8, "B200", Precision.FP8, decode_context_parallel=8), weight_bytes=680e9),
        ("node-a",),
    ),
    "sglang-kv-on-disks": pool(
        spec(kv=KVSpec(offload_json='{"size":"256Gi","diskGiB":2000}')),
        plan(_shape(16, gpus_per_pod=8)),
        ("node-a", "node-b"),
    ),
    "sglang-prefill-offload": pool(
        spec(Role.Prefill, kv=KVSpec(offload_json='{"size":"512Gi","diskGiB":2000}')), plan(_shape(4)), ("node-a",)
    ),
    "sglang-prefill": pool(spec(Role.Prefill), plan(_shape(2)), ("node-a",)),
    "sglang-decode": pool(
        spec(Role.Decode, kv=KVSpec(connector="Mooncake", transport="TCP")), plan(_shape(4)), ("node-a",)
    ),
    "sglang-decode-efa": pool(
        spec(
            Role.Decode,
            kv=KVSpec(transport="EFA"),
            engine=EngineSpec(image=_WITH_EFA.image, resources=(("vpc.amazonaws.com/efa", "16"),)),
        ),
        plan(_shape(4), _WITH_EFA),
        ("node-a",),
    ),
    "sglang-old-decode": pool(
        spec(Role.Decode, model=ModelSpec(DEEPSEEK, source=_PVC)),
        plan(_shape(1, "H200", Precision.FP8, data_parallel=8, expert_parallel=8), _OLD, weight_bytes=680e9),
        ("node-a",),
    ),
}
