"""The supported architecture classes, and how the `config.json` of each is read.

`defaults` are the class defaults of `transformers` for fields that published files of the family leave out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weft.catalog import feed_forwards, hybrids, mixers
from weft.catalog.irregular import pairs_around_experts, pruned_blocks, single_halves

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.catalog.fields import Fields
    from weft.domain.model import FeedForward, Mixer

    Layer = tuple[Mixer | None, FeedForward | None]

_WINDOW_SWITCH = mixers.windowed(mixers.from_a_layer_on_if_switched_on)
_WINDOW_IF_SET = mixers.windowed(mixers.all_if_set)


@dataclass(frozen=True, slots=True)
class Family:
    """How the layers of one family of models are read: each as a mixer and a feed-forward block."""

    name: str
    layers: Callable[[Fields], list[Layer]]
    tied: bool = False
    defaults: dict[str, Any] = field(default_factory=dict)


def _regular(
    mixer: Callable[[Fields, int], list[Mixer | None]] = mixers.everywhere,
    feed_forward: Callable[[Fields, int], list[FeedForward | None]] = feed_forwards.dense,
) -> Callable[[Fields], list[Layer]]:
    """A reader of layers that have both a mixer and a feed-forward block."""

    def read(fields: Fields) -> list[Layer]:
        layers = fields.number_of_layers()
        return list(zip(mixer(fields, layers), feed_forward(fields, layers), strict=True))

    return read


_MISTRAL = _regular(_WINDOW_IF_SET)


def _mistral_of_any_kind(fields: Fields) -> list[Layer]:
    """Mistral 3 wraps dense models, and since Mistral Large 3 and Small 4 also DeepSeek's architecture."""
    return _LATENT_MOE(fields) if fields.raw("kv_lora_rank") else _MISTRAL(fields)


_LLAMA4 = Family("llama4", _regular(mixers.chunked, feed_forwards.interleaved_experts))
_QWEN3_MOE = _regular(_WINDOW_SWITCH, feed_forwards.every_nth_has_experts)
_QWEN_HYBRID = _regular(mixers.delta_rule_and_full)
_QWEN_HYBRID_MOE = _regular(mixers.delta_rule_and_full, feed_forwards.every_nth_has_experts)
_AFTER_THE_FIRST = feed_forwards.all_but_the_first()
_NUMBERED = feed_forwards.all_but_the_first("num_experts", "num_shared_experts")
_LATENT_MOE = _regular(mixers.latent, _AFTER_THE_FIRST)
_DEEPSEEK = Family("deepseek", _LATENT_MOE)
_DEEPSEEK_V2 = Family("deepseek-v2", _LATENT_MOE)  # before V3 it had no heads that draft, nor have others built like it
_SPARSE_DEEPSEEK = Family("deepseek-sparse", _LATENT_MOE)
_MISTRAL3 = Family("mistral", _mistral_of_any_kind, defaults={"first_k_dense_replace": 0})
_EXPERTS_AFTER_ONE = {"first_k_dense_replace": 1}
_COHERE2 = Family("cohere2", _regular(mixers.windowed(mixers.all_but_one_in(4))), tied=True)
_ERNIE = Family("ernie4.5-moe", _regular(feed_forward=feed_forwards.between_two_layers), tied=True)
_EXAONE_WINDOWS = mixers.windowed(mixers.all_but_one_in(4))
_KIMI_LINEAR = _regular(
    hybrids.delta_rule_and_latent,
    feed_forwards.all_but_the_first("num_experts", "num_shared_experts", "num_experts_per_token"),
)
_BAILING = Family("bailing-moe", _regular(feed_forward=_NUMBERED), defaults={"first_k_dense_replace": 0})
_MINIMAX = Family("minimax-text", _regular(hybrids.lightning_and_full, feed_forwards.local_experts))
_MIMO2 = Family("mimo-v2", _regular(mixers.full_and_local_heads, _AFTER_THE_FIRST), defaults=_EXPERTS_AFTER_ONE)
_UNGATED = _regular(_WINDOW_IF_SET, feed_forwards.ungated)
_QWEN2_VL = Family("qwen2", _regular(_WINDOW_SWITCH))
_GEMMA3 = Family(
    "gemma3",
    _regular(mixers.windowed(mixers.all_but_every_nth)),
    tied=True,
    # Google's files leave these to Gemma3TextConfig.
    defaults={
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262_208,
        "max_position_embeddings": 131_072,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
    },
)
_GEMMA4 = Family("gemma4", _regular(mixers.global_and_local, feed_forwards.experts_beside_dense), tied=True)

