"""Configs as publishers write them, of families that the catalog has no model of: parameters, KV and what TP divides.

Counts are those of `transformers` 5.19 for the same fields (LongCat: of its model card). KV is in bytes per token.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from weft.catalog import architecture_from_config, parameter_count
from weft.domain.hardware import Precision
from weft.domain.model import Architecture, GroupedAttention, LinearAttention
from weft.perf.memory import kv_bytes_per_token

_PATTERN = {"layer_types": ["attention" if layer in {5, 15, 25, 35} else "mamba" for layer in range(40)]}
_GRANITE_4 = _PATTERN | {
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 768,
    "shared_intermediate_size": 1536,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 72,
    "num_experts_per_tok": 10,
    "mamba_n_heads": 128,
    "mamba_d_head": 64,
    "mamba_d_state": 128,
    "mamba_n_groups": 1,
    "mamba_expand": 2,
    "mamba_d_conv": 4,
    "vocab_size": 100352,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
}
_COMMAND_A = {
    "architectures": ["Cohere2ForCausalLM"],
    "hidden_size": 12288,
    "intermediate_size": 36864,
    "num_hidden_layers": 64,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
    "sliding_window_pattern": 4,
    "vocab_size": 256000,
    "max_position_embeddings": 131072,
}
_EXAONE_4 = {
    "architectures": ["Exaone4ForCausalLM"],
    "hidden_size": 5120,
    "intermediate_size": 27392,
    "num_hidden_layers": 64,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
    "sliding_window_pattern": "LLLG",
    "vocab_size": 102400,
    "max_position_embeddings": 131072,
}
_K_EXAONE = _EXAONE_4 | {
    "architectures": ["ExaoneMoEForCausalLM"],
    "hidden_size": 6144,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 64,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_shared_experts": 1,
    "vocab_size": 153600,
}
_HUNYUAN_A13B = {
    "architectures": ["HunYuanMoEV1ForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 3072,
    "moe_intermediate_size": [3072] * 32,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "attention_head_dim": 128,
    "num_experts": 64,
    "moe_topk": [8] * 32,
    "num_shared_expert": [1] * 32,
    "use_cla": False,
    "vocab_size": 128167,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
}
_ERNIE_300B = {
    "architectures": ["Ernie4_5_MoeForCausalLM"],
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "moe_intermediate_size": 3584,
    "num_hidden_layers": 54,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "moe_num_experts": 64,
    "moe_num_shared_experts": 0,
    "moe_k": 8,
    "moe_layer_start_index": 3,
    "moe_layer_end_index": 53,
    "moe_layer_interval": 1,
    "vocab_size": 103424,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}
_FALCON_H1 = {
    "architectures": ["FalconH1ForCausalLM"],
    "hidden_size": 5120,
    "intermediate_size": 21504,
    "num_hidden_layers": 72,
    "num_attention_heads": 20,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "mamba_d_ssm": 4096,
    "mamba_n_heads": 32,
    "mamba_d_head": 128,
    "mamba_n_groups": 2,
    "mamba_d_state": 256,
    "mamba_d_conv": 4,
    "vocab_size": 261120,
    "max_position_embeddings": 262144,
}
_JAMBA_LARGE = {
    "architectures": ["JambaForCausalLM"],
    "hidden_size": 8192,
    "intermediate_size": 24576,
    "num_hidden_layers": 72,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "vocab_size": 65536,
    "max_position_embeddings": 262144,
}
_KIMI_LINEAR = {
    "architectures": ["KimiLinearForCausalLM"],
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "moe_intermediate_size": 1024,
    "num_hidden_layers": 27,
    "num_attention_heads": 32,
    "q_lora_rank": None,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "linear_attn_config": {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "num_heads": 32,
        "head_dim": 128,
        "short_conv_kernel_size": 4,
    },
    "num_experts": 256,
    "num_experts_per_token": 8,
    "num_shared_experts": 1,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "vocab_size": 163840,
    "model_max_length": 1048576,
}
_MINIMAX_M1 = {
    "architectures": ["MiniMaxM1ForCausalLM"],
    "hidden_size": 6144,
    "intermediate_size": 9216,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "attn_type_list": [int((layer + 1) % 8 == 0) for layer in range(80)],
    "num_local_experts": 32,
    "num_experts_per_tok": 2,
    "shared_intermediate_size": 0,
    "vocab_size": 200064,
    "max_position_embeddings": 10240000,
}
_LONGCAT = {
    "architectures": ["LongcatFlashForCausalLM"],
    "hidden_size": 6144,
    "ffn_hidden_size": 12288,
    "expert_ffn_hidden_size": 2048,
    "num_layers": 28,
    "num_attention_heads": 64,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 512,
    "zero_expert_num": 256,
    "moe_topk": 12,
    "vocab_size": 131072,
    "max_position_embeddings": 131072,
}
_MIMO_V2 = {
    "architectures": ["MiMoV2FlashForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 16384,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 192,
    "v_head_dim": 128,
    "swa_num_key_value_heads": 8,
    "sliding_window": 128,
    "hybrid_layer_pattern": [int(0 < layer and (layer + 1) % 6 != 0) for layer in range(48)],
    "moe_layer_freq": [0, *[1] * 47],
    "n_routed_experts": 256,
    "n_shared_experts": None,
    "num_experts_per_tok": 8,
    "vocab_size": 152576,
    "max_position_embeddings": 262144,
}
_NEMOTRON_340B = {
    "architectures": ["NemotronForCausalLM"],
    "hidden_size": 18432,
    "intermediate_size": 73728,
    "num_hidden_layers": 96,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "vocab_size": 256000,
    "max_position_embeddings": 4096,
}
_DOTS = {
    "architectures": ["Dots1ForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "num_hidden_layers": 62,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "n_routed_experts": 128,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "first_k_dense_replace": 1,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
}
_OLMOE = {
    "architectures": ["OlmoeForCausalLM"],
    "hidden_size": 2048,
    "intermediate_size": 1024,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_experts": 64,
    "num_experts_per_tok": 8,
    "vocab_size": 50304,
    "max_position_embeddings": 4096,
}
_GLM_FLASH = {
    "architectures": ["Glm4MoeLiteForCausalLM"],
    "hidden_size": 2048,
    "intermediate_size": 10240,
    "moe_intermediate_size": 1536,
    "num_hidden_layers": 47,
    "num_attention_heads": 20,
    "q_lora_rank": 768,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64,
    "v_head_dim": 256,
    "n_routed_experts": 64,
    "n_shared_experts": 1,
    "num_experts_per_tok": 4,
    "vocab_size": 154880,
    "max_position_embeddings": 202752,
}


def _read(config: dict[str, Any]) -> Architecture:
    return architecture_from_config("somebody/else", json.dumps({"torch_dtype": "bfloat16"} | config))


@pytest.mark.parametrize(
    ("config", "billions", "kv_bytes", "divided"),
    [
        (_GRANITE_4, 32.21, 16_384, 32),
        (_COMMAND_A, 111.06, 262_144, 96),
        (_EXAONE_4, 32.00, 262_144, 40),
        (_K_EXAONE, 236.57, 196_608, 64),
        (_HUNYUAN_A13B, 80.39, 131_072, 32),
        (_ERNIE_300B, 299.48, 221_184, 64),
        (_FALCON_H1, 33.64, 147_456, 4),
        (_JAMBA_LARGE, 398.56, 36_864, 64),
        (_KIMI_LINEAR, 49.13, 8_064, 32),
        (_MINIMAX_M1, 456.09, 40_960, 64),
        (_LONGCAT, 560.0, 64_512, 64),
        (_MIMO_V2, 308.78, 222_720, 64),
        (_NEMOTRON_340B, 341.03, 589_824, 96),
        (_DOTS, 142.77, 1_015_808, 32),
        (_OLMOE, 6.92, 131_072, 16),
        (_GLM_FLASH, 29.94, 54_144, 20),
    ],
    ids=lambda value: value["architectures"][0] if isinstance(value, dict) else "",
)
def test_parameters_kv_and_heads(config: dict[str, Any], billions: float, kv_bytes: int, divided: int) -> None:
    architecture = _read(config)
    assert parameter_count(architecture) == pytest.approx(billions * 1e9, rel=0.005)
    assert kv_bytes_per_token(architecture) == kv_bytes
    assert architecture.heads == divided


def test_windows_have_the_layers_that_the_pattern_leaves_them() -> None:
    for config, full in ((_COMMAND_A, 16), (_EXAONE_4, 16), (_MIMO_V2, 9)):
        mixers = [block.mixer for block in _read(config).blocks for _ in range(block.count)]
        wide = [each for each in mixers if isinstance(each, GroupedAttention) and each.window_tokens is None]
        assert len(wide) == full
    without = _read(_EXAONE_4 | {"sliding_window": None})
    assert {getattr(block.mixer, "window_tokens", 0) for block in without.blocks} == {None}


def test_recurrences_keep_what_vllm_keeps() -> None:
    """Mamba's states in 16 bits, those of a delta rule and of lightning attention in 32; none grows with a context."""
    kept: list[float] = []
    config: dict[str, Any]
    for config in (_GRANITE_4, _JAMBA_LARGE, _KIMI_LINEAR, _MINIMAX_M1):
        mixers = {block.mixer for block in _read(config).blocks if isinstance(block.mixer, LinearAttention)}
        (mixer,) = mixers
        values = mixer.value_heads * mixer.key_dim * mixer.value_dim
        kept.append(values * mixer.state_bytes_per_value)
    assert kept == [128 * 64 * 128 * 2, 16384 * 16 * 2, 32 * 128 * 128 * 4, 64 * 128 * 128 * 4]


