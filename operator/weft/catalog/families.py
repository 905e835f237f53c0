"""The supported architecture classes, and how the `config.json` of each is read.

`defaults` are the class defaults of `transformers` for fields that published files of the family leave out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weft.catalog import feed_forwards, mixers
from weft.catalog.irregular import pruned_blocks, single_halves

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.catalog.fields import Fields
    from weft.domain.model import FeedForward, Mixer

    Layer = tuple[Mixer | None, FeedForward | None]

MOST_LAYERS = 1000
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
        layers = fields.size("num_hidden_layers")
        if layers > MOST_LAYERS:
            fields.refuse(f"num_hidden_layers must be at most {MOST_LAYERS}, not {layers}")
        return list(zip(mixer(fields, layers), feed_forward(fields, layers), strict=True))

    return read


_LLAMA4 = Family("llama4", _regular(mixers.chunked, feed_forwards.interleaved_experts))
_QWEN3_MOE = _regular(_WINDOW_SWITCH, feed_forwards.every_nth_has_experts)
_QWEN_HYBRID = _regular(mixers.delta_rule_and_full)
_QWEN_HYBRID_MOE = _regular(mixers.delta_rule_and_full, feed_forwards.every_nth_has_experts)
_LATENT_MOE = _regular(mixers.latent, feed_forwards.all_but_the_first_have_experts)
_DEEPSEEK = Family("deepseek", _LATENT_MOE)
_SPARSE_DEEPSEEK = Family("deepseek-sparse", _LATENT_MOE)
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
    "MistralForCausalLM": Family("mistral", _regular(_WINDOW_IF_SET)),
    "Mistral3ForConditionalGeneration": Family("mistral", _regular(_WINDOW_IF_SET)),
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
    "DeepseekV2ForCausalLM": _DEEPSEEK,
    "DeepseekV3ForCausalLM": _DEEPSEEK,
    "DeepseekV32ForCausalLM": _SPARSE_DEEPSEEK,
    "KimiK25ForConditionalGeneration": _DEEPSEEK,
    "Glm4MoeForCausalLM": Family("glm4-moe", _regular(feed_forward=feed_forwards.all_but_the_first_have_experts)),
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
}
