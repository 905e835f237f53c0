"""How published weights are stored: one precision, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.catalog.configs import LLAMA, QWEN_HYBRID, read, without
from weft.catalog.parameters import split_widths
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision


def compressed(packing: str | None, kind: str, bits: int) -> dict[str, Any]:
    groups = {"group_0": {"weights": {"type": kind, "num_bits": bits, "strategy": "group", "group_size": 32}}}
    return {"quant_method": "compressed-tensors", "format": packing, "config_groups": groups}


def mixed(**layers: str) -> dict[str, Any]:
    """ModelOpt's table; a double underscore stands for a dot."""
    table = {f"model.{name.replace('__', '.')}": {"quant_algo": algorithm} for name, algorithm in layers.items()}
    return {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": table}


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({"quant_method": "fp8"}, Precision.FP8),
        ({"quant_method": "mxfp4"}, Precision.MXFP4),
        ({"quant_method": "awq", "bits": 4}, Precision.INT4),
        ({"quant_method": "gptq", "bits": 8}, Precision.INT8),
        ({"quant_method": "auto-round", "bits": 4}, Precision.INT4),
        ({"quant_method": "auto-round", "bits": 8, "data_type": "int"}, Precision.INT8),
        ({"quant_method": "auto-round", "bits": 4, "data_type": "mx_fp"}, Precision.MXFP4),
        ({"quant_method": "auto-round", "bits": 4, "data_type": "nv_fp"}, Precision.NVFP4),
        ({"quant_method": "auto-round", "bits": 8, "data_type": "fp8_e4m3"}, Precision.FP8),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}}, Precision.FP8),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4"}}}, Precision.MXFP4),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, Precision.NVFP4),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, Precision.FP8),
        (compressed("float-quantized", "float", 8), Precision.FP8),
        (compressed("int-quantized", "int", 8), Precision.INT8),
        (compressed("pack-quantized", "int", 4), Precision.INT4),
        (compressed("nvfp4-pack-quantized", "float", 4), Precision.NVFP4),
        (compressed("mxfp4-pack-quantized", "float", 4), Precision.MXFP4),
    ],
)
def test_the_checkpoint_precision_follows_the_quantisation(quantization: dict[str, Any], expected: Precision) -> None:
    assert read(LLAMA, quantization_config=quantization).checkpoint_precision is expected


def test_what_hf_quant_config_says_counts_once_it_is_merged_into_the_config() -> None:
    beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    assert read(LLAMA, **beside).checkpoint_precision is Precision.NVFP4
    assert read(LLAMA, quantization={"group_size": 64, "bits": 4}).checkpoint_precision is Precision.BF16  # of MLX
    with pytest.raises(Invalid, match="quant_algo 'W4A8_AWQ' is not understood"):
        read(LLAMA, quantization={"quant_algo": "W4A8_AWQ"})


@pytest.mark.parametrize("weight", [{"dtype": "mx6"}, {}, None])
def test_a_quark_checkpoint_that_is_not_understood_is_refused(weight: dict[str, Any] | None) -> None:
    with pytest.raises(Invalid, match="quant_method 'quark' is not understood as it stands"):
        read(LLAMA, quantization_config={"quant_method": "quark", "global_quant_config": {"weight": weight}})


def test_the_format_of_a_group_counts_more_than_that_of_all() -> None:
    quantization = compressed("mixed-precision", "float", 4)
    quantization["config_groups"]["group_0"]["format"] = "mxfp4-pack-quantized"
    assert read(LLAMA, quantization_config=quantization).checkpoint_precision is Precision.MXFP4


def test_of_a_table_of_layers_the_experts_count_and_else_the_feed_forward_blocks() -> None:
    dense = mixed(layers__0__self_attn__q_proj="FP8", layers__0__mlp__up_proj="W4A16_NVFP4", lm_head="FP8")
    assert read(LLAMA, quantization_config=dense).checkpoint_precision is Precision.NVFP4
    experts = mixed(
        layers__0__mlp__experts="NVFP4", layers__0__mlp__shared_experts__up_proj="FP8", layers__1__mlp__up_proj="FP8"
    )
    assert read(LLAMA, quantization_config=experts).checkpoint_precision is Precision.NVFP4