def test_granite_without_experts_has_its_shared_block_alone() -> None:
    dense = _read(_GRANITE_4 | {"num_local_experts": 0, "num_experts_per_tok": 0})
    assert dense.experts is None
    assert parameter_count(dense) < parameter_count(_read(_GRANITE_4)) / 5


def test_the_language_model_of_a_wrapper_is_read_by_its_own_name() -> None:
    outer = {"architectures": ["InternVLChatModel"], "llm_config": _DOTS | {"torch_dtype": "bfloat16"}}
    assert _read(outer).blocks == _read(_DOTS).blocks


def test_mistral_3_may_wrap_the_architecture_of_deepseek() -> None:
    """Mistral Small 4: 119 billion parameters with latent attention, by the same name as dense ones."""
    text = {
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "moe_intermediate_size": 2048,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "q_lora_rank": 1024,
        "kv_lora_rank": 256,
        "qk_nope_head_dim": 64,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "n_routed_experts": 128,
        "n_shared_experts": 1,
        "num_experts_per_tok": 4,
        "vocab_size": 131072,
        "max_position_embeddings": 1048576,
    }
    quantized = {"quant_method": "fp8", "activation_scheme": "static"}
    outer = {
        "architectures": ["Mistral3ForConditionalGeneration"],
        "text_config": text,
        "quantization_config": quantized,
    }
    architecture = _read(outer)
    assert parameter_count(architecture) == pytest.approx(119e9, rel=0.02)
    assert kv_bytes_per_token(architecture) == 36 * (256 + 64) * 2
    assert architecture.checkpoint_precision is Precision.FP8
