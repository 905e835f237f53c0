"""Dense blocks and experts, layer by layer, as each family writes them; and layers that have one half only."""

from __future__ import annotations

from typing import Any

import pytest

from tests.catalog.configs import (
    DECI,
    DEEPSEEK,
    DEEPSEEK_SPARSE,
    GEMMA4,
    GPT_OSS,
    LLAMA4,
    NEMOTRON_H,
    QWEN_MOE,
    read,
    without,
)
from weft.domain.errors import Invalid
from weft.domain.model import Block, Dense, Experts, GroupedAttention, LinearAttention


def test_experts_of_each_family() -> None:
    assert (read(DEEPSEEK).experts, read(DEEPSEEK).expert_layers) == (Experts(64, 6, 1408, shared_width=2816), 31)
    assert (read(QWEN_MOE).experts, read(QWEN_MOE).expert_layers) == (Experts(128, 8, 768), 15)
    assert (read(GPT_OSS).experts, read(GPT_OSS).expert_layers) == (Experts(32, 4, 14336), 32)
    assert (read(LLAMA4).experts, read(LLAMA4).expert_layers) == (Experts(16, 1, 14336, shared_width=14336), 16)


def test_layers_without_experts_are_dense() -> None:
    assert read(DEEPSEEK).blocks[0] == Block(1, read(DEEPSEEK).blocks[1].mixer, Dense(14336))
    assert {block.feed_forward for block in read(LLAMA4).blocks} == {Dense(16384), read(LLAMA4).experts}


@pytest.mark.parametrize("config", [DEEPSEEK, QWEN_MOE, GPT_OSS, LLAMA4, NEMOTRON_H])
def test_more_experts_per_token_than_there_are_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=r"num_experts_per_tok 513 is more than all \d+ experts"):
        read(config, num_experts_per_tok=513)


def test_lists_of_layers_say_where_experts_are() -> None:
    assert read(LLAMA4, moe_layers=[3, 4, 31]).expert_layers == 3
    kinds = ["dense"] * 3 + ["sparse"] * 29
    assert read(DEEPSEEK_SPARSE, mlp_layer_types=kinds).expert_layers == 29
    with pytest.raises(Invalid, match="mlp_layer_types must hold dense or sparse for each of 32 layers"):
        read(DEEPSEEK_SPARSE, mlp_layer_types=["sparse"])


@pytest.mark.parametrize("layers", [["1"], [True], [[]]])
def test_what_is_no_layer_number_is_refused(layers: list[object]) -> None:
    with pytest.raises(Invalid, match="mlp_only_layers must hold layer numbers"):
        read(QWEN_MOE, mlp_only_layers=layers)


def test_gemma_4_has_experts_beside_its_dense_block_when_switched_on() -> None:
    moe = GEMMA4 | {"num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704}
    assert read(moe).experts is None
    assert read(moe, enable_moe_block=True).experts == Experts(128, 8, 704, shared_width=14336)


# --- Nemotron-H -------------------------------------------------------------------------------------------------------

MAMBA = LinearAttention(
    key_heads=8,
    value_heads=128,
    key_dim=256,
    value_dim=64,
    convolution=4,
    gates=1,
    state_bytes_per_value=4.0,
    keys_replicate=True,
)
UNGATED = Experts(512, 22, 2688, shared_width=5376, gated=False)


def test_each_layer_of_a_pattern_is_one_half() -> None:
    attention = GroupedAttention(heads=32, kv_heads=8, head_dim=128, value_dim=128)
    assert read(NEMOTRON_H).blocks == (
        Block(4, MAMBA, None),
        Block(2, None, Dense(14336, gated=False)),
        Block(2, None, UNGATED),
        Block(1, attention, None),
    )


def test_a_list_of_kinds_is_the_same_as_a_pattern() -> None:
    names = {"M": "mamba", "-": "mlp", "E": "moe", "*": "attention"}
    kinds = [names[symbol] for symbol in NEMOTRON_H["hybrid_override_pattern"]]
    listed = without(NEMOTRON_H, "hybrid_override_pattern", "num_hidden_layers")
    assert read(listed, layers_block_type=kinds) == read(NEMOTRON_H)


def test_experts_may_work_on_a_projection_of_the_hidden_state() -> None:
    experts = read(NEMOTRON_H, moe_latent_size=1024).experts
    assert experts is not None
    assert (experts.latent, UNGATED.latent) == (1024, None)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"hybrid_override_pattern": "M-MEM*EMX"}, "'M-MEM[*]EMX' is not understood"),
        ({"hybrid_override_pattern": ""}, "is not understood"),
        ({"hybrid_override_pattern": None}, r"hybrid_override_pattern \(or layers_block_type\) is missing"),
        ({"hybrid_override_pattern": None, "layers_block_type": [[]] * 9}, "is not understood"),
        ({"hybrid_override_pattern": "MM"}, "num_hidden_layers is 9, and 2 layers are described"),
        ({"mamba_num_heads": None}, "mamba_num_heads is missing"),
    ],
)
def test_a_pattern_that_is_not_understood_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint):
        read(NEMOTRON_H, **changes)


# --- DeciLM -----------------------------------------------------------------------------------------------------------


def test_blocks_of_a_pruned_llama_have_their_own_widths_and_may_lack_a_half() -> None:
    """The width is 2/3 of the multiple of the hidden size, rounded up to 256."""

    def attention(kv_heads: int) -> GroupedAttention:
        return GroupedAttention(heads=32, kv_heads=kv_heads, head_dim=128, value_dim=128)

    assert read(DECI).blocks == (
        Block(1, attention(4), Dense(14336)),
        Block(1, None, Dense(3584)),
        Block(1, attention(2), None),
    )


def _with_block(attention: dict[str, Any] | None, ffn: dict[str, Any] | None) -> dict[str, Any]:
    return DECI | {"num_hidden_layers": 1, "block_configs": [{"attention": attention, "ffn": ffn}]}


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (without(DECI, "block_configs"), "block_configs is missing"),
        (DECI | {"num_hidden_layers": 4}, "num_hidden_layers is 4, and 3 layers are described"),
        (_with_block(None, {"ffn_mult": 1.0}), "attention is missing in a block"),
        (_with_block({"n_heads_in_group": 5}, {"ffn_mult": 1.0}), "n_heads_in_group 5 does not divide"),
        (_with_block({"n_heads_in_group": 8}, {}), "ffn_mult is missing"),
        (_with_block({"replace_with_linear": True}, {"ffn_mult": 1.0}), "replaced, sparse or windowed"),
        (_with_block({"n_heads_in_group": 8, "window_length": 512}, {"ffn_mult": 1.0}), "sparse or windowed"),
    ],
)
def test_blocks_that_are_not_understood_are_refused(config: dict[str, Any], complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint):
        read(config)
