"""KV tokens beside vLLM's own number, as it was read from engines on the CPU; e2e reads it anew from each pod."""

from __future__ import annotations

import json

import pytest

from e2e.kv_cache import Blocks, blocks_of, predicted_tokens
from weft.domain.hardware import Precision
from weft.perf import stored_kv

# The model of the end-to-end tests: 2 layers with 2 KV heads of 32 values.
TINY = {
    "architectures": ["LlamaForCausalLM"],
    "dtype": "float32",
    "head_dim": 32,
    "hidden_size": 128,
    "intermediate_size": 256,
    "max_position_embeddings": 2048,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "vocab_size": 258,
}
METRICS = """\
# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="128",cache_dtype="auto",engine="0",num_gpu_blocks="8192"} 1.0
"""


@pytest.mark.parametrize(
    ("precision", "space_gib", "read"),
    [(Precision.FP32, 1, Blocks(8192, 128)), (Precision.BF16, 2, Blocks(32768, 128))],
)
def test_vllm_has_as_many_blocks_as_predicted(precision: Precision, space_gib: float, read: Blocks) -> None:
    """Read from 0.32.0 with `VLLM_CPU_KVCACHE_SPACE` 1 and 2: a token takes 4 or 2 bytes for each of 256 values."""
    tokens = predicted_tokens(json.dumps(TINY), precision, space_gib)
    assert abs(tokens - read.all_tokens) < read.tokens


def test_the_blocks_are_read_from_the_metrics() -> None:
    assert Blocks(8192, 128) == blocks_of(METRICS)


@pytest.mark.parametrize(
    ("wish", "computed", "stored"),
    [
        (None, Precision.FP32, Precision.FP32),
        (Precision.BF16, Precision.FP32, Precision.FP32),
        (None, Precision.BF16, Precision.BF16),
        (None, Precision.FP8, Precision.BF16),
        (None, Precision.NVFP4, Precision.BF16),
        (Precision.FP8, Precision.FP32, Precision.FP8),
        (Precision.FP8, Precision.BF16, Precision.FP8),
    ],
)
def test_kv_is_stored_as_attention_computes_unless_in_8_bits(
    wish: Precision | None, computed: Precision, stored: Precision
) -> None:
    assert stored is stored_kv(wish, computed)
