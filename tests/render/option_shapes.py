"""Pools on vLLM with what users choose beside a shape, by the name of their golden file."""

from __future__ import annotations

from tests.render.pools import DEEPSEEK, LLAMA, plan, pool, shape, spec
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, EngineRelease
from weft.domain.spec import EngineSpec, KVSpec, ModelSource, ModelSpec, SourceKind

_PVC = ModelSource(SourceKind.PVC, "weights", "deepseek/v3")
_S3 = ModelSource(SourceKind.URI, "s3://models/llama", secret="store")
_AZURE = ModelSource(SourceKind.URI, "az://models/llama", secret="store")
_EXPERTS = shape(1, "H200", Precision.FP8, data_parallel=8, expert_parallel=8)
_BALANCED = (
    *("--enable-eplb", "--eplb-config.num_redundant_experts", "32"),
    *("--enable-dbo", "--all2all-backend", "deepep_low_latency"),
)
_KEEPS_ON_DISKS = EngineRelease(EngineName.VLLM, "0.33.0", "vllm/vllm-openai:v0.33.0")
_ORDERLY = ("--structured-outputs-config.backend", "xgrammar", "--scheduling-policy", "priority")


def _drafting(wish: str) -> EngineSpec:
    return EngineSpec(speculative_json=wish)


OPTION_SHAPES = {
    "lmcache-on-disks": pool(
        spec(kv=KVSpec(offload_json='{"backend":"LMCache","size":"256Gi","diskGiB":2000}')),
        plan(shape(8), _KEEPS_ON_DISKS),
        ("node-a",),
    ),
    "adapters": pool(
        spec(
            model=ModelSpec(LLAMA, adapters=(("legal", "acme/legal"), ("code", "/adapters/code")), adapter_rank=64),
            engine=EngineSpec(args=("--max-loras", "1")),
        ),
        plan(),
        ("node-a",),
    ),
    "drafting-mtp": pool(
        spec(model=ModelSpec(DEEPSEEK, source=_PVC), engine=_drafting('{"method": "MTP", "tokens": 1}')),
        plan(_EXPERTS, weight_bytes=680e9),
        ("node-a",),
    ),
    "drafting-eagle3": pool(
        spec(engine=_drafting('{"method": "EAGLE3", "model": "acme/eagle3-llama-3.1-8b"}')), plan(), ("node-a",)
    ),
    "drafting-model": pool(
        spec(engine=_drafting('{"method": "DraftModel", "model": "meta-llama/Llama-3.2-1B-Instruct", "tokens": 5}')),
        plan(shape(2)),
        ("node-a",),
    ),
    "drafting-ngram": pool(spec(engine=_drafting('{"method": "NGram", "tokens": 4}')), plan(), ("node-a",)),
    "streamed-s3": pool(spec(model=ModelSpec(LLAMA, source=_S3)), plan(), ("node-a",)),
    "streamed-azure": pool(spec(model=ModelSpec(LLAMA, source=_AZURE)), plan(shape(2)), ("node-a",)),
    "experts-balanced": pool(
        spec(model=ModelSpec(DEEPSEEK, source=_PVC), engine=EngineSpec(args=_BALANCED)),
        plan(_EXPERTS, weight_bytes=680e9),
        ("node-a",),
    ),
    "structured-by-priority": pool(spec(engine=EngineSpec(args=_ORDERLY)), plan(), ("node-a",)),
}
