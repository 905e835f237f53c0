"""What fits where. Expected values are published ones or follow by hand from the formulas."""

from __future__ import annotations

import pytest

from tests.perf.replicas import Parallel, architecture, replica
from weft.domain.hardware import Precision
from weft.perf import footprint, kv_bytes_per_token, kv_tokens, sequence_bytes_per_gpu
from weft.perf.memory import sequences_that_fit, weight_bytes_per_gpu

KIB, GIB = 1024, 1024**3
LLAMA_70B = "Llama-3.3-70B-Instruct"
DEEPSEEK = "DeepSeek-V3"


@pytest.mark.parametrize(
    ("model_id", "kib"),
    [
        (LLAMA_70B, 320),
        ("Llama-3.1-405B-Instruct", 504),
        ("Qwen3-235B-A22B", 188),
        ("gpt-oss-120b", 72),
        (DEEPSEEK, 68.6),
        ("Kimi-K2-Instruct", 68.6),
        ("gemma-3-27b-it", 496),
        ("Qwen3-Next-80B-A3B-Instruct", 24),  # 12 of 48 layers
        ("Nemotron-H-56B-Base-8K", 40),  # 10 of 118 layers
        ("Llama-3_3-Nemotron-Super-49B-v1", 196),  # 49 of 80 layers
    ],
)
def test_kv_of_a_token_is_the_published_size_and_half_of_it_in_fp8(model_id: str, kib: float) -> None:
    assert kv_bytes_per_token(architecture(model_id)) / KIB == pytest.approx(kib, abs=0.05)
    assert kv_bytes_per_token(architecture(model_id), Precision.FP8) / KIB == pytest.approx(kib / 2, abs=0.05)


@pytest.mark.parametrize(
    ("model_id", "accelerator", "precision", "parallel", "fits"),
    [
        (LLAMA_70B, "H200", Precision.FP8, 1, True),
        (LLAMA_70B, "H100", Precision.BF16, 1, False),
        (LLAMA_70B, "H100", Precision.BF16, 2, False),  # 65.7 of 67 GiB: no room worth the name, see the next case
        (LLAMA_70B, "H100", Precision.BF16, 4, True),
        (DEEPSEEK, "H100", Precision.FP8, 8, False),
        (DEEPSEEK, "H200", Precision.FP8, 8, True),
        (DEEPSEEK, "GB200", Precision.FP8, Parallel(tensor=1, data=8, expert=8), True),
        ("gpt-oss-120b", "H100", Precision.MXFP4, 1, True),
        ("Mixtral-8x7B-Instruct-v0.1", "H100", Precision.BF16, 1, False),
    ],
)
def test_what_fits_with_room_for_eight_sequences_of_8k(
    model_id: str, accelerator: str, precision: Precision, parallel: Parallel | int, *, fits: bool
) -> None:
    assert (sequences_that_fit(replica(model_id, accelerator, precision, parallel), 8192) >= 8) is fits


def test_a_replica_without_room_has_no_tokens_and_a_negative_room() -> None:
    too_small = replica(LLAMA_70B, "H100", Precision.BF16, 1)
    assert footprint(too_small).room_bytes < 0
    assert kv_tokens(too_small, 1000) == 0
    assert sequences_that_fit(too_small, 1000) == 0


def test_weights_of_70b_in_fp8_are_its_parameters_with_16_bit_embeddings() -> None:
    embeddings = 2 * 128256 * 8192
    expected = 70.55e9 + embeddings
    assert weight_bytes_per_gpu(replica(LLAMA_70B, "H200", Precision.FP8)) == pytest.approx(expected, rel=0.001)


# Layer 61, which predicts further tokens: 11.5 GB of 8-bit weights, and copies of embedding and head in 16 bits.
PREDICTION_MODULE = 15.3e9
# Bytes of all tensors: `metadata.total_size` of each repository's model.safetensors.index.json on Hugging Face.
PUBLISHED_CHECKPOINTS = [
    ("Llama-3.1-8B-Instruct", Precision.BF16, 16_060_522_496),
    (LLAMA_70B, Precision.BF16, 141_107_412_992),
    ("Llama-3.1-405B-Instruct", Precision.BF16, 811_706_777_600),
    ("Qwen2.5-72B-Instruct", Precision.BF16, 145_412_407_296),
    ("Qwen3-30B-A3B", Precision.BF16, 61_064_245_248),
    ("Qwen3-235B-A22B", Precision.BF16, 470_187_269_120),
    ("Mixtral-8x7B-Instruct-v0.1", Precision.BF16, 93_405_585_408),
    ("gpt-oss-20b", Precision.MXFP4, 13_761_264_768),
    ("gpt-oss-120b", Precision.MXFP4, 65_248_815_744),
    (DEEPSEEK, Precision.FP8, 688_586_727_753 - PREDICTION_MODULE),
]


@pytest.mark.parametrize(("model_id", "precision", "published"), PUBLISHED_CHECKPOINTS)
def test_weights_are_those_of_the_published_checkpoint(model_id: str, precision: Precision, published: float) -> None:
    """Within 2 %: norms, biases and the scales of blocks are not counted."""
    assert weight_bytes_per_gpu(replica(model_id, "B300", precision)) == pytest.approx(published, rel=0.02)


def test_one_gpu_holds_what_vllm_logs_when_it_has_loaded_a_model() -> None:
    """`Loading model weights took 14.9888 GB`, by which vLLM means GiB, of Llama 3.1 8B on one GPU."""
    alone = weight_bytes_per_gpu(replica("Llama-3.1-8B-Instruct", "H100", Precision.BF16))
    assert alone / GIB == pytest.approx(14.9888, rel=0.01)


