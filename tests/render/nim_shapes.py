"""Pools in NVIDIA's NIM, for any model and for one, by the name of their golden file."""

from __future__ import annotations

from typing import Any

from tests.render.pools import LLAMA, plan, pool, shape, spec
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, EngineRelease, Plan
from weft.domain.spec import EngineSpec, KVSpec, ModelSource, ModelSpec, PodSpec, PoolSpec, RolloutSpec, SourceKind
from weft.engines.images.nim_profiles import PROFILE

NIM_VLLM = EngineRelease(EngineName.VLLM, "0.31.0", "nvcr.io/nim/nvidia/vllm-model-free-nim:2.1.5")
NIM_SGLANG = EngineRelease(EngineName.SGLang, "0.5.21", "nvcr.io/nim/nvidia/sglang-model-free-nim:2.1.5")
ONE_VLLM = EngineRelease(EngineName.VLLM, "0.31.0", "nvcr.io/nim/meta/llama-3.3-70b-instruct:2.1.5")
ONE_SGLANG = EngineRelease(EngineName.SGLang, "0.5.21", "nvcr.io/nim/deepseek-ai/deepseek-v4-flash-0731:2.1.5")
FP8_TP2 = "vllm-fp8-tp2-pp1-41.0"
B200_TP8 = "sglang-nvidia-b200-nvfp4-tp8-pp1-latency-90.0"
WRITES = PodSpec(image_pull_secrets=("ngc",), relaxations=("WritableRoot",), permitted=("WritableRoot",))
_70B = "meta-llama/Llama-3.3-70B-Instruct"
_KEPT = ModelSource(SourceKind.HuggingFace, _70B, revision="6f6073b", token_secret=("hub", "token"), cache="models")
_CACHED = ModelSource(SourceKind.HuggingFace, _70B, token_secret=("hub", "token"), cache="models")
_PVC = ModelSource(SourceKind.PVC, "weights", "llama/8b")


def in_a_nim(release: EngineRelease = NIM_VLLM, engine: EngineSpec | None = None, **parts: Any) -> PoolSpec:  # noqa: ANN401 - fields of PoolSpec
    """A spec that names the image and says which release of the engine it has."""
    named = engine or EngineSpec(name=release.name, version=release.version, image=release.image)
    return spec(engine=named, **{"pod": WRITES, **parts})


def by_profile(profile: str | None, release: EngineRelease = ONE_VLLM, **parts: Any) -> PoolSpec:  # noqa: ANN401 - fields of PoolSpec
    """A spec with a NIM of one model, whose profile it names unless `profile` is None."""
    env = ((PROFILE, profile),) if profile is not None else ()
    engine = EngineSpec(release.name, release.version, release.image, env=env)
    return in_a_nim(release, engine, **{"model": ModelSpec(_70B), **parts})


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
    "nim-of-one-model": pool(
        by_profile(FP8_TP2, model=ModelSpec(_70B, source=_CACHED)),
        planned(ONE_VLLM, tensor=2, precision=Precision.FP8),
        ("node-a",),
    ),
    "nim-of-one-model-sglang": pool(
        by_profile(B200_TP8, ONE_SGLANG, model=ModelSpec("deepseek-ai/DeepSeek-V4-Flash")),
        planned(ONE_SGLANG, tensor=8, precision=Precision.NVFP4, accelerator="B200", expert_parallel=8),
        ("node-a",),
    ),
}