@pytest.mark.parametrize(
    ("quantization", "complaint"),
    [
        (mixed(layers__0__mlp__up="FP8", layers__1__mlp__up="NVFP4"), "feed-forward blocks as FP8, NVFP4"),
        (mixed(layers__0__mlp__experts="MXFP8"), "feed-forward blocks as MXFP8"),
        (mixed(layers__0__self_attn__q_proj="FP8"), "feed-forward blocks as nothing"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "quantized_layers is missing"),
        ({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}, "quant_algo 'W4A8_AWQ' is not understood"),
        ({"quant_method": "modelopt"}, "quant_algo '' is not understood"),
    ],
)
def test_a_modelopt_checkpoint_that_is_not_understood_is_refused(quantization: dict[str, Any], complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint):
        read(LLAMA, quantization_config=quantization)


@pytest.mark.parametrize(
    "quantization",
    [
        {},
        {"quant_method": "bitsandbytes"},
        {"quant_method": "gptq", "bits": 3},
        {"quant_method": "auto-round", "bits": 8, "data_type": "mx_fp"},
        {"quant_method": "compressed-tensors"},
        {"quant_method": "fp8", "quant_algo": "MIXED_PRECISION"},
        {"quant_method": 8},
        [],
        compressed(None, "float", 8),
        compressed("marlin-24", "int", 4),
        compressed("float-quantized", "float", 4),
        compressed("pack-quantized", "int", 4) | {"config_groups": {"group_0": None}},
        compressed("naive-quantized", "int", 8)
        | {
            "config_groups": {
                str(bits): {"weights": {"type": kind, "num_bits": 8}} for bits, kind in [(1, "int"), (2, "float")]
            }
        },
    ],
)
def test_a_quantisation_that_is_not_understood_is_refused(quantization: object) -> None:
    with pytest.raises(Invalid, match="quant"):
        read(LLAMA, quantization_config=quantization)


def test_the_language_model_may_state_its_own_quantisation_and_dtype() -> None:
    inner = without(LLAMA, "architectures", "torch_dtype")
    outer = {"architectures": ["Qwen3VLForConditionalGeneration"]}
    quantized = inner | {"quantization_config": compressed("pack-quantized", "int", 4)}
    assert read(outer, text_config=quantized).checkpoint_precision is Precision.INT4
    assert read(outer, text_config=inner | {"dtype": "float32"}).checkpoint_precision is Precision.FP32


def test_a_dtype_that_is_not_understood_is_refused() -> None:
    assert read(LLAMA, torch_dtype="float32").checkpoint_precision is Precision.FP32
    with pytest.raises(Invalid, match="torch_dtype 'int3' is not understood"):
        read(LLAMA, torch_dtype="int3")


BLOCKS = {"quant_method": "fp8", "weight_block_size": [64, 128]}


def test_the_block_of_inputs_that_share_a_scale_is_read_where_there_is_one() -> None:
    """Outputs come first in the published files."""
    assert read(LLAMA, quantization_config=BLOCKS).weight_block == 128
    assert read(LLAMA, quantization_config={"quant_method": "fp8"}).weight_block is None
    assert read(LLAMA).weight_block is None


@pytest.mark.parametrize("sides", [[128], [128, 0], [128, "128"], [1, 2, 3], [128, 1.5]])
def test_a_block_that_is_none_is_refused(sides: list[object]) -> None:
    with pytest.raises(Invalid, match=r"weight_block_size must be two whole numbers above 0, not \["):
        read(LLAMA, quantization_config=BLOCKS | {"weight_block_size": sides})


def test_a_tensor_group_splits_the_inputs_of_what_ends_a_mixer_or_a_dense_block() -> None:
    """Heads times their values, of a recurrence too, and the width of the feed-forward block."""
    assert split_widths(read(LLAMA)) == (4096, 14336)
    assert split_widths(read(QWEN_HYBRID)) == (48 * 64, 4096, 14336)
