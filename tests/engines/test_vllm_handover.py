"""Between which tensor groups vLLM's connectors transfer KV, as its handshake has it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from weft.catalog import architecture_from_config, load
from weft.domain.model import LinearAttention
from weft.engines.vllm.handover import vllm_states_conflict, vllm_tensor_conflict

if TYPE_CHECKING:
    from weft.domain.model import Architecture


def of(model: str) -> Architecture:
    architecture = load().architecture(model)
    assert architecture is not None
    return architecture


QWEN = of("Qwen3-30B-A3B")  # with 4 KV heads


def test_mooncake_joins_unequal_groups_from_its_own_release_on() -> None:
    for prefill_size, decode_size in ((8, 4), (4, 8)):
        why = vllm_tensor_conflict("0.18.1", "Mooncake", QWEN, prefill_size, decode_size)
        assert why is not None
        assert "over Mooncake" in why
        assert vllm_tensor_conflict("0.19.0", "Mooncake", QWEN, prefill_size, decode_size) is None
    assert vllm_tensor_conflict("0.18.1", "Mooncake", QWEN, 4, 4) is None


@pytest.mark.parametrize(
    ("version", "prefill_size", "decode_size", "joins"),
    [
        ("0.11.2", 4, 4, True),
        ("0.11.2", 4, 8, True),
        ("0.13.0", 4, 2, False),
        ("0.14.0", 4, 2, True),
        ("v0.32.0", 8, 1, True),
        ("0.32.0", 6, 4, False),
    ],
)
def test_unequal_groups_are_joined_where_the_version_can(
    version: str,
    prefill_size: int,
    decode_size: int,
    joins: bool,  # noqa: FBT001 - a column of the table
) -> None:
    why = vllm_tensor_conflict(version, "NIXL", of("Llama-3.1-8B-Instruct"), prefill_size, decode_size)
    assert (why is None) is joins
    assert why is None or (f"TP {prefill_size}" in why and f"TP {decode_size}" in why)


@pytest.mark.parametrize(
    ("version", "prefill_size", "decode_size", "why"),
    [
        ("0.32.0", 8, 4, "of prefill, more than the 4 KV heads of Qwen/Qwen3-30B-A3B, to the smaller TP 4 of decode"),
        ("0.33.0", 8, 1, "allowed: TP up to 4 in prefill, or no larger TP in prefill than in decode"),
        ("0.32.0", 8, 8, None),
        ("0.32.0", 4, 1, None),
        ("0.20.0", 4, 1, None),
        ("0.19.1", 4, 1, "TP 4 of prefill, no fewer than the 4 KV heads of Qwen/Qwen3-30B-A3B, to the smaller TP 1"),
        ("0.19.1", 2, 1, None),
        ("0.24.0", 4, 8, None),
        ("0.23.0", 4, 8, "TP 8 of decode, more than the 4 KV heads of Qwen/Qwen3-30B-A3B; allowed: 0.24.0 or later"),
        ("0.23.0", 2, 4, None),
        ("0.19.1", 4, 8, None),
        ("0.19.1", 2, 8, "allowed: 0.24.0 or later, TP up to 4 in decode"),
    ],
)
def test_copied_heads_are_joined_where_the_release_can(
    version: str, prefill_size: int, decode_size: int, why: str | None
) -> None:
    """The handshake asserts it, and decode then computes all prompts itself."""
    said = vllm_tensor_conflict(version, "NIXL", QWEN, prefill_size, decode_size)
    assert (said is None) is (why is None)
    assert why is None or (said is not None and why in said)


def test_latent_kv_has_no_such_heads() -> None:
    assert vllm_tensor_conflict("0.32.0", "NIXL", of("DeepSeek-V3"), 8, 1) is None


@pytest.mark.parametrize(
    ("model", "prefill_size", "decode_size", "why"),
    [
        ("Qwen3-Next-80B-A3B-Instruct", 4, 4, None),
        ("Qwen3-Next-80B-A3B-Instruct", 2, 1, None),
        ("Qwen3-Next-80B-A3B-Instruct", 2, 4, "allowed: the same TP in both, or TP up to 2 in both"),
        ("Qwen3-Next-80B-A3B-Instruct", 8, 4, "from TP 8 of prefill to TP 4 of decode, of which the larger copies KV"),
        ("Kimi-Linear-48B-A3B-Instruct", 2, 1, "allowed: the same TP in both"),
    ],
)
def test_states_beside_copied_kv_are_moved_between_equal_groups(
    model: str, prefill_size: int, decode_size: int, why: str | None
) -> None:
    """Blocks of KV are as large as a state, which is cut where KV is copied: they would hold fewer tokens."""
    said = vllm_tensor_conflict("0.32.0", "NIXL", of(model), prefill_size, decode_size)
    assert (said is None) is (why is None)
    assert why is None or (said is not None and why in said)


def of_jamba() -> Architecture:
    """Mamba's first version, which has a state for each channel, beside grouped attention."""
    hybrid = of("Qwen3-Next-80B-A3B-Instruct")
    kinds = ((block, block.mixer) for block in hybrid.blocks)
    return replace(
        hybrid,
        blocks=tuple(
            replace(block, mixer=replace(mixer, value_dim=1)) if isinstance(mixer, LinearAttention) else block
            for block, mixer in kinds
        ),
    )


