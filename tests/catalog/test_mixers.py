"""Attention and recurrences, layer by layer, as each family writes them."""

from __future__ import annotations

import pytest

from tests.catalog.configs import (
    DEEPSEEK,
    DEEPSEEK_SPARSE,
    GEMMA4,
    GPT_OSS,
    LLAMA,
    LLAMA4,
    QWEN_HYBRID,
    grouped,
    latent,
    read,
    windows,
    without,
)
from weft.domain.errors import Invalid
from weft.domain.model import GroupedAttention, LinearAttention, TokenSelector

# --- windows ----------------------------------------------------------------------------------------------------------


def test_windows_follow_layer_types_where_they_are_written() -> None:
    kinds = ["sliding_attention"] * 10 + ["full_attention"] * 22
    assert windows(read(GPT_OSS, layer_types=kinds)) == {128: 10, None: 22}
    assert windows(read(GPT_OSS)) == {128: 16, None: 16}


@pytest.mark.parametrize(
    ("kinds", "complaint"),
    [
        (["linear_attention"] * 32, "layer_types holds 'linear_attention'"),
        ([{}] * 32, "layer_types holds"),
        (["full_attention"], "layer_types has 1 entries for 32 layers"),
        ("full_attention", "layer_types must be a list"),
    ],
)
def test_layer_types_that_are_not_understood_are_refused(kinds: object, complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint):
        read(GPT_OSS, layer_types=kinds)


def test_qwen_uses_its_window_only_when_switched_on_and_mistral_if_there_is_one() -> None:
    qwen = LLAMA | {"architectures": ["Qwen2ForCausalLM"], "sliding_window": 4096, "max_window_layers": 28}
    assert windows(read(qwen, use_sliding_window=False)) == {None: 32}
    assert windows(read(qwen, use_sliding_window=True)) == {None: 28, 4096: 4}
    mistral = LLAMA | {"architectures": ["MistralForCausalLM"]}
    assert windows(read(mistral, sliding_window=4096)) == {4096: 32}
    assert windows(read(mistral, sliding_window=None)) == {None: 32}


def test_gemma_3_has_one_full_layer_in_six_and_gemma_2_one_in_two() -> None:
    gemma = LLAMA | {"sliding_window": 1024}
    assert windows(read(gemma, architectures=["Gemma3ForCausalLM"])) == {1024: 27, None: 5}
    assert windows(read(gemma, architectures=["Gemma2ForCausalLM"])) == {1024: 16, None: 16}


def test_a_window_that_layers_need_is_missed() -> None:
    with pytest.raises(Invalid, match="sliding_window is missing"):
        read(without(GPT_OSS, "sliding_window"))


# --- chunks of Llama 4 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {8192: 24, None: 8}),
        ({"no_rope_layers": []}, {8192: 24, None: 8}),
        ({"no_rope_layer_interval": 2}, {8192: 16, None: 16}),
        ({"no_rope_layers": [1] * 30 + [0, 0]}, {8192: 30, None: 2}),
        ({"layer_types": ["chunked_attention"] * 31 + ["full_attention"]}, {8192: 31, None: 1}),
        ({"attention_chunk_size": None}, {None: 32}),
    ],
)
def test_layers_with_rotary_positions_look_at_their_chunk_only(
    changes: dict[str, object], expected: dict[int | None, int]
) -> None:
    assert windows(read(LLAMA4, **changes)) == expected


def test_a_list_of_rotary_layers_must_cover_all() -> None:
    with pytest.raises(Invalid, match="no_rope_layers has 3 entries for 32 layers"):
        read(LLAMA4, no_rope_layers=[1, 1, 0])


# --- global heads of Gemma 4 ------------------------------------------------------------------------------------------


def test_full_layers_of_gemma_4_have_heads_of_their_own_whose_keys_are_their_values() -> None:
    local = GroupedAttention(heads=32, kv_heads=8, head_dim=256, value_dim=256, window_tokens=1024)
    whole = GroupedAttention(heads=32, kv_heads=2, head_dim=512, value_dim=512, keys_are_values=True)
    read_in = read(GEMMA4)
    assert [(block.count, block.mixer) for block in read_in.blocks] == [(5, local), (1, whole)]
    assert read_in.kv_heads == (2, 8)


