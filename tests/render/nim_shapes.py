"""Pools in NVIDIA's NIM for any model, by the name of their golden file."""

from __future__ import annotations

from typing import Any

from tests.render.pools import LLAMA, plan, pool, shape, spec
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, EngineRelease, Plan
from weft.domain.spec import EngineSpec, KVSpec, ModelSource, ModelSpec, PodSpec, PoolSpec, RolloutSpec, SourceKind

NIM_VLLM = EngineRelease(EngineName.VLLM, "0.31.0", "nvcr.io/nim/nvidia/vllm-model-free-nim:2.1.5")
NIM_SGLANG = EngineRelease(EngineName.SGLang, "0.5.21", "nvcr.io/nim/nvidia/sglang-model-free-nim:2.1.5")
WRITES = PodSpec(image_pull_secrets=("ngc",), relaxations=("WritableRoot",), permitted=("WritableRoot",))
_70B = "meta-llama/Llama-3.3-70B-Instruct"
_KEPT = ModelSource(SourceKind.HuggingFace, _70B, revision="6f6073b", token_secret=("hub", "token"), cache="models")
_PVC = ModelSource(SourceKind.PVC, "weights", "llama/8b")


def in_a_nim(release: EngineRelease = NIM_VLLM, engine: EngineSpec | None = None, **parts: Any) -> PoolSpec:  # noqa: ANN401 - fields of PoolSpec
    """A spec that names the image and says which release of the engine it has."""
    named = engine or EngineSpec(name=release.name, version=release.version, image=release.image)
    return spec(engine=named, **{"pod": WRITES, **parts})


def planned(release: EngineRelease = NIM_VLLM, tensor: int = 1, **rest: Any) -> Plan:  # noqa: ANN401 - fields of Shape
    """A plan whose engine is in that image."""
    return plan(shape(tensor, engine=release.name, **rest), release)


NIM_SHAPES = {
    "nim-vllm-tp8-fp8": pool(
        in_a_nim(
            engine=EngineSpec(
                *(EngineName.VLLM, NIM_VLLM.version, NIM_VLLM.image),
                args=("--tool-call-parser", "llama3_json"),
                env=(("NIM_LOG_LEVEL", "INFO"),),
            ),
            model=ModelSpec(_70B, ("chat", "llama"), _KEPT, max_context_tokens=32768),
            kv=KVSpec(Precision.FP8),
            rollout=RolloutSpec(drain_timeout_seconds=60),
        ),
        planned(tensor=8, precision=Precision.FP8),
        ("node-a",),
    ),
    "nim-vllm-claim": pool(in_a_nim(model=ModelSpec(LLAMA, source=_PVC)), planned(), ("node-a",)),
    "nim-sglang": pool(in_a_nim(NIM_SGLANG), planned(NIM_SGLANG), ("node-a",)),
}