def of_minimax() -> Architecture:
    """Lightning attention, as in MiniMax M1, and full attention."""
    return architecture_from_config(
        "MiniMax",
        json.dumps(
            {
                "architectures": ["MiniMaxM1ForCausalLM"],
                "hidden_size": 64,
                "num_hidden_layers": 2,
                "attn_type_list": [0, 1],
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "head_dim": 16,
                "intermediate_size": 64,
                "num_local_experts": 4,
                "num_experts_per_tok": 2,
                "vocab_size": 100,
                "max_position_embeddings": 1000,
                "torch_dtype": "bfloat16",
            }
        ),
    )


@pytest.mark.parametrize(
    ("version", "architecture", "drafts", "why"),
    [
        ("0.21.0", of("Qwen3-Next-80B-A3B-Instruct"), False, "allowed: 0.22.0 or later"),
        ("0.22.0", of("Qwen3-Next-80B-A3B-Instruct"), False, None),
        ("0.23.0", of("Qwen3-Next-80B-A3B-Instruct"), True, "version 0.23.0 drafts no tokens beside the states"),
        ("0.24.0", of("Qwen3-Next-80B-A3B-Instruct"), True, None),
        ("0.26.0", of("Kimi-Linear-48B-A3B-Instruct"), False, "allowed: 0.27.0 or later"),
        ("0.27.0", of("Kimi-Linear-48B-A3B-Instruct"), False, None),
        ("0.24.0", of_jamba(), False, "allowed: 0.25.0 or later"),
        ("0.25.0", of_jamba(), False, None),
        ("0.32.0", of_minimax(), False, "those of lightning attention"),
        ("0.14.0", QWEN, True, None),
    ],
    ids=[
        *("before", "since", "drafts-before", "drafts-since", "latent-before", "latent-since"),
        *("mamba-1-before", "mamba-1-since", "lightning", "without"),
    ],
)
def test_states_are_moved_by_releases_that_can(
    version: str,
    architecture: Architecture,
    drafts: bool,  # noqa: FBT001 - a column of the table
    why: str | None,
) -> None:
    said = vllm_states_conflict(version, architecture, drafts=drafts)
    assert (said is None) is (why is None)
    assert why is None or (said is not None and why in said)


def test_mooncake_joins_copied_heads() -> None:
    assert vllm_tensor_conflict("0.32.0", "Mooncake", QWEN, 8, 1) is None


def test_the_fewest_heads_of_any_layer_count() -> None:
    """Gemma 4 has two in layers that see everything and eight in windows."""
    assert vllm_tensor_conflict("0.32.0", "NIXL", of("gemma-4-26B-A4B-it"), 2, 1) is None
    said = vllm_tensor_conflict("0.32.0", "NIXL", of("gemma-4-26B-A4B-it"), 4, 1)
    assert said is not None
    assert "the 2 KV heads" in said
