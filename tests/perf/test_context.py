"""What sharing a context saves and costs: arithmetic by hand, and laws of any split."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.perf.replicas import Parallel, architecture, replica
from weft.domain.hardware import Precision
from weft.domain.model import GroupedAttention, LatentAttention, kv_copies
from weft.perf import ReplicaModel, kv_bytes_per_token, kv_tokens, sequence_bytes_per_gpu
from weft.perf.memory import weight_bytes_per_gpu
from weft.perf.steps import stepper

LLAMA_70B = "Llama-3.3-70B-Instruct"
DEEPSEEK = "DeepSeek-V3"
QWEN_MOE = "Qwen3-235B-A22B"
MODELS = [
    LLAMA_70B,
    DEEPSEEK,
    QWEN_MOE,
    "DeepSeek-V3.2",
    "gpt-oss-120b",
    "gemma-3-27b-it",
    "Qwen3-Next-80B-A3B-Instruct",
    "Nemotron-H-56B-Base-8K",
]
SIZES = st.sampled_from([1, 2, 4, 8, 16, 32, 64])
CONTEXTS = st.floats(min_value=1, max_value=1e6)


def deepseek(decode_context: int = 1, tensor: int = 8) -> ReplicaModel:
    return replica(DEEPSEEK, "H200", Precision.FP8, Parallel(tensor=tensor, decode_context=decode_context))


def sharing(model: ReplicaModel, decode_context: int) -> ReplicaModel:
    return replace(model, shape=replace(model.shape, decode_context_parallel=decode_context))


def test_latent_kv_is_copied_to_all_and_grouped_kv_past_its_heads() -> None:
    """Qwen3-235B has 4 KV heads: TP8 keeps two copies. A recurrence keeps none twice."""
    blocks = {model: architecture(model).blocks for model in (DEEPSEEK, QWEN_MOE, "Qwen3-Next-80B-A3B-Instruct")}
    assert {8} == {kv_copies(block.mixer, 8) for block in blocks[DEEPSEEK]}
    assert [1, 2, 4] == [kv_copies(blocks[QWEN_MOE][0].mixer, tensor) for tensor in (4, 8, 16)]
    assert {1, 8} == {kv_copies(block.mixer, 16) for block in blocks["Qwen3-Next-80B-A3B-Instruct"]}


def test_eight_gpus_that_share_a_latent_context_keep_an_eighth_each() -> None:
    """What vLLM reports: the KV cache holds as many times the tokens as GPUs share it."""
    assert sequence_bytes_per_gpu(deepseek(8), 65536) == sequence_bytes_per_gpu(deepseek(), 65536) / 8
    assert kv_tokens(deepseek(8), 65536) == pytest.approx(8 * kv_tokens(deepseek(), 65536), rel=1e-6)


def test_grouped_kv_is_shared_only_among_those_that_keep_the_same_heads() -> None:
    """8 KV heads on 32 GPUs: 4 copies, so that more than 4 share no more."""
    llama = replica(LLAMA_70B, "GB200", Precision.FP8, 32)
    alone = sequence_bytes_per_gpu(llama, 1000)
    assert [1, 2, 4, 4] == [alone / sequence_bytes_per_gpu(sharing(llama, among), 1000) for among in (1, 2, 4, 8)]


@given(st.sampled_from(MODELS), SIZES, CONTEXTS)
def test_all_parts_of_a_shared_context_together_are_one_copy(model_id: str, tensor: int, context: float) -> None:
    """Memory is conserved: what the GPUs of a group keep is what one GPU alone would, states and windows included."""
    model = replica(model_id, "GB200", Precision.FP8)
    mixers = [block.mixer for block in model.architecture.blocks if block.mixer is not None]
    copies = {kv_copies(mixer, tensor) for mixer in mixers if isinstance(mixer, GroupedAttention | LatentAttention)}
    group = replace(model, shape=replace(model.shape, tensor_parallel=tensor, decode_context_parallel=max(copies)))
    together = tensor * sequence_bytes_per_gpu(group, context)
    assert together == pytest.approx(sequence_bytes_per_gpu(model, context))


@given(st.sampled_from(MODELS), SIZES, SIZES, SIZES, CONTEXTS)
def test_sharing_a_context_among_more_never_takes_more_memory(
    model_id: str, tensor: int, few: int, many: int, context: float
) -> None:
    """Of KV on each GPU; weights stay where they are."""
    assume(few <= many <= tensor)
    model = replica(model_id, "GB200", Precision.FP8, tensor)
    less, more = sharing(model, few), sharing(model, many)
    assert sequence_bytes_per_gpu(more, context) <= sequence_bytes_per_gpu(less, context)
    assert weight_bytes_per_gpu(model) == weight_bytes_per_gpu(more)


def test_a_shared_context_is_read_once_and_computed_as_before() -> None:
    alone, shared = stepper(deepseek()).decode(16, 65536), stepper(deepseek(8)).decode(16, 65536)
    assert shared.work.attention_read == pytest.approx(alone.work.attention_read / 8)
    assert alone.work.attention_math == shared.work.attention_math
    assert alone.parts.gathers == 0


def test_a_decode_step_gathers_queries_and_scatters_outputs_in_three_collectives_a_layer() -> None:
    """DeepSeek TP8: 7 others' 16 heads of 576 + 512 values in 16 bits, and 8 sums of 4 bytes with each."""
    model, batch = deepseek(8), 10
    step = stepper(model).decode(batch, 4096)
    received = 61 * batch * 7 * 16 * (1088 * 2 + 8 * 4)
    assert 3 * 61 == step.work.gathers
    assert received / model.accelerator.scale_up_bandwidth == pytest.approx(step.work.gather_seconds)
    reached = model.efficiency
    seconds = 3 * 61 * reached.collective_seconds + step.work.gather_seconds / reached.collective_bandwidth
    assert seconds == pytest.approx(step.parts.gathers)


