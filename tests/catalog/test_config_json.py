"""Reading a stranger's config.json: right or refused by name, never guessed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.catalog import architecture_from_config
from weft.catalog.config_json import FAMILIES
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.model import Architecture, Experts
from weft.domain.reasons import Reason

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
QWEN_MOE: dict[str, Any] = LLAMA | {
    "architectures": ["Qwen3MoeForCausalLM"],
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "decoder_sparse_step": 2,
    "mlp_only_layers": [1, 2, 40],
}


def read(config: dict[str, Any], **changes: Any) -> Architecture:  # noqa: ANN401 - whatever JSON holds
    return architecture_from_config("acme/model", json.dumps(config | changes))


def without(config: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != name}


def test_a_plain_config_is_read() -> None:
    expected = Architecture(
        model_id="acme/model",
        family="llama",
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=8,
        head_dim=128,
        ffn_width=14336,
        vocabulary=128256,
        max_context_tokens=131072,
        tied_embeddings=False,
        checkpoint_precision=Precision.BF16,
    )
    assert read(LLAMA) == expected


def test_kv_heads_default_to_heads_and_a_stated_head_dim_wins() -> None:
    assert read(without(LLAMA, "num_key_value_heads")).kv_heads == 32
    assert read(LLAMA, head_dim=64).head_dim == 64


def test_an_unknown_architecture_is_named_with_those_that_are_understood() -> None:
    with pytest.raises(
        Invalid, match=r"'MambaForCausalLM' is not understood; understood are .*LlamaForCausalLM"
    ) as caught:
        read(LLAMA, architectures=["MambaForCausalLM"])
    assert caught.value.reason is Reason.ArchitectureUnsupported


@pytest.mark.parametrize("name", sorted(set(LLAMA) - {"num_key_value_heads"}))
def test_a_missing_field_is_named(name: str) -> None:
    with pytest.raises(Invalid, match=rf"{name}.* is missing"):
        architecture_from_config("acme/model", json.dumps(without(LLAMA, name)))


@pytest.mark.parametrize("value", [0, -1, 1.5, float("nan"), float("inf"), "32", True, [32], 1e300, 10**30])
def test_a_value_that_cannot_be_is_named(value: object) -> None:
    with pytest.raises(Invalid, match="num_hidden_layers must be a whole number"):
        read(LLAMA, num_hidden_layers=value)


def test_heads_must_agree_with_each_other_and_with_the_hidden_size() -> None:
    with pytest.raises(Invalid, match="num_key_value_heads 7 does not divide num_attention_heads 32"):
        read(LLAMA, num_key_value_heads=7)
    with pytest.raises(Invalid, match="head_dim is missing"):
        read(LLAMA, num_attention_heads=24, hidden_size=4000)


def test_latent_attention_without_query_compression_has_rank_zero() -> None:
    latent = read(DEEPSEEK).latent
    assert latent is not None
    assert latent.query_rank == 0


def test_experts_of_each_family() -> None:
    assert read(DEEPSEEK).experts == Experts(64, 6, 1408, shared=2, layers=31)
    assert read(QWEN_MOE).experts == Experts(128, 8, 768, shared=0, layers=15)
    assert read(GPT_OSS).experts == Experts(32, 4, 14336, shared=0, layers=32)


def test_more_experts_per_token_than_there_are_is_refused() -> None:
    with pytest.raises(Invalid, match="num_experts_per_tok 33 is more than all 32 experts"):
        read(GPT_OSS, num_experts_per_tok=33)


def test_windows_follow_layer_types_where_they_are_written() -> None:
    kinds = ["sliding_attention"] * 10 + ["full_attention"] * 22
    assert read(GPT_OSS, layer_types=kinds).window_layers == 10
    assert read(GPT_OSS).window_layers == 16


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


def test_qwen_uses_its_window_only_when_switched_on() -> None:
    qwen = LLAMA | {"architectures": ["Qwen2ForCausalLM"], "sliding_window": 4096, "max_window_layers": 28}
    assert read(qwen, use_sliding_window=False).window_layers == 0
    assert read(qwen, use_sliding_window=True).window_layers == 4
    assert read(LLAMA | {"architectures": ["MistralForCausalLM"], "sliding_window": 4096}).window_layers == 32


def test_a_language_model_inside_a_larger_config_is_found() -> None:
    inner = without(without(LLAMA, "architectures"), "torch_dtype") | {"sliding_window": 1024}
    outer = {"architectures": ["Gemma3ForConditionalGeneration"], "torch_dtype": "bfloat16", "text_config": inner}
    read_in = architecture_from_config("acme/model", json.dumps(outer))
    assert (read_in.layers, read_in.window_layers, read_in.tied_embeddings) == (32, 27, True)


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({"quant_method": "fp8"}, Precision.FP8),
        ({"quant_method": "mxfp4"}, Precision.MXFP4),
        ({"quant_method": "awq", "bits": 4}, Precision.INT4),
        ({"quant_method": "gptq", "bits": 8}, Precision.INT8),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, Precision.NVFP4),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"a": {"weights": {"type": "float", "num_bits": 8}}},
            },
            Precision.FP8,
        ),
    ],
)
def test_the_checkpoint_precision_follows_the_quantisation(quantization: dict[str, Any], expected: Precision) -> None:
    assert read(LLAMA, quantization_config=quantization).checkpoint_precision is expected


@pytest.mark.parametrize(
    "quantization",
    [
        {},
        {"quant_method": "bitsandbytes"},
        {"quant_method": "gptq", "bits": 3},
        {"quant_method": "compressed-tensors"},
        {"quant_method": 8},
        [],
    ],
)
def test_a_quantisation_that_is_not_understood_is_refused(quantization: object) -> None:
    with pytest.raises(Invalid, match="quant"):
        read(LLAMA, quantization_config=quantization)


def test_a_dtype_that_is_not_understood_is_refused() -> None:
    assert read(LLAMA, torch_dtype="float32").checkpoint_precision is Precision.FP32
    with pytest.raises(Invalid, match="torch_dtype 'int3' is not understood"):
        read(LLAMA, torch_dtype="int3")


@given(st.text())
def test_any_text_is_an_architecture_or_invalid(text: str) -> None:
    _read_or_refuse(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
KEYS = sorted({*LLAMA, *GPT_OSS, *DEEPSEEK, *QWEN_MOE, "head_dim", "layer_types", "text_config", "quantization_config"})


@given(
    name=st.sampled_from(sorted(FAMILIES)),
    changes=st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4),
)
def test_any_damage_to_a_config_is_an_architecture_or_invalid(name: str, changes: dict[str, Any]) -> None:
    whole = LLAMA | GPT_OSS | DEEPSEEK | QWEN_MOE | {"architectures": [name]} | changes
    _read_or_refuse(json.dumps(whole))


def _read_or_refuse(text: str) -> None:
    try:
        read_in = architecture_from_config("acme/model", text)
    except Invalid as error:
        assert error.reason is Reason.ArchitectureUnsupported  # noqa: PT017 - either outcome is fine, others are not
        assert error.message.startswith("config.json of acme/model: ")  # noqa: PT017
        return
    assert 0 <= read_in.window_layers <= read_in.layers
    assert 0 <= read_in.dense_layers <= read_in.layers
    assert min(read_in.layers, read_in.hidden, read_in.heads, read_in.kv_heads, read_in.head_dim) > 0
