"""Reading a stranger's config.json: right or refused by name, never guessed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog import configs
from tests.catalog.configs import LLAMA, grouped, read, windows, without
from weft.catalog import architecture_from_config
from weft.catalog.families import FAMILIES
from weft.catalog.fields import MOST_LAYERS
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.model import Architecture, Block, Dense, GroupedAttention
from weft.domain.reasons import Reason


def test_a_plain_config_is_read() -> None:
    attention = GroupedAttention(heads=32, kv_heads=8, head_dim=128, value_dim=128)
    expected = Architecture(
        model_id="acme/model",
        family="llama",
        hidden=4096,
        blocks=(Block(32, attention, Dense(14336)),),
        vocabulary=128256,
        max_context_tokens=131072,
        tied_embeddings=False,
        checkpoint_precision=Precision.BF16,
    )
    assert expected == read(LLAMA)


def test_kv_heads_default_to_heads_and_a_stated_head_dim_wins() -> None:
    assert read(without(LLAMA, "num_key_value_heads")).kv_heads == (32,)
    assert grouped(read(LLAMA, head_dim=64))[0].head_dim == 64


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


def test_more_layers_than_any_model_has_are_refused_however_they_are_written() -> None:
    assert read(LLAMA, num_hidden_layers=MOST_LAYERS).layers == MOST_LAYERS
    with pytest.raises(Invalid, match="num_hidden_layers must be at most 1000, not 1001"):
        read(LLAMA, num_hidden_layers=MOST_LAYERS + 1)
    pattern = "M" * (MOST_LAYERS + 1)
    with pytest.raises(Invalid, match="it has 1001 layers; at most 1000"):
        read(without(configs.NEMOTRON_H, "num_hidden_layers"), hybrid_override_pattern=pattern)


@pytest.mark.parametrize(
    "part", ["hidden_size_per_layer_input", "num_kv_shared_layers", "cross_attention_layers", "hc_mult"]
)
def test_a_part_that_adds_work_and_is_not_understood_is_named_unless_it_is_off(part: str) -> None:
    assert read(LLAMA, **{part: 0}) == read(LLAMA, **{part: None}) == read(LLAMA)
    with pytest.raises(Invalid, match=f"{part} is not understood"):
        read(LLAMA, **{part: 4})


def test_a_model_in_which_no_layer_mixes_tokens_is_refused() -> None:
    with pytest.raises(Invalid, match="no layer mixes tokens"):
        read(configs.NEMOTRON_H, hybrid_override_pattern="-" * 9)


def test_a_language_model_inside_a_larger_config_is_found() -> None:
    inner = without(LLAMA, "architectures", "torch_dtype") | {"sliding_window": 1024}
    outer = {"architectures": ["Gemma3ForConditionalGeneration"], "torch_dtype": "bfloat16", "text_config": inner}
    read_in = architecture_from_config("acme/model", json.dumps(outer))
    assert (read_in.layers, windows(read_in), read_in.tied_embeddings) == (32, {1024: 27, None: 5}, True)


def test_the_language_model_has_the_last_word_on_tied_embeddings() -> None:
    inner = without(LLAMA, "architectures")
    outer = {"architectures": ["Qwen3VLForConditionalGeneration"], "text_config": inner}
    assert not read(outer).tied_embeddings
    assert read(outer, tie_word_embeddings=True).tied_embeddings
    assert not read(outer, tie_word_embeddings=True, text_config=inner | {"tie_word_embeddings": False}).tied_embeddings


@given(st.text())
def test_any_text_is_an_architecture_or_invalid(text: str) -> None:
    assert_read_or_refused(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
WHOLE: dict[str, Any] = (
    configs.DECI
    | configs.NEMOTRON_H
    | configs.GEMMA4
    | configs.LLAMA4
    | configs.QWEN_HYBRID
    | configs.DEEPSEEK_SPARSE
    | configs.QWEN_MOE
    | configs.GPT_OSS
    | configs.OTHER_NAMES
    | {"num_hidden_layers": 6, "hybrid_override_pattern": "M-M*ME", "block_configs": 2 * configs.DECI["block_configs"]}
)
OF_SOME = ["indexer_types", "mlp_layer_types", "moe_layers", "no_rope_layers", "layers_block_type", "enable_moe_block"]
KEYS = sorted({*WHOLE, *OF_SOME, "top_k_experts", "moe_latent_size", "text_config", "quantization_config"})
LISTS = {name: value for name, value in WHOLE.items() if name == "layer_types"}


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_can_be_read(name: str) -> None:
    config = WHOLE if name.startswith("Gemma4") else without(WHOLE, "layer_types")
    architecture = read(config, architectures=[name])
    assert architecture.family == FAMILIES[name].name
    assert architecture.layers == (12 if name.startswith("FalconH1") else 6)  # two mixers in each of its layers


@given(
    name=st.sampled_from(sorted(FAMILIES)),
    changes=st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4),
    lists=st.sampled_from([{}, LISTS]),
)
def test_any_damage_to_a_config_is_an_architecture_or_invalid(
    name: str, changes: dict[str, Any], lists: dict[str, Any]
) -> None:
    whole = without(WHOLE, *LISTS) | lists | {"architectures": [name]} | changes
    assert_read_or_refused(json.dumps(whole))


def assert_read_or_refused(text: str) -> None:
    try:
        read_in = architecture_from_config("acme/model", text)
    except Invalid as error:
        assert error.reason is Reason.ArchitectureUnsupported  # noqa: PT017 - either outcome is fine, others are not
        assert error.message.startswith("config.json of acme/model: ")  # noqa: PT017
        return
    assert 1 <= read_in.layers <= MOST_LAYERS
    assert 0 <= read_in.expert_layers <= read_in.layers
    assert min(read_in.hidden, read_in.heads, read_in.vocabulary, *read_in.kv_heads) > 0