def test_sharing_is_worth_it_for_long_contexts_and_not_for_short_ones() -> None:
    """Collectives cost the same at any length, reading grows with it."""
    short = [stepper(deepseek(among)).decode(4, 500).seconds for among in (1, 8)]
    long = [stepper(deepseek(among)).decode(4, 128_000).seconds for among in (1, 8)]
    assert short[0] < short[1]
    assert long[0] > long[1]


def test_a_prompt_that_looks_back_gathers_what_others_keep_of_it() -> None:
    """In two steps, the second looks back at half of the prompt; behind a prefix, both look back at that as well."""
    model = deepseek(8)
    steps, link = stepper(model), model.accelerator.scale_up_bandwidth
    others = kv_bytes_per_token(model.architecture) * 7 / 8
    assert 0 == steps.prefill(8192, 0, 1).parts.gathers
    assert others * 8192 / link == pytest.approx(steps.prefill(16384, 0, 2).work.gather_seconds)
    assert others * (8192 + 2 * 1000) / link == pytest.approx(steps.prefill(16384, 1000, 2).work.gather_seconds)
    assert 61 * 2 == steps.prefill(16384, 1000, 2).work.gathers


def test_four_groups_take_a_quarter_of_a_prompt_each_and_gather_the_keys_of_the_rest() -> None:
    sizes = [Parallel(tensor=4, expert=4), Parallel(tensor=4, prefill_context=4, expert=16)]
    alone, four = (stepper(replica(DEEPSEEK, "GB200", Precision.FP8, each)) for each in sizes)
    one, quarter = alone.prefill(65536, 0, 8), four.prefill(65536, 0, 8)
    assert quarter.work.linear_math == one.work.linear_math / 4
    assert quarter.work.attention_math == one.work.attention_math / 4
    assert one.work.linear_read == quarter.work.linear_read
    assert quarter.work.expert_math == pytest.approx(one.work.expert_math / 4)
    kept = kv_bytes_per_token(four.replica.architecture) * 65536
    assert kept * 3 / 4 / four.replica.accelerator.scale_up_bandwidth == pytest.approx(quarter.work.gather_seconds)
    assert quarter.work.exchanges > one.work.exchanges == 0
    assert one.seconds / 4 < quarter.seconds < one.seconds / 2


def test_groups_that_share_prompts_copy_weights_and_kv_but_spread_experts() -> None:
    one = replica(DEEPSEEK, "GB200", Precision.FP8, Parallel(tensor=4, expert=4))
    four = replica(DEEPSEEK, "GB200", Precision.FP8, Parallel(tensor=4, prefill_context=4, expert=16))
    experts = 58 * 256 * 3 * 7168 * 2048
    assert 16 == four.shape.gpus == four.shape.domain_group_gpus
    assert experts / 4 - experts / 16 == pytest.approx(weight_bytes_per_gpu(one) - weight_bytes_per_gpu(four))
    assert sequence_bytes_per_gpu(one, 1000) == sequence_bytes_per_gpu(four, 1000)
    dense = [replica(LLAMA_70B, "GB200", Precision.FP8, Parallel(tensor=4, prefill_context=each)) for each in (1, 4)]
    assert weight_bytes_per_gpu(dense[0]) == weight_bytes_per_gpu(dense[1])


@given(st.sampled_from([DEEPSEEK, LLAMA_70B, "DeepSeek-V3.2"]), st.floats(4096, 1e6), st.sampled_from([2, 4, 8]))
def test_more_groups_never_slow_a_long_prompt_and_never_scale_better_than_their_number(
    model_id: str, tokens: float, groups: int
) -> None:
    """Experts aside, which sixteen GPUs split more finely than four."""
    one = replica(model_id, "GB200", Precision.FP8, Parallel(tensor=4))
    many = replica(model_id, "GB200", Precision.FP8, Parallel(tensor=4, prefill_context=groups))
    before, after = (stepper(each).prefill(tokens, 0, tokens / 8192) for each in (one, many))
    assert after.parts.linear + after.parts.attention < before.parts.linear + before.parts.attention
    assert before.seconds / groups < after.seconds


def test_the_words_of_a_shape_name_what_is_shared() -> None:
    assert str(deepseek(8).shape) == "H200 FP8 TP8 DCP8"
    sizes = Parallel(tensor=4, prefill_context=4, expert=16)
    assert str(replica(DEEPSEEK, "GB200", Precision.FP8, sizes).shape) == "GB200 FP8 TP4 PCP4 EP16"