def test_gemma_4_without_global_sizes_uses_the_same_heads_everywhere() -> None:
    plain = without(GEMMA4, "global_head_dim", "num_global_key_value_heads", "attention_k_eq_v")
    local, whole = grouped(read(plain))
    assert (local.kv_heads, local.head_dim) == (whole.kv_heads, whole.head_dim)
    assert not whole.keys_are_values


def test_gemma_4_does_not_say_which_layers_are_full_unless_they_are_listed() -> None:
    with pytest.raises(Invalid, match="layer_types is missing"):
        read(without(GEMMA4, "layer_types"))


# --- latent attention -------------------------------------------------------------------------------------------------


def test_latent_attention_without_query_compression_has_rank_zero() -> None:
    (mixer,) = latent(read(DEEPSEEK))
    assert (mixer.query_rank, mixer.kv_rank, mixer.selector) == (0, 512, None)
    assert read(DEEPSEEK).kv_heads == ()


def test_a_selector_stands_before_latent_attention_where_a_topk_is_given() -> None:
    (mixer,) = latent(read(DEEPSEEK_SPARSE))
    assert mixer.selector == TokenSelector(heads=64, dim=128, kept_tokens=2048)
    with pytest.raises(Invalid, match="index_n_heads is missing"):
        read(without(DEEPSEEK_SPARSE, "index_n_heads"))


def test_shared_indexers_select_without_work_or_keys_of_their_own() -> None:
    glm = DEEPSEEK_SPARSE | {"architectures": ["GlmMoeDsaForCausalLM"]}
    read_in = read(glm, indexer_types=["full", "shared", "shared", "shared"] * 8)
    owning, borrowing = latent(read_in)
    counts = {
        mixer: sum(block.count for block in read_in.blocks if block.mixer == mixer) for mixer in (owning, borrowing)
    }
    assert counts == {owning: 8, borrowing: 24}
    assert owning.selector == TokenSelector(heads=64, dim=128, kept_tokens=2048)
    assert borrowing.selector == TokenSelector(heads=0, dim=0, kept_tokens=2048)


@pytest.mark.parametrize("owners", [["full"], ["full"] * 31 + ["none"], ["full"] * 31 + [[]]])
def test_indexer_types_must_name_every_layer(owners: list[object]) -> None:
    with pytest.raises(Invalid, match="indexer_types must hold full or shared for each of 32 layers"):
        read(DEEPSEEK_SPARSE, indexer_types=owners)


# --- recurrences ------------------------------------------------------------------------------------------------------


def test_three_layers_of_four_of_a_qwen_hybrid_are_a_gated_delta_rule() -> None:
    linear = LinearAttention(
        key_heads=16, value_heads=48, key_dim=128, value_dim=64, convolution=4, gates=2, state_bytes_per_value=4.0
    )
    full = GroupedAttention(heads=32, kv_heads=8, head_dim=128, value_dim=128, gated=True)
    read_in = read(QWEN_HYBRID)
    assert [(block.count, block.mixer) for block in read_in.blocks] == [(24, linear), (8, full)]
    assert linear.channels == 2 * 16 * 128 + 48 * 64
    assert read_in.heads == 16  # what divides 32 heads, 16 key heads and 48 value heads


def test_the_hybrid_follows_layer_types_an_interval_and_a_missing_gate() -> None:
    kinds = ["linear_attention"] * 31 + ["full_attention"]
    assert [block.count for block in read(QWEN_HYBRID, layer_types=kinds).blocks] == [31, 1]
    assert [block.count for block in read(QWEN_HYBRID, full_attention_interval=2).blocks] == [16, 16]
    assert not grouped(read(QWEN_HYBRID, attn_output_gate=False))[0].gated
    with pytest.raises(Invalid, match="layer_types holds 'sliding_attention'"):
        read(QWEN_HYBRID, layer_types=["sliding_attention"] * 32)


def test_qwen3_next_has_the_same_mixers_and_experts() -> None:
    experts = {"num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512}
    read_in = read(QWEN_HYBRID | experts, architectures=["Qwen3NextForCausalLM"], shared_expert_intermediate_size=256)
    assert [block.mixer for block in read_in.blocks] == [block.mixer for block in read(QWEN_HYBRID).blocks]
    assert read_in.expert_layers == 32
    assert read_in.experts is not None
    assert read_in.experts.shared_width == 256