FAMILIES: dict[str, Family] = {
    "LlamaForCausalLM": Family("llama", _regular()),
    "Llama4ForCausalLM": _LLAMA4,
    "Llama4ForConditionalGeneration": _LLAMA4,
    "MistralForCausalLM": Family("mistral", _MISTRAL),
    "MinistralForCausalLM": Family("mistral", _MISTRAL),
    "Ministral3ForCausalLM": Family("mistral", _MISTRAL),
    "Mistral3ForConditionalGeneration": _MISTRAL3,
    "Mistral4ForCausalLM": _MISTRAL3,
    "MistralLarge3ForCausalLM": _DEEPSEEK_V2,
    "MixtralForCausalLM": Family("mixtral", _regular(_WINDOW_IF_SET, feed_forwards.local_experts)),
    "Qwen2ForCausalLM": Family("qwen2", _regular(_WINDOW_SWITCH)),
    "Qwen2MoeForCausalLM": Family("qwen2-moe", _QWEN3_MOE),
    "Qwen3ForCausalLM": Family("qwen3", _regular(_WINDOW_SWITCH)),
    "Qwen3MoeForCausalLM": Family("qwen3-moe", _QWEN3_MOE),
    "Qwen3VLForConditionalGeneration": Family("qwen3", _regular(_WINDOW_SWITCH)),
    "Qwen3VLMoeForConditionalGeneration": Family("qwen3-moe", _QWEN3_MOE),
    "Qwen3NextForCausalLM": Family("qwen3-hybrid", _QWEN_HYBRID_MOE),
    "Qwen3_5ForConditionalGeneration": Family("qwen3-hybrid", _QWEN_HYBRID),
    "Qwen3_5MoeForConditionalGeneration": Family("qwen3-hybrid", _QWEN_HYBRID_MOE),
    "DeepseekV2ForCausalLM": _DEEPSEEK_V2,
    "DeepseekV3ForCausalLM": _DEEPSEEK,
    "DeepseekV32ForCausalLM": _SPARSE_DEEPSEEK,
    "KimiK25ForConditionalGeneration": _DEEPSEEK_V2,
    "Glm4MoeForCausalLM": Family("glm4-moe", _regular(feed_forward=_AFTER_THE_FIRST)),
    "GlmMoeDsaForCausalLM": _SPARSE_DEEPSEEK,
    "MiniMaxM2ForCausalLM": Family("minimax-m2", _regular(feed_forward=feed_forwards.local_experts)),
    "GptOssForCausalLM": Family("gpt-oss", _regular(mixers.windowed(mixers.every_second), feed_forwards.local_experts)),
    "Gemma2ForCausalLM": Family("gemma2", _regular(mixers.windowed(mixers.every_second)), tied=True),
    "Gemma3ForCausalLM": _GEMMA3,
    "Gemma3ForConditionalGeneration": _GEMMA3,
    "Gemma4ForCausalLM": _GEMMA4,
    "Gemma4ForConditionalGeneration": _GEMMA4,
    "Phi3ForCausalLM": Family("phi3", _regular(_WINDOW_IF_SET)),
    "PhiMoEForCausalLM": Family("phi-moe", _regular(_WINDOW_IF_SET, feed_forwards.local_experts)),
    "NemotronHForCausalLM": Family("nemotron-h", single_halves),
    "DeciLMForCausalLM": Family("llama-nemotron", pruned_blocks),
    "ApertusForCausalLM": Family("apertus", _UNGATED),
    "ArceeForCausalLM": Family("arcee", _UNGATED),
    "AXK1ForCausalLM": _DEEPSEEK,
    "BailingMoeForCausalLM": _BAILING,
    "BailingMoeV2ForCausalLM": _BAILING,
    "CohereForCausalLM": Family("cohere", _regular(), tied=True),
    "Cohere2ForCausalLM": _COHERE2,
    "Cohere2VisionForConditionalGeneration": _COHERE2,
    "DeepseekForCausalLM": Family("deepseek-moe", _regular(feed_forward=_AFTER_THE_FIRST)),
    "Dots1ForCausalLM": Family("dots1", _regular(mixers.windowed(mixers.nowhere), _AFTER_THE_FIRST)),
    "Ernie4_5ForCausalLM": Family("ernie4.5", _regular(), tied=True),
    "Ernie4_5_MoeForCausalLM": _ERNIE,
    "Ernie4_5_MoEForCausalLM": _ERNIE,
    "Exaone4ForCausalLM": Family("exaone4", _regular(_EXAONE_WINDOWS)),
    "ExaoneMoEForCausalLM": Family("exaone-moe", _regular(_EXAONE_WINDOWS, _NUMBERED), defaults=_EXPERTS_AFTER_ONE),
    "FalconH1ForCausalLM": Family("falcon-h1", hybrids.attention_and_mamba_in_every_layer),
    "GemmaForCausalLM": Family("gemma", _regular(), tied=True),
    "GlmForCausalLM": Family("glm", _regular()),
    "Glm4ForCausalLM": Family("glm4", _regular()),
    "Glm4MoeLiteForCausalLM": Family("deepseek", _LATENT_MOE, defaults=_EXPERTS_AFTER_ONE),
    "Glm4vForConditionalGeneration": Family("glm4", _regular()),
    "Glm4vMoeForConditionalGeneration": Family("glm4-moe", _regular(feed_forward=_AFTER_THE_FIRST)),
    "GraniteForCausalLM": Family("granite", _regular()),
    "GraniteMoeForCausalLM": Family("granite-moe", _regular(feed_forward=feed_forwards.local_experts)),
    "GraniteMoeSharedForCausalLM": Family("granite-moe", _regular(feed_forward=feed_forwards.local_experts)),
    "GraniteMoeHybridForCausalLM": Family(
        "granite-hybrid", _regular(hybrids.mamba_beside_attention, hybrids.granite_feed_forward)
    ),
    "HunYuanDenseV1ForCausalLM": Family("hunyuan", _regular()),
    "HunYuanMoEV1ForCausalLM": Family("hunyuan-moe", _regular(feed_forward=feed_forwards.alike_in_every_layer)),
    "HYV3ForCausalLM": Family("hunyuan-v3", _regular(feed_forward=_NUMBERED), defaults=_EXPERTS_AFTER_ONE),
    "InternLM2ForCausalLM": Family("llama", _regular()),
    "InternLM3ForCausalLM": Family("llama", _regular()),
    "JambaForCausalLM": Family("jamba", hybrids.jamba),
    "KimiLinearForCausalLM": Family("kimi-linear", _KIMI_LINEAR),
    "KimiVLForConditionalGeneration": _DEEPSEEK_V2,
    "LongcatFlashForCausalLM": Family("longcat-flash", pairs_around_experts),
    "MiMoForCausalLM": Family("mimo", _regular(_WINDOW_SWITCH)),
    "MiMoV2FlashForCausalLM": _MIMO2,
    "MiniMaxForCausalLM": _MINIMAX,
    "MiniMaxM1ForCausalLM": _MINIMAX,
    "MiniMaxText01ForCausalLM": _MINIMAX,
    "NemotronForCausalLM": Family("nemotron", _UNGATED),
    "OlmoForCausalLM": Family("olmo", _regular()),
    "Olmo2ForCausalLM": Family("olmo", _regular()),
    "Olmo3ForCausalLM": Family("olmo", _regular(mixers.windowed(mixers.all_but_one_in(4)))),
    "OlmoeForCausalLM": Family("olmoe", _regular(feed_forward=feed_forwards.experts_in_every_layer)),
    "Qwen2VLForConditionalGeneration": _QWEN2_VL,
    "Qwen2_5_VLForConditionalGeneration": _QWEN2_VL,
    "Qwen3_5ForCausalLM": Family("qwen3-hybrid", _QWEN_HYBRID),
    "Qwen3_5MoeForCausalLM": Family("qwen3-hybrid", _QWEN_HYBRID_MOE),
    "SeedOssForCausalLM": Family("seed-oss", _regular()),
    "SmolLM3ForCausalLM": Family("smollm3", _regular(_WINDOW_SWITCH), tied=True),
    "SolarOpenForCausalLM": Family(
        "glm4-moe", _regular(feed_forward=_AFTER_THE_FIRST), defaults={"first_k_dense_replace": 0}
    ),
    "StableLmForCausalLM": Family("stablelm", _regular()),
    "Starcoder2ForCausalLM": Family("starcoder2", _UNGATED, tied=True),
}
