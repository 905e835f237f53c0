"""Small configs of each kind, as strangers write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from weft.catalog import architecture_from_config
from weft.domain.model import GroupedAttention, LatentAttention

if TYPE_CHECKING:
    from weft.domain.model import Architecture

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}
SHORT_LLAMA: dict[str, Any] = LLAMA | {"max_position_embeddings": 8192}
TINY_LLAMA: dict[str, Any] = LLAMA | {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
}
GPT_OSS: dict[str, Any] = LLAMA | {
    "architectures": ["GptOssForCausalLM"],
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
}
DEEPSEEK: dict[str, Any] = LLAMA | {
    "architectures": ["DeepseekV2ForCausalLM"],
    "q_lora_rank": None,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1408,
    "first_k_dense_replace": 1,
}
DEEPSEEK_SPARSE: dict[str, Any] = DEEPSEEK | {
    "architectures": ["DeepseekV32ForCausalLM"],
    "index_n_heads": 64,
    "index_head_dim": 128,
    "index_topk": 2048,
}
QWEN_MOE: dict[str, Any] = LLAMA | {
    "architectures": ["Qwen3MoeForCausalLM"],
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "decoder_sparse_step": 2,
    "mlp_only_layers": [1, 2, 40],
}
QWEN_HYBRID: dict[str, Any] = LLAMA | {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 48,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 64,
    "linear_conv_kernel_dim": 4,
}
LLAMA4: dict[str, Any] = LLAMA | {
    "architectures": ["Llama4ForCausalLM"],
    "attention_chunk_size": 8192,
    "intermediate_size_mlp": 16384,
    "interleave_moe_layer_step": 2,
    "num_local_experts": 16,
    "num_experts_per_tok": 1,
}
GEMMA4: dict[str, Any] = LLAMA | {
    "architectures": ["Gemma4ForCausalLM"],
    "num_hidden_layers": 6,
    "head_dim": 256,
    "global_head_dim": 512,
    "num_global_key_value_heads": 2,
    "attention_k_eq_v": True,
    "sliding_window": 1024,
    "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
}
NEMOTRON_H: dict[str, Any] = LLAMA | {
    "architectures": ["NemotronHForCausalLM"],
    "num_hidden_layers": 9,
    "hybrid_override_pattern": "M-MEM*EM-",
    "head_dim": 128,
    "n_groups": 8,
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "ssm_state_size": 256,
    "conv_kernel": 4,
    "n_routed_experts": 512,
    "n_shared_experts": 1,
    "num_experts_per_tok": 22,
    "moe_intermediate_size": 2688,
    "moe_shared_expert_intermediate_size": 5376,
}
DECI: dict[str, Any] = LLAMA | {
    "architectures": ["DeciLMForCausalLM"],
    "num_hidden_layers": 3,
    "num_key_value_heads": None,
    "intermediate_size": None,
    "block_configs": [
        {"attention": {"n_heads_in_group": 8, "no_op": False}, "ffn": {"ffn_mult": 5.25, "no_op": False}},
        {"attention": {"n_heads_in_group": None, "no_op": True}, "ffn": {"ffn_mult": 1.3125, "no_op": False}},
        {"attention": {"n_heads_in_group": 16, "no_op": False}, "ffn": {"ffn_mult": None, "no_op": True}},
    ],
}
# What other families call what the ones above have; with six layers.
OTHER_NAMES: dict[str, Any] = {
    "moe_num_experts": 64,
    "moe_k": 6,
    "moe_layer_start_index": 1,
    "moe_topk": 8,
    "num_shared_expert": [1] * 6,
    "num_experts_per_token": 8,
    "num_shared_experts": 1,
    "shared_intermediate_size": 1024,
    "mamba_n_heads": 64,
    "mamba_d_state": 128,
    "mamba_d_conv": 4,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "attn_type_list": [0, 0, 0, 1, 0, 0],
    "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0],
    "linear_attn_config": {"full_attn_layers": [4], "num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4},
    "num_layers": 3,
    "ffn_hidden_size": 12288,
    "zero_expert_num": 32,
    "expert_ffn_hidden_size": 2048,
}


def read(config: dict[str, Any], **changes: Any) -> Architecture:  # noqa: ANN401 - whatever JSON holds
    return architecture_from_config("acme/model", json.dumps(config | changes))


def without(config: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in names}


def grouped(architecture: Architecture) -> tuple[GroupedAttention, ...]:
    """The kinds of grouped attention, in the order of their first layer."""
    mixers = dict.fromkeys(block.mixer for block in architecture.blocks)
    return tuple(mixer for mixer in mixers if isinstance(mixer, GroupedAttention))


def latent(architecture: Architecture) -> tuple[LatentAttention, ...]:
    """The kinds of latent attention, in the order of their first layer."""
    mixers = dict.fromkeys(block.mixer for block in architecture.blocks)
    return tuple(mixer for mixer in mixers if isinstance(mixer, LatentAttention))


def windows(architecture: Architecture) -> dict[int | None, int]:
    """How many layers have which window; None for those that look at everything."""
    found: dict[int | None, int] = {}
    for block in architecture.blocks:
        if isinstance(block.mixer, GroupedAttention):
            found[block.mixer.window_tokens] = found.get(block.mixer.window_tokens, 0) + block.count
    return found