@pytest.mark.parametrize(("tensor", "kib_on_a_gpu"), [(1, 320), (4, 80), (8, 40)])
def test_the_room_holds_as_many_tokens_as_it_is_long(tensor: int, kib_on_a_gpu: float) -> None:
    """As in vLLM's `GPU KV cache size`: what is available on a GPU over the share of a token that it keeps."""
    group = replica(LLAMA_70B, "H200", Precision.FP8, tensor)
    assert kv_tokens(group, 1000) == int(footprint(group).room_bytes / (kib_on_a_gpu * KIB))


def test_tensor_parallelism_divides_weights_evenly() -> None:
    one = weight_bytes_per_gpu(replica(LLAMA_70B, "H200", Precision.FP8, 1))
    assert weight_bytes_per_gpu(replica(LLAMA_70B, "H200", Precision.FP8, 8)) == pytest.approx(one / 8)


def test_kv_stops_dividing_past_the_kv_heads() -> None:
    by_heads = sequence_bytes_per_gpu(replica(LLAMA_70B, "GB200", Precision.FP8, 8), 1000)
    assert sequence_bytes_per_gpu(replica(LLAMA_70B, "GB200", Precision.FP8, 4), 1000) == pytest.approx(2 * by_heads)
    assert sequence_bytes_per_gpu(replica(LLAMA_70B, "GB200", Precision.FP8, 16), 1000) == pytest.approx(by_heads)


def test_latent_kv_is_not_divided_by_tensor_parallelism() -> None:
    alone = sequence_bytes_per_gpu(replica(DEEPSEEK, "H200", Precision.FP8, 1), 1000)
    assert sequence_bytes_per_gpu(replica(DEEPSEEK, "H200", Precision.FP8, 8), 1000) == alone


def test_data_parallel_attention_multiplies_latent_kv_room() -> None:
    """The reason why large latent-attention models are served with data-parallel attention."""
    tensor = replica(DEEPSEEK, "H200", Precision.FP8, Parallel(tensor=8, expert=8))
    data = replica(DEEPSEEK, "H200", Precision.FP8, Parallel(tensor=1, data=8, expert=8))
    assert kv_tokens(data, 2000) > 4 * kv_tokens(tensor, 2000)


def test_experts_are_spread_over_the_whole_group() -> None:
    eight = weight_bytes_per_gpu(replica(DEEPSEEK, "GB200", Precision.FP8, Parallel(data=8, expert=8)))
    sixteen = weight_bytes_per_gpu(replica(DEEPSEEK, "GB200", Precision.FP8, Parallel(data=16, expert=16)))
    experts = 58 * 256 * 3 * 7168 * 2048
    assert eight - sixteen == pytest.approx(experts / 16)


def test_a_window_caps_what_its_layers_keep() -> None:
    short = sequence_bytes_per_gpu(replica("gpt-oss-120b", "H100", Precision.MXFP4), 128)
    long = sequence_bytes_per_gpu(replica("gpt-oss-120b", "H100", Precision.MXFP4), 1280)
    assert short == 128 * 72 * KIB
    assert long == (1280 + 128) / 2 * 72 * KIB


def test_full_layers_with_heads_of_their_own_keep_theirs_beyond_the_window() -> None:
    gemma = replica("gemma-4-31B-it", "H200", Precision.BF16)
    window, full = 50 * 2 * 16 * 256 * 2, 10 * 2 * 4 * 512 * 2  # bytes of a token, by kind of layer
    assert sequence_bytes_per_gpu(gemma, 1024) == 1024 * (window + full)
    assert sequence_bytes_per_gpu(gemma, 9024) == 1024 * window + 9024 * full


def test_a_selector_keeps_an_eight_bit_key_and_its_scale_of_every_token() -> None:
    """132 bytes a token and layer, whatever the precision of the KV cache; layers that borrow a selection keep none."""
    plain, sparse = kv_bytes_per_token(architecture(DEEPSEEK)), kv_bytes_per_token(architecture("DeepSeek-V3.2"))
    assert sparse - plain == 61 * 132
    owning, sharing = kv_bytes_per_token(architecture("GLM-5")), kv_bytes_per_token(architecture("GLM-5.3"))
    assert owning - sharing == (78 - 21) * 132


def test_a_recurrence_keeps_a_state_that_does_not_grow_and_splits_by_heads() -> None:
    """Qwen3-Next: 32 heads of 128 x 128 values in 32 bits, and 3 tokens of 8192 channels in 16 bits, in 36 layers."""
    one = replica("Qwen3-Next-80B-A3B-Instruct", "H200", Precision.BF16)
    two = replica("Qwen3-Next-80B-A3B-Instruct", "H200", Precision.BF16, 2)
    states = 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)
    assert sequence_bytes_per_gpu(one, 1) == states + 24 * KIB
    assert sequence_bytes_per_gpu(one, 1001) - sequence_bytes_per_gpu(one, 1) == 1000 * 24 * KIB
    assert sequence_bytes_per_gpu(two, 1001) == sequence_bytes_per_gpu(one, 1001) / 2


def test_pipeline_stages_share_layers_weights_and_kv() -> None:
    one = replica("Llama-3.1-405B-Instruct", "H100", Precision.FP8, Parallel(tensor=8))
    two = replica("Llama-3.1-405B-Instruct", "H100", Precision.FP8, Parallel(tensor=8, pipeline=2))
    assert sequence_bytes_per_gpu(two, 1000) == pytest.approx(sequence_bytes_per_gpu(one, 1000) / 2)
    assert weight_bytes_per_gpu(two) == pytest.approx(weight_bytes_per_gpu(one) / 2)
